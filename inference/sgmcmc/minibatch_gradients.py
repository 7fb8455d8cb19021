r"""Unbiased estimates of a log density's gradient from minibatches, with and without control variates.

With c a fixed point and B the rows of a minibatch, drawn without replacement,

    g(w) = grad L_B(w)                              L_B: the log density with the log-likelihood scaled up from B
    g(w) = grad L_B(w) - grad L_B(c) + grad L(c)    control variates (Baker et al. 2019): little noise near c

The log density here is T times the tempered one; under `tempering="posterior"` that is the log density of the data
themselves. A position is one vector of all coordinates here, on which a step takes a third less time than on a tree of
a few arrays.

Reference: https://arxiv.org/abs/1706.05439.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from inference.target.density import Data, Position, Target
from inference.target.minibatches import SALTS, salted

__all__ = ["Centre", "Randomness", "as_position", "as_vector", "estimated_gradient"]


class Centre(NamedTuple):
    """The fixed point c of control variates and of the configurational temperature.

    Attributes:
        position: c.
        gradient: the full gradient at c; empty where it is not a control variate.
    """

    position: jax.Array
    gradient: jax.Array

    @classmethod
    def at(cls, target: Target, data: Data, position: jax.Array, control: bool) -> Centre:
        """The centre at `position`, with its full gradient if `control`."""
        return cls(position, _gradient(target, data, position, None)[1] if control else position[:0])


class Randomness(NamedTuple):
    """All random numbers of a step, from one call of the generator: several calls take longer than the gradient.

    Attributes:
        normal: one standard normal number per coordinate.
        words: the random words that choose the rows of a minibatch.
    """

    normal: jax.Array
    words: jax.Array

    @classmethod
    def draw(cls, key: jax.Array, count: jax.Array, like: jax.Array) -> Randomness:
        """The `count`-th set of random numbers of `key`, for as many coordinates as `like` has, in its precision.

        `count` is added to the key, not hashed into it: Threefry is built for keys that are counters (Salmon et al.
        2011, https://doi.org/10.1145/2063384.2063405), and another hash takes as long as drawing the numbers.
        """
        words = jax.random.key_data(key).at[1].add(count.astype(jnp.uint32))
        numbers = jax.random.normal(jax.random.wrap_key_data(words), (like.size + SALTS,), like.dtype)
        bits = lax.bitcast_convert_type(numbers[like.size :], jnp.uint32)  # two words of a float64: the low one is used
        return cls(numbers[: like.size], bits.reshape(SALTS, -1)[:, 0])

    def rows(self, count: int, total: int) -> jax.Array:
        """The rows of a minibatch, `count` of `total`, without replacement."""
        return salted(self.words, jnp.arange(count), total)


def as_vector(position: Position) -> jax.Array:
    """Flatten a position into one vector of all its coordinates."""
    return ravel_pytree(position)[0]


def as_position(target: Target, data: Data, vector: jax.Array) -> Position:
    """Unflatten a vector into a position, the inverse of `as_vector`."""
    shapes = target.position(data)
    return ravel_pytree({name: jnp.zeros(leaf.shape, leaf.dtype) for name, leaf in shapes.items()})[1](vector)


def estimated_gradient(
    target: Target, data: Data, position: jax.Array, rows: jax.Array | None, centre: Centre
) -> tuple[jax.Array, jax.Array]:
    """T times the log density and its gradient, estimated from `rows`; None is all rows."""
    log_density, gradient = _gradient(target, data, position, rows)
    if centre.gradient.size:
        gradient = gradient - _gradient(target, data, centre.position, rows)[1] + centre.gradient
    return log_density, gradient


def _gradient(target: Target, data: Data, position: jax.Array, rows: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    def log_density(position: jax.Array) -> jax.Array:
        terms = target.estimate(as_position(target, data, position), data, rows)
        return data.temperature * (target.tempered(terms, data) + terms.log_jacobian)

    return jax.value_and_grad(log_density)(position)
