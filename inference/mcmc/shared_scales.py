r"""Scales of coordinates that hold for every chain of a network: weights that can trade places share one.

For a diagonal mass, the scale s of a coordinate that makes a target most like a standard normal, in the sense of the
Fisher divergence E |s^2 g + (u - mean)|^2 / s^2 with g the gradient of the log density, balances the spread of the
positions and that of the gradients:

    s^4 = sum (u - mean u)^2 / sum (g - mean g)^2

over draws. For a normal target it is the geometric mean of a coordinate's marginal and conditional variance, and the
gradients know the latter after tens of draws (Seyboldt, Carlson & Carpenter 2026; the diagonal mass of nutpie).

The hidden units of a network can trade places, so the scale that one chain finds for one weight says nothing about that
weight in another chain. Summed over all that a symmetry exchanges, as `models.shared_shapes` says, both sums mean the
same in every chain, and have units times as many terms. Each is a sum over the draws of all chains of a pilot, around
the chain's own mean, because chains may be in different modes. One more term of the prior's size keeps a scale finite
where there are few.

Reference: https://github.com/pymc-devs/nutpie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.mcmc.dual_averaging import collect

__all__ = ["Moments", "shared_scales"]


class Moments(NamedTuple):
    """Means and sums of squared deviations over the draws of a chain.

    Attributes:
        positions: of its positions; vectors in a chain, by site on the host.
        gradients: of the gradients of the log density there.
    """

    positions: Any
    gradients: Any

    @classmethod
    def begin(cls, position: jax.Array) -> Moments:
        """The moments of no draws."""
        nothing = jnp.zeros_like(position)
        return cls((nothing, nothing), (nothing, nothing))

    def after(self, position: jax.Array, gradient: jax.Array, count: jax.Array) -> Moments:
        """The moments with the `count`-th draw."""
        return Moments(collect(self.positions, position, count), collect(self.gradients, gradient, count))


def shared_scales(
    moments: Sequence[Moments], shapes: dict[str, tuple[int, ...]], prior: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The scale of each coordinate from the moments of several chains.

    Args:
        moments: the moments of each chain.
        shapes: a shape for each site, in which an axis of length 1 is one that symmetries exchange.
        prior: the prior's scale of each coordinate, in the shape of its site.
    """
    scales = {}
    for name, width in prior.items():
        shape = shapes.get(name, width.shape)
        exchanged = tuple(i for i, size in enumerate(shape) if size != width.shape[i])
        spread, force = (
            sum(np.asarray(getattr(each, part)[1][name], np.float64) for each in moments)
            for part in ("positions", "gradients")
        )
        square = np.mean(np.square(width, dtype=np.float64), axis=exchanged, keepdims=True)
        spread, force = (np.sum(each, axis=exchanged, keepdims=True) for each in (spread, force))
        fourth = (spread + square) / (force + 1 / square)
        fourth = np.where(np.isfinite(fourth) & (fourth > 0), fourth, square**2)
        scales[name] = np.broadcast_to(fourth**0.25, width.shape).astype(width.dtype)
    return scales
