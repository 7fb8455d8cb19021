"""The compiled programs that every method shares, each compiled once for a kernel, a target and shapes.

Data, keys, states and numbers of iterations are arguments; nothing is closed over. So a second run with the same shapes
compiles nothing, and a piece of any length is the same program. A program that runs once per chain is compiled in a
hurry: optimising it would take longer than running it.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Sharding

from inference.host.compiling import in_a_hurry
from inference.lanes import CHAINS, selected
from inference.methods import Emission, Kernel, Method, Step
from inference.target.density import Data, Position, Target

__all__ = [
    "advance",
    "advance_together",
    "begin",
    "capacity",
    "compile_ahead",
    "conclude",
    "conclusions",
    "emission",
    "empty_buffers",
    "find_start",
    "placed",
    "put",
    "shapes",
]

_PIECE_BYTES = 4 * 2**20  # bytes of draws that one piece may hold
_PIECE_ITERATIONS = 4096


@in_a_hurry(static_argnames=("target", "how", "held", "gradient"))
def find_start(
    target: Target, data: Data, key: jax.Array, how: str, held: tuple[str, ...], gradient: bool
) -> tuple[Position, jax.Array]:
    """A random position, and whether its density and, if it is asked for, its gradient are finite."""
    return target.start(key, data, how, held, gradient)


@in_a_hurry(static_argnames=("target", "held"))
def placed(
    target: Target, data: Data, key: jax.Array, sites: dict[str, jax.Array], held: tuple[str, ...]
) -> tuple[Position, jax.Array, jax.Array]:
    """A random position with some sites at given values, its log density, and whether it has a finite gradient too."""
    return target.placed(key, data, sites, held)


@in_a_hurry(static_argnames=("kernel", "target"))
def begin(
    kernel: Kernel, target: Target, data: Data, position: Position, key: jax.Array, settings: Any
) -> tuple[Any, jax.Array]:
    """A chain's first state, and the key for its conclusion."""
    kernel_key, last_key = jax.random.split(key)
    return kernel.init(target, data, position, kernel_key, settings), last_key


@partial(jax.jit, static_argnames=("kernel", "target"))
def advance(
    kernel: Kernel, target: Target, buffers: Emission, data: Data, state: Any, count: jax.Array, work: jax.Array
) -> tuple[jax.Array, jax.Array, Any, Emission]:
    """Make up to `count` iterations within `work` units of work.

    Returns:
        How many iterations were completed and units of work done, the last state, and `buffers` with what the
        iterations emitted in their first places; see `empty_buffers`.
    """

    def unfinished(carry: tuple[jax.Array, jax.Array, Any, Any]) -> jax.Array:
        done, worked, _, _ = carry
        return (done < count) & (worked < work)

    def body(carry: tuple[jax.Array, jax.Array, Any, Any]) -> tuple[jax.Array, jax.Array, Any, Any]:
        done, worked, state, buffers = carry
        step = _step(kernel, target, data, state, work - worked)
        buffers = jax.tree.map(partial(_write, done), buffers, step.emission)
        return done + jnp.int32(step.complete), worked + jnp.int32(step.work), step.state, buffers

    # Ends: every step does at least one unit of work or completes an iteration, and both are bounded.
    return lax.while_loop(unfinished, body, (jnp.int32(0), jnp.int32(0), state, buffers))


@partial(jax.jit, static_argnames=("kernel", "target"), inline=True)
def _step(kernel: Kernel, target: Target, data: Data, state: Any, limit: jax.Array) -> Step:
    """The kernel's step, traced once for all the programs that make it."""
    return kernel.step(target, data, state, limit)


@partial(jax.jit, static_argnames=("kernel", "target"))
def advance_together(
    kernel: Kernel, target: Target, buffers: Emission, data: Data, states: Any, counts: jax.Array, work: jax.Array
) -> tuple[jax.Array, jax.Array, Any, Emission]:
    """`advance` for several chains, each with a state, buffers and a number of iterations of its own."""
    lanes, capacity = jnp.arange(len(counts), dtype=jnp.int32), jax.tree.leaves(buffers)[0].shape[1]

    def one(state: Any, limit: jax.Array) -> tuple[Any, Emission, jax.Array, jax.Array]:
        step, moves = kernel.step(target, data, state, limit), limit > 0
        state = selected(moves, step.state, state)
        return state, step.emission, moves & step.complete, jnp.where(moves, step.work, 0).astype(jnp.int32)

    step = jax.vmap(one, axis_name=CHAINS)

    def going(done: jax.Array, worked: jax.Array) -> jax.Array:
        return (done < counts) & (worked < work)

    def unfinished(carry: tuple[jax.Array, jax.Array, Any, Any]) -> jax.Array:
        return jnp.any(going(*carry[:2]))

    def body(carry: tuple[jax.Array, jax.Array, Any, Any]) -> tuple[jax.Array, jax.Array, Any, Any]:
        done, worked, states, buffers = carry
        states, emission, complete, works = step(states, jnp.where(going(done, worked), work - worked, 0))
        place = jnp.where(complete, done, capacity)  # outside of the buffers nothing is written
        buffers = jax.tree.map(partial(_write_each, lanes, place), buffers, emission)
        return done + complete.astype(jnp.int32), worked + works, states, buffers

    nothing = jnp.zeros_like(counts)
    # Ends: every step does a unit of work for one of the chains that are going, or completes an iteration of it.
    return lax.while_loop(unfinished, body, (nothing, nothing, states, buffers))


