r"""A mixture of mean-field Gaussians as a guide, because the posterior of a network has several modes.

    q(u) = sum_k pi_k N(u; mu_k, diag(sigma_k^2))

Every component starts at a point of its own. A step takes one draw from each and weights it by pi_k, so gradients in pi
are exact as well:  E_q[f] = sum_k pi_k E_k[f].  The entropy has no closed form; draws of -log q estimate it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.target.density import Data, Position, Target
from inference.variational.closed_forms import expected_log_prob, is_fixed
from inference.variational.gaussian import MeanField, narrow
from inference.variational.guide import Drawn, Guide
from models.validation import positive_integer

__all__ = ["Components", "Mixture"]


class Components(NamedTuple):
    """A mixture's parameters: the `logits` of pi, and the `normals` with a leading axis of components."""

    logits: jax.Array
    normals: MeanField


@dataclass(frozen=True, kw_only=True)
class Mixture(Guide):
    """A mixture of Gaussians with independent weights.

    Attributes:
        components: how many components the mixture has.
    """

    name: ClassVar[str] = "mixture"

    components: int = 3

    def __post_init__(self) -> None:
        positive_integer("svi: components", self.components)

    @property
    def evaluations(self) -> int:
        """One evaluation per component."""
        return self.components

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> Components:
        """The first component around `position`, the others around random starts, all with the same weight."""
        others = lax.map(lambda key: target.start(key, data)[0], jax.random.split(key, self.components)[1:])
        positions = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), position, others)
        dtype = next(iter(position.values())).dtype
        return Components(jnp.zeros(self.components, dtype), narrow(positions))

    def draw(self, target: Target, data: Data, parameters: Components, key: jax.Array) -> Drawn:
        """A draw from one component, which is chosen at random by pi."""
        choose_key, draw_key = jax.random.split(key)
        chosen = jax.random.categorical(choose_key, parameters.logits)
        position = jax.tree.map(lambda leaf: leaf[chosen], parameters.normals).draw(draw_key).position
        return Drawn(position, _log_density(parameters, position))

    def strata(self, target: Target, data: Data, parameters: Components, key: jax.Array) -> tuple[jax.Array, Drawn]:
        """The weights pi, and one draw from each component."""
        keys = jax.random.split(key, self.components)
        positions = jax.vmap(lambda normal, key: normal.draw(key).position)(parameters.normals, keys)
        log_density = jax.vmap(lambda position: _log_density(parameters, position))(positions)
        return jax.nn.softmax(parameters.logits), Drawn(positions, log_density)

    def expected_log_prior(self, parameters: Components, name: str, prior: Any) -> jax.Array | None:
        """The sum of pi_k E_k[log p]; None if the prior depends on another site or has no closed form."""
        if not is_fixed(prior):
            return None
        each = jax.vmap(lambda mean, scale: expected_log_prob(mean, scale, prior))(
            parameters.normals.location[name], parameters.normals.scale[name]
        )
        return None if each is None else jax.nn.softmax(parameters.logits) @ each

    def fitted(self, parameters: Components) -> dict[str, np.ndarray]:
        """Weights, means and standard deviations, with a leading axis of components."""
        means = {f"{name}.mean": np.asarray(leaf) for name, leaf in parameters.normals.location.items()}
        scales = {f"{name}.std": np.asarray(leaf) for name, leaf in parameters.normals.scale.items()}
        return {"weights": np.asarray(jax.nn.softmax(parameters.logits))} | means | scales


def _log_density(parameters: Components, position: Position) -> jax.Array:
    """Log q(u)."""
    each = jax.vmap(lambda normal: normal.log_density(position))(parameters.normals)
    return jax.nn.logsumexp(jax.nn.log_softmax(parameters.logits) + each)
