"""The log-likelihood of many rows, summed over blocks of rows in order, and its gradient with it.

A block is small enough for the processor's cache, nothing of it is kept for a backward pass, and what is summed depends
on the number of rows alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["log_likelihood_by_blocks"]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def log_likelihood_by_blocks(target: Any, position: Any, data: Any) -> jax.Array:
    """The log-likelihood of a `Target`, summed over whole blocks of rows and over the rows that are left."""
    return _over_blocks(target, data, lambda block: target.terms_at_once(position, block).log_likelihood)


def _forward(target: Any, position: Any, data: Any) -> tuple[jax.Array, Any]:
    """Value and gradient together, so that nothing of a block has to be kept for a backward pass."""

    def block(rows: Any) -> tuple[jax.Array, Any]:
        return jax.value_and_grad(lambda position: target.terms_at_once(position, rows).log_likelihood)(position)

    return _over_blocks(target, data, block)


def _backward(target: Any, gradient: Any, cotangent: jax.Array) -> tuple[Any, None]:
    return jax.tree.map(lambda leaf: cotangent * leaf, gradient), None  # data have no gradient


log_likelihood_by_blocks.defvjp(_forward, _backward)


def _over_blocks(target: Any, data: Any, function: Callable[[Any], Any]) -> Any:
    """The sum of `function` over blocks of `target.block` rows, and over the rows that are left."""
    size = target.block
    whole, left = divmod(len(data.arrays[0]), size)

    def add(i: jax.Array, total: Any) -> Any:
        arrays = tuple(lax.dynamic_slice_in_dim(array, i * size, size) for array in data.arrays)
        return jax.tree.map(jnp.add, total, function(data._replace(arrays=arrays)))

    rest = (
        function(data.rows(slice(whole * size, None)))
        if left
        else jax.tree.map(jnp.zeros_like, jax.eval_shape(function, data.rows(slice(0, size))))
    )
    return lax.fori_loop(0, whole, add, rest)