def _write_each(lanes: jax.Array, places: jax.Array, buffer: jax.Array, leaf: jax.Array) -> jax.Array:
    with jax.enable_x64(leaf.dtype.itemsize == 8):
        return buffer.at[lanes, places].set(leaf, mode="drop")


def empty_buffers(emission: Emission, places: tuple[int, ...], device: Any) -> Emission:
    """Buffers on `device` for what iterations emit: (iteration,) or (chain, iteration) `places`."""
    with jax.enable_x64(True):  # a float32 program may emit float64
        return jax.tree.map(lambda leaf: put(np.zeros((*places, *leaf.shape), leaf.dtype), device), emission)


def put(tree: Any, where: Any) -> Any:
    """Arrays on a device, or over devices as a sharding says; where these are of several hosts, each puts its part."""
    if not isinstance(where, Sharding) or where.is_fully_addressable:
        return jax.device_put(tree, where)

    def ours(leaf: Any) -> jax.Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(ours(jax.random.key_data(leaf)))
        array = np.asarray(leaf)
        return jax.make_array_from_callback(array.shape, where, lambda part: array[part])

    return jax.tree.map(ours, tree)


def _write(place: jax.Array, buffer: jax.Array, leaf: jax.Array) -> jax.Array:
    with jax.enable_x64(leaf.dtype.itemsize == 8):
        return buffer.at[place].set(leaf)


@partial(jax.jit, static_argnames=("method", "target"))
def conclude(method: Method, target: Target, data: Data, state: Any, key: jax.Array) -> tuple[Emission, Any]:
    """The draws and scalars that a method makes of a chain's last state, and the concluded state."""
    return method.conclude(target, data, state, key)


def conclusions(
    method: Method, target: Target, ends: list[tuple[Any, Any, jax.Array]]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], list[Any]]:
    """Draws and scalars, (chain, draw, ...), and concluded states, from the data, last states and keys in `ends`."""
    emissions, states = zip(*(conclude(method, target, *end) for end in ends), strict=True)
    emissions = jax.device_get(emissions)
    draws, statistics = (
        {name: np.stack([emission[i][name] for emission in emissions]) for name in emissions[0][i]} for i in (0, 1)
    )
    return draws, statistics, list(states)


def compile_ahead(
    kernel: Kernel, target: Target, data: Data, position: Position, key: jax.Array, settings: Any
) -> Future[Any]:
    """Compile `advance` in another thread, for a chain that begins at a position of these shapes.

    It is traced here; the compiler runs beside whatever else there is to do before the chains begin, and the call of
    `advance` that comes then finds the program. Wait for the future before that, or it is compiled twice.
    """
    device = jax.local_devices()[0]
    data, position = jax.device_put((data, position), device)
    state, _ = begin(kernel, target, data, position, key, settings)
    emitted = emission(kernel, target, data, state)
    buffers = empty_buffers(emitted, (capacity(emitted),), device)
    lowered = advance.lower(kernel, target, buffers, data, state, np.int32(0), np.int32(0))
    pool = ThreadPoolExecutor(1, thread_name_prefix="compiling")
    future = pool.submit(lowered.compile)
    pool.shutdown(wait=False)
    return future


def emission(kernel: Kernel, target: Target, data: Data, state: Any) -> Emission:
    """The shapes of what one iteration emits; nothing is computed."""
    return jax.eval_shape(partial(_step, kernel, target), data, state, np.int32(1)).emission


def shapes(
    kernel: Kernel, target: Target, data: Data, position: Any, key: Any, settings: Any
) -> tuple[tuple[Any, Any], Emission]:
    """The shapes of a chain's first state and last key, and of what one iteration emits; nothing is computed."""

    def both(data: Data, position: Position, key: jax.Array, settings: Any) -> Any:
        kernel_key, last_key = jax.random.split(key)
        state = kernel.init(target, data, position, kernel_key, settings)
        return (state, last_key), kernel.step(target, data, state, jnp.int32(1)).emission

    return jax.eval_shape(both, data, position, key, settings)


def capacity(emission: Emission, together: int = 1) -> int:
    """How many iterations a piece's buffers hold, of one chain or of several `together`.

    It depends on the size of a draw and the number of chains alone, never on how many draws are wanted.
    """
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(emission))
    return int(np.clip(_PIECE_BYTES // max(size * together, 1), 1, _PIECE_ITERATIONS))
