r"""The Gaussian guide of Bayes by Backprop (Blundell et al. 2015, section 3.2), over unconstrained coordinates.

    q(u) = N(u; mu, diag(sigma^2)),    sigma = log(1 + exp(rho)),    u = mu + sigma * e,   e ~ N(0, I)

`location` is mu, `rho` is rho; both have the shapes of the position. The entropy is sum(log sigma) + P/2 log(2 pi e).

Reference: https://arxiv.org/abs/1505.05424.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from inference.target import Position

__all__ = ["MeanField", "begin", "draw", "entropy", "log_density"]

_FIRST_SCALE = 0.05  # small against the start of a weight, so that the first steps find a fit before a width


class MeanField(NamedTuple):
    """The parameters of the guide."""

    location: Position
    rho: Position

    @property
    def scale(self) -> Position:
        """Sigma."""
        return jax.tree.map(jax.nn.softplus, self.rho)


def begin(position: Position) -> MeanField:
    """A narrow guide around a position."""
    rho = math.log(math.expm1(_FIRST_SCALE))
    return MeanField(position, jax.tree.map(lambda leaf: jnp.full_like(leaf, rho), position))


def draw(guide: MeanField, key: jax.Array) -> Position:
    """One reparameterised draw, mu + sigma * e."""
    names = sorted(guide.location)
    keys = dict(zip(names, jax.random.split(key, len(names)), strict=True))
    return {
        name: guide.location[name]
        + guide.scale[name] * jax.random.normal(keys[name], guide.location[name].shape, guide.location[name].dtype)
        for name in names
    }


def entropy(guide: MeanField) -> jax.Array:
    """H[q]."""
    return sum(
        (jnp.sum(jnp.log(scale)) + 0.5 * scale.size * math.log(2 * math.pi * math.e) for scale in guide.scale.values()),
        start=jnp.zeros(()),
    )


def log_density(guide: MeanField, position: Position) -> jax.Array:
    """Log q(u)."""
    return sum(
        (
            jnp.sum(jax.scipy.stats.norm.logpdf(position[name], guide.location[name], scale))
            for name, scale in guide.scale.items()
        ),
        start=jnp.zeros(()),
    )
