r"""The Gaussian guide of Bayes by Backprop (Blundell et al. 2015, section 3.2), over unconstrained coordinates.

    q(u) = N(u; mu, diag(sigma^2)),    sigma = log(1 + exp(rho)),    u = mu + sigma * e,   e ~ N(0, I)

`location` is mu, `rho` is rho; both have the shapes of the position. The entropy is sum(log sigma) + P/2 log(2 pi e),
and the expected log prior has a closed form where the prior is normal or Laplace. How the layers use the guide in a
step is the `estimator`, see `inference.variational.per_row`.

Reference: https://arxiv.org/abs/1505.05424.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.target.density import Data, Position, Target
from inference.target.trees import standard_normal
from inference.variational.closed_forms import expected_log_prob
from inference.variational.guide import Drawn, Guide
from inference.variational.per_row import ESTIMATORS, check_layers
from models.validation import one_of, positive_number

__all__ = ["Gaussian", "MeanField", "narrow"]

_FIRST_SCALE = 0.05  # small against the start of a weight, so that the first steps find a fit before a width


class MeanField(NamedTuple):
    """Independent normals, the parameters of the guide: mu is `location`, and sigma follows from `rho`."""

    location: Position
    rho: Position

    @property
    def scale(self) -> Position:
        """The standard deviations sigma."""
        return jax.tree.map(jax.nn.softplus, self.rho)

    def draw(self, key: jax.Array) -> Drawn:
        """One reparameterised draw, mu + sigma * e, and its log density."""
        noise = standard_normal(key, self.location)
        position = jax.tree.map(lambda mean, scale, e: mean + scale * e, self.location, self.scale, noise)
        return Drawn(position, self.log_density(position))

    def log_density(self, position: Position) -> jax.Array:
        """Log q(u)."""
        scores = jax.tree.map(jax.scipy.stats.norm.logpdf, position, self.location, self.scale)
        return sum((jnp.sum(score) for score in scores.values()), start=jnp.zeros(()))

    def entropy(self) -> jax.Array:
        """H[q]."""
        unit = 0.5 * math.log(2 * math.pi * math.e)  # the entropy of one standard normal
        return sum((jnp.sum(jnp.log(scale) + unit) for scale in self.scale.values()), start=jnp.zeros(()))


def narrow(position: Position, scale: float = _FIRST_SCALE) -> MeanField:
    """Independent normals around `position`, with the standard deviation `scale`."""
    rho = math.log(math.expm1(scale))
    return MeanField(position, jax.tree.map(lambda leaf: jnp.full_like(leaf, rho), position))


@dataclass(frozen=True, kw_only=True)
class Gaussian(Guide):
    """One normal per weight.

    Attributes:
        estimator: how a step estimates the expected log-likelihood. "weights": one draw of the weights for all rows;
            "local": each row draws its own outputs of a layer (Kingma et al. 2015), for dense layers; "flipout": each
            row flips signs of the one draw (Wen et al. 2018). All have the same expectation.
        first_scale: the standard deviation of every weight at the start. With a prior that has a narrow part, such as a
            scale mixture, a first scale near that part's width lets weights stay there.
    """

    name: ClassVar[str] = "gaussian"

    estimator: str = "weights"
    first_scale: float = _FIRST_SCALE

    def __post_init__(self) -> None:
        one_of("svi: estimator", self.estimator, ESTIMATORS)
        positive_number("svi: first_scale", self.first_scale)

    @property
    def by_row(self) -> bool:
        """Whether the estimator gives each row randomness of its own."""
        return ESTIMATORS[self.estimator] is not None

    def check(self, target: Target, data: Data) -> None:
        """Require layers that the estimator can be used for."""
        if self.by_row:
            instead = 'use estimator="flipout" or "weights"' if self.estimator == "local" else ""
            check_layers(f'svi: estimator="{self.estimator}"', target, data, instead)

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> MeanField:
        """A narrow guide around `position`."""
        return narrow(position, self.first_scale)

    def draw(self, target: Target, data: Data, parameters: MeanField, key: jax.Array) -> Drawn:
        """One reparameterised draw."""
        return parameters.draw(key)

    def entropy(self, parameters: MeanField) -> jax.Array:
        """H[q] in closed form."""
        return parameters.entropy()

    def expected_log_prior(self, parameters: MeanField, name: str, prior: Any) -> jax.Array | None:
        """E_q[log p] of a site, in closed form for a normal or Laplace prior; else None."""
        return expected_log_prob(parameters.location[name], jax.nn.softplus(parameters.rho[name]), prior)

    def layers(self, parameters: MeanField, key: jax.Array) -> Callable[..., Any] | None:
        """The estimator as a handler around the model; None if all rows share a draw."""
        estimator = ESTIMATORS[self.estimator]
        return None if estimator is None else partial(estimator, parameters.location, parameters.scale, key)

    def fitted(self, parameters: MeanField) -> dict[str, np.ndarray]:
        """Mean and standard deviation of each site, in unconstrained coordinates."""
        means = {f"{name}.mean": np.asarray(leaf) for name, leaf in parameters.location.items()}
        return means | {f"{name}.std": np.asarray(leaf) for name, leaf in parameters.scale.items()}
