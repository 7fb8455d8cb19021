r"""Unbiased estimates of a log density's gradient from minibatches, with and without control variates.

With c a fixed point and B the rows of a minibatch, drawn without replacement,

    g(w) = grad L_B(w)                              L_B: the log density with the log-likelihood scaled up from B
    g(w) = grad L_B(w) - grad L_B(c) + grad L(c)    control variates (Baker et al. 2019): little noise near c

The log density is T times the tempered one, so that under `tempering="posterior"` it is that of the data themselves.

Reference: https://arxiv.org/abs/1706.05439.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from inference.shuffling import permuted
from inference.target import Data, Position, Target

__all__ = ["Centre", "estimated_gradient", "random_rows"]


class Centre(NamedTuple):
    """A fixed point.

    Attributes:
        position: c.
        gradient: the full gradient there; empty where it is no control variate.
    """

    position: Position
    gradient: Position

    @classmethod
    def at(cls, target: Target, data: Data, position: Position, control: bool) -> Centre:
        """With its gradient, if that is to be a control variate."""
        return cls(position, _gradient(target, data, position, None)[1] if control else {})


def random_rows(key: jax.Array, count: int | None, data: Data) -> jax.Array | None:
    """The rows of a minibatch; None for all."""
    return None if count is None else permuted(key, jnp.arange(count), len(data.arrays[0]))


def estimated_gradient(
    target: Target, data: Data, position: Position, rows: jax.Array | None, centre: Centre
) -> tuple[jax.Array, Position]:
    """T times the log density and its gradient, estimated from some rows."""
    log_density, gradient = _gradient(target, data, position, rows)
    if centre.gradient:
        there = _gradient(target, data, centre.position, rows)[1]
        gradient = jax.tree.map(lambda here, there, full: here - there + full, gradient, there, centre.gradient)
    return log_density, gradient


def _gradient(target: Target, data: Data, position: Position, rows: jax.Array | None) -> tuple[jax.Array, Position]:
    def log_density(position: Position) -> jax.Array:
        terms = target.estimate(position, data, rows)
        return data.temperature * (target.tempered(terms, data) + terms.log_jacobian)

    return jax.value_and_grad(log_density)(position)
