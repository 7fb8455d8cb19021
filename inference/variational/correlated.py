r"""Gaussian guides whose weights are correlated, over all unconstrained coordinates as one vector of length P.

    lowrank     q(u) = N(mu, D (F F^T + I) D),    F is P x rank
    fullrank    q(u) = N(mu, D L L^T D),          L lower triangular with a diagonal of 1

with D the diagonal matrix of d = log(1 + exp(rho)), so that a step of the optimiser in F or L is measured in widths of
the guide, which starts narrow, and not in units of the weights. Entropy and density are NumPyro's; the expected log
prior of independent normal weights needs only the marginal variances. A full matrix has P (P + 1) / 2 numbers: it is
for small networks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpyro.distributions import LowRankMultivariateNormal, MultivariateNormal

from inference.target.density import Data, Position, Target
from inference.variational.closed_forms import expected_log_prob, is_fixed
from inference.variational.guide import Drawn, Guide
from models.validation import positive_integer

__all__ = ["Correlated", "FullRank", "LowRank"]

_FIRST_SCALE = 0.05  # as for independent normals
_FIRST_FACTOR = 0.1  # F in widths of the guide: little correlation, in random directions
_MOST = 20_000  # weights for a full matrix: 1.6 GB in float32, and Adam keeps two more


class Correlated(NamedTuple):
    """A guide's parameters: `location` has the shapes of the position, `rho` and `factor` are over its vector."""

    location: Position
    rho: jax.Array
    factor: jax.Array


@dataclass(frozen=True, kw_only=True)
class _Joint(Guide):
    """Base of the low-rank and the full-rank guide."""

    def distribution(self, parameters: Correlated) -> Any:
        """q(u) over the flattened position."""
        raise NotImplementedError(f"{type(self).__name__} must be a distribution")

    def draw(self, target: Target, data: Data, parameters: Correlated, key: jax.Array) -> Drawn:
        """One reparameterised draw."""
        _, unravel = ravel_pytree(parameters.location)
        distribution = self.distribution(parameters)
        vector = distribution.sample(key)
        return Drawn(unravel(vector), distribution.log_prob(vector))

    def entropy(self, parameters: Correlated) -> jax.Array:
        """H[q] in closed form."""
        return self.distribution(parameters).entropy()

    def expected_log_prior(self, parameters: Correlated, name: str, prior: Any) -> jax.Array | None:
        """E_q[log p] of a site by its marginals; None if its prior depends on another site or has no closed form."""
        if not is_fixed(prior):
            return None
        _, unravel = ravel_pytree(parameters.location)
        scale = unravel(jnp.sqrt(self.distribution(parameters).variance))
        return expected_log_prob(parameters.location[name], scale[name], prior)

    def fitted(self, parameters: Correlated) -> dict[str, np.ndarray]:
        """Mean and marginal standard deviation of each site, in unconstrained coordinates."""
        _, unravel = ravel_pytree(parameters.location)
        scale = unravel(jnp.sqrt(self.distribution(parameters).variance))
        means = {f"{name}.mean": np.asarray(leaf) for name, leaf in parameters.location.items()}
        return means | {f"{name}.std": np.asarray(leaf) for name, leaf in scale.items()}


@dataclass(frozen=True, kw_only=True)
class LowRank(_Joint):
    """A normal whose covariance is a diagonal matrix and `rank` directions.

    Attributes:
        rank: the number of directions.
    """

    name: ClassVar[str] = "lowrank"

    rank: int = 10

    def __post_init__(self) -> None:
        positive_integer("svi: rank", self.rank)

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> Correlated:
        """A narrow guide around `position`, with random directions."""
        vector, _ = ravel_pytree(position)
        rank = min(self.rank, len(vector))
        factor = _FIRST_FACTOR / math.sqrt(rank) * jax.random.normal(key, (len(vector), rank), vector.dtype)
        return Correlated(position, jnp.full_like(vector, math.log(math.expm1(_FIRST_SCALE))), factor)

    def distribution(self, parameters: Correlated) -> LowRankMultivariateNormal:
        """N(mu, D (F F^T + I) D)."""
        vector, _ = ravel_pytree(parameters.location)
        scale = jax.nn.softplus(parameters.rho)
        return LowRankMultivariateNormal(vector, scale[:, None] * parameters.factor, jnp.square(scale))


@dataclass(frozen=True, kw_only=True)
class FullRank(_Joint):
    """A normal with a full covariance matrix."""

    name: ClassVar[str] = "fullrank"

    def check(self, target: Target, data: Data) -> None:
        """Require that the covariance matrix fits into memory."""
        count = sum(math.prod(leaf.shape) for leaf in target.position(data).values())
        if count > _MOST:
            raise ValueError(f"svi: a full covariance of {count:,} weights is too large; use guide='lowrank'")

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> Correlated:
        """A narrow guide around `position`, without correlation."""
        vector, _ = ravel_pytree(position)
        rho = jnp.full_like(vector, math.log(math.expm1(_FIRST_SCALE)))
        return Correlated(position, rho, jnp.zeros((len(vector), len(vector)), vector.dtype))

    def distribution(self, parameters: Correlated) -> MultivariateNormal:
        """N(mu, D L L^T D)."""
        vector, _ = ravel_pytree(parameters.location)
        scale = jax.nn.softplus(parameters.rho)
        triangle = jnp.tril(scale[:, None] * parameters.factor, -1) + jnp.diag(scale)
        return MultivariateNormal(vector, scale_tril=triangle)
