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
from numpyro import handlers

from inference.target.unstable import at_position, jacobian_sites, log_probs

__all__ = ["log_likelihood_by_blocks"]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def log_likelihood_by_blocks(target: Any, position: Any, data: Any) -> jax.Array:
    """The log-likelihood of a `Target`, summed over whole blocks of rows and over the rows that are left."""
    nothing = _nothing(target, position, data)
    return _over_blocks(target, data, lambda rows: _at_once(target, position, rows), nothing)


def _forward(target: Any, position: Any, data: Any) -> tuple[jax.Array, Any]:
    """Value and gradient together, so that nothing of a block has to be kept for a backward pass."""

    def block(rows: Any) -> tuple[jax.Array, Any]:
        return jax.value_and_grad(lambda position: _at_once(target, position, rows))(position)

    nothing = _nothing(target, position, data), jax.tree.map(jnp.zeros_like, position)
    return _over_blocks(target, data, block, nothing)


def _backward(target: Any, gradient: Any, cotangent: jax.Array) -> tuple[Any, None]:
    return jax.tree.map(lambda leaf: cotangent * leaf, gradient), None  # data have no gradient


log_likelihood_by_blocks.defvjp(_forward, _backward)


def _at_once(target: Any, position: Any, data: Any) -> jax.Array:
    """The log-likelihood in one piece; unlike in `Target.terms`, the densities of priors are not even traced."""
    jacobians = jacobian_sites(position)

    def hidden(site: dict[str, Any]) -> bool:
        return site["type"] == "sample" and (not site["is_observed"] or site["name"] in jacobians)

    data = data.in_precision_of(position)
    model = handlers.block(at_position(target.model, position), hide_fn=hidden)
    by_site, _ = log_probs(model, target.arguments.fill(data.arrays), {})
    return sum(by_site.values(), jnp.zeros(()))


def _nothing(target: Any, position: Any, data: Any) -> jax.Array:
    """A sum of no rows, in the precision of the log-likelihood."""
    some = jax.eval_shape(partial(_at_once, target), position, data.rows(slice(0, 1)))
    return jnp.zeros(some.shape, some.dtype)


def _over_blocks(target: Any, data: Any, function: Callable[[Any], Any], nothing: Any) -> Any:
    """The sum of `function` over blocks of `target.block` rows, and over the rows that are left."""
    size = target.block
    whole, left = divmod(len(data.arrays[0]), size)

    def add(i: jax.Array, total: Any) -> Any:
        arrays = tuple(lax.dynamic_slice_in_dim(array, i * size, size) for array in data.arrays)
        return jax.tree.map(jnp.add, total, function(data._replace(arrays=arrays)))

    rest = function(data.rows(slice(whole * size, None))) if left else nothing
    return lax.fori_loop(0, whole, add, rest)
