"""The log-likelihood of rows that are spread over devices, and its gradient: the same sum on any number of them.

The rows are dealt out to slots of equal size, whose number does not depend on the machine, and devices hold whole
slots. A device sums each of its slots block by block; the sums of all slots are gathered, and every device adds them up
in the same order. So a chain has the same bits on 1, 2, 4 and 8 CPU devices, see `inference.engine.sharded`. Rows that
fill up the last blocks are repetitions of the first and do not count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from models.effects import Messenger

__all__ = ["ROWS", "SLOTS", "Counted", "log_likelihood_by_slots", "spread"]

ROWS = "rows"
"""The name of the axis of devices over which rows are spread."""

SLOTS = 16
"""The least number of slots, which devices divide among themselves."""

_MOST = 2048  # rows per block, as in `inference.target.binding`


def spread(data: Any, block: int, slots: int) -> Any:
    """The data in `slots` of equal size, arrays (slot, block, row, ...), with what counts of it.

    Args:
        data: the data of a target, all of whose arrays have one row per example.
        block: rows per block at most; 0 leaves it open.
        slots: how many slots.
    """
    rows = len(data.arrays[0])
    blocks = -(-rows // (slots * (block or _MOST)))
    size = -(-rows // (slots * blocks))
    places = np.arange(slots * blocks * size)
    shape = slots, blocks, size
    arrays = (np.asarray(array)[places % rows].reshape(*shape, *array.shape[1:]) for array in data.arrays)
    return data._replace(arrays=tuple(arrays), counts=(places < rows).reshape(shape))


class Counted(Messenger):
    """A handler that lets only those observed rows count that `counts` names."""

    def __init__(self, fn: Any, counts: jax.Array) -> None:
        super().__init__(fn)
        self._counts = counts

    def process_message(self, message: dict[str, Any]) -> None:
        """Mask an observed site with a value for each row."""
        if message["type"] == "sample" and message["is_observed"]:
            more = len(message["fn"].batch_shape) - 1
            message["fn"] = message["fn"].mask(self._counts.reshape(-1, *(1,) * more))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def log_likelihood_by_slots(target: Any, position: Any, data: Any) -> jax.Array:
    """The log-likelihood of a `Target` over the slots of all devices of the axis `ROWS`."""
    return _over_slots(position, data, lambda position, block: target.terms_at_once(position, block).log_likelihood)


def _forward(target: Any, position: Any, data: Any) -> tuple[jax.Array, Any]:
    """Value and gradient together, so that nothing of a block has to be kept for a backward pass."""

    def block(position: Any, rows: Any) -> tuple[jax.Array, Any]:
        return jax.value_and_grad(lambda position: target.terms_at_once(position, rows).log_likelihood)(position)

    return _over_slots(position, data, block)


def _backward(target: Any, gradient: Any, cotangent: jax.Array) -> tuple[Any, None]:
    return jax.tree.map(lambda leaf: cotangent * leaf, gradient), None  # data have no gradient


log_likelihood_by_slots.defvjp(_forward, _backward)


def _over_slots(position: Any, data: Any, function: Any) -> Any:
    """The sum of `function` over the blocks of all slots, of which each device of the axis `ROWS` has some.

    XLA must compile a block in the same way whatever the number of devices is: nothing of it may be moved out of the
    loops, so the position is bound to their counters; and the last sum is a loop, as a reduction could be fused.
    """

    def at(slot: Any, block: Any) -> Any:
        here, slot, block = lax.optimization_barrier((position, slot, block))

        return function(
            here, data._replace(arrays=tuple(a[slot, block] for a in data.arrays), counts=data.counts[slot, block])
        )

    slots, blocks = data.counts.shape[:2]
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(at, 0, 0))

    def fill(slot: Any, sums: Any) -> Any:
        total = _repeat(blocks, lambda block, total: _add(total, at(slot, block)), nothing)
        return jax.tree.map(lambda leaf, each: leaf.at[slot].set(each), sums, total)

    empty = jax.tree.map(lambda leaf: jnp.zeros((slots, *leaf.shape), leaf.dtype), nothing)
    sums = _repeat(slots, fill, empty)
    every = jax.tree.map(lambda leaf: lax.all_gather(leaf, ROWS, tiled=True), sums)
    total = slots * lax.axis_size(ROWS)
    return _repeat(total, lambda i, sum: _add(sum, jax.tree.map(lambda leaf: leaf[i], every)), nothing)


def _repeat(count: int, body: Callable[[Any, Any], Any], first: Any) -> Any:
    """`lax.fori_loop`, whose body would be a function of its own."""
    start = jnp.int32(0), first
    return lax.while_loop(lambda loop: loop[0] < count, lambda loop: (loop[0] + 1, body(*loop)), start)[1]


def _add(one: Any, other: Any) -> Any:
    return jax.tree.map(jnp.add, one, other)
