"""The one loop over the outside world: every method's `init` and `step` are compiled, run and watched here.

Chains run in worker threads that execute the same compiled single-chain program, so a CPU needs no device count and no
flag, and a chain's draws don't depend on how many others there are. Each thread runs one piece of a chain at a time;
how long a piece is follows from how long the last one took, and changes nothing in the draws, because the number of
iterations is an argument of the program. Everything is traced and compiled in the main thread (NumPyro's handler stack
is shared by all threads).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.binding import explain_start
from inference.methods import Emission, Method
from inference.progress import Display
from inference.target import Data, Target

__all__ = ["Cost", "Outcome", "drive"]

_PIECE_SECONDS = 0.25  # a piece's aim: short enough to stop and to show progress, long enough to cost nothing
_PIECE_BYTES = 4 * 2**20  # of draws that one piece may hold
_PIECE_ITERATIONS = 4096


@dataclass(frozen=True)
class Cost:
    """What a run took.

    Attributes:
        compile_seconds: tracing and compiling (or reading the compilation cache), and finding the starts.
        run_seconds: everything after that.
        gradients: gradient evaluations of the log density over all rows, warm-up included, over all chains; one over a
            minibatch counts as its share of the rows.
        peak_memory: the process's largest resident size so far, in bytes; 0 where the system does not say.
    """

    compile_seconds: float
    run_seconds: float
    gradients: int
    peak_memory: int

    @property
    def seconds(self) -> float:
        """Compiling and running."""
        return self.compile_seconds + self.run_seconds


@dataclass(frozen=True)
class Outcome:
    """What the driver hands to the posterior.

    Attributes:
        draws: each site's values, (chain, draw, ...).
        statistics: each scalar of the draws, (chain, draw).
        curves: each scalar of the iterations of a method that optimises, (chain, step).
        cost: what it took.
        partial: the run was stopped before its end.
    """

    draws: dict[str, np.ndarray]
    statistics: dict[str, np.ndarray]
    curves: dict[str, np.ndarray]
    cost: Cost
    partial: bool


@dataclass
class _Chain:
    """What the host knows of one chain while it runs."""

    last_key: jax.Array
    state: Any
    done: int = 0
    piece: int = 1
    gradients: float = 0.0
    sums: dict[str, float] = field(default_factory=dict)
    draws: list[dict[str, np.ndarray]] = field(default_factory=list)
    info: list[dict[str, np.ndarray]] = field(default_factory=list)


@partial(jax.jit, static_argnames=("method", "target"))
def _begin(method: Method, target: Target, data: Data, key: jax.Array) -> tuple[Any, jax.Array, Any, jax.Array]:
    """A chain's first state, whether its start has a finite density, the start, and the key for its conclusion."""
    start_key, method_key, last_key = jax.random.split(key, 3)
    position, found = target.start(start_key, data)
    return method.init(target, data, position, method_key), found, position, last_key


@partial(jax.jit, static_argnames=("method", "target", "capacity"))
def _advance(
    method: Method, target: Target, capacity: int, data: Data, state: Any, count: jax.Array
) -> tuple[Any, Emission]:
    """`count` iterations, at most `capacity`; what they emit fills the first `count` places of the buffers."""
    _, emission = jax.eval_shape(partial(method.step, target), data, state)
    buffers = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), emission)

    def body(i: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        state, buffers = carry
        state, emission = method.step(target, data, state)
        return state, jax.tree.map(lambda buffer, leaf: buffer.at[i].set(leaf), buffers, emission)

    return lax.fori_loop(0, count, body, (state, buffers))


@partial(jax.jit, static_argnames=("method", "target"))
def _conclude(method: Method, target: Target, data: Data, state: Any, key: jax.Array) -> Emission:
    return method.conclude(target, data, state, key)


def drive(
    method: Method, target: Target, data: Data, key: jax.Array, progress: bool, tracing: AbstractContextManager[Any]
) -> Outcome:
    """Run a method to its end, or to Ctrl-C, and gather what it drew.

    Args:
        method: what to run.
        target: what to run it on.
        data: of the target.
        key: each chain folds its number in.
        progress: show it.
        tracing: held while programs are traced, so that runs in several threads of a user's don't meet there.

    Raises:
        ValueError: if no initial point has a finite density.
        KeyboardInterrupt: if it is stopped before there is anything to return, or a second time.
    """
    began = time.perf_counter()
    with Display(method.name, method.chains, method.iterations, enabled=progress) as display:
        program = method.program()
        data = jax.device_put(data)
        with tracing:
            chains = [_first(program, target, data, jax.random.fold_in(key, i)) for i in range(method.chains)]
            capacity = _capacity(program, target, data, chains[0].state)
            advance = partial(_advance, program, target, capacity, data)
            jax.block_until_ready(advance(chains[0].state, 0))  # compiles, and runs nothing
        compiled = time.perf_counter()
        partial_run = _run_chains(method, chains, partial(_piece, method, data, advance, capacity), display)
    with tracing:
        draws, statistics, curves = _gather(method, target, data, chains)
    cost = Cost(
        compile_seconds=compiled - began,
        run_seconds=time.perf_counter() - compiled,
        gradients=round(sum(chain.gradients for chain in chains)),
        peak_memory=_peak_memory(),
    )
    return Outcome(draws, statistics, curves, cost, partial_run)


def _first(program: Method, target: Target, data: Data, key: jax.Array) -> _Chain:
    state, found, position, last_key = _begin(program, target, data, key)
    if not found:
        raise explain_start(target, data, position)
    return _Chain(last_key, state)


def _capacity(program: Method, target: Target, data: Data, state: Any) -> int:
    """How many iterations a piece's buffers hold; depends on the size of a draw alone, never on how many are asked."""
    _, emission = jax.eval_shape(partial(program.step, target), data, state)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(emission))
    return int(np.clip(_PIECE_BYTES // max(size, 1), 1, _PIECE_ITERATIONS))


def _run_chains(method: Method, chains: list[_Chain], piece: Callable[[_Chain], str], display: Display) -> bool:
    """Run all chains in worker threads; True if they were stopped before the end.

    The first Ctrl-C lets the pieces under way end and starts no other; a second one is raised at once.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    pool = ThreadPoolExecutor(min(len(chains), cores))
    running: dict[Future[str], int] = {pool.submit(piece, chain): i for i, chain in enumerate(chains)}
    stopped = False
    try:
        while running:
            try:
                finished, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in finished:
                    i = running.pop(future)
                    display.update(i, chains[i].done, future.result())
                    if chains[i].done < method.iterations and not stopped:
                        running[pool.submit(piece, chains[i])] = i
            except KeyboardInterrupt:
                if stopped:
                    raise
                stopped = True
                display.say("stopping when the iterations under way are done; Ctrl-C again gives up what was drawn")
                running = {future: i for future, i in running.items() if not future.cancel()}
    finally:
        pool.shutdown(wait=not running, cancel_futures=True)
    return stopped and any(chain.done < method.iterations for chain in chains)


def _piece(method: Method, data: Data, advance: Callable[..., Any], capacity: int, chain: _Chain) -> str:
    """Run one piece of a chain, in a worker thread; keep what the method keeps, and say how it goes."""
    began = time.perf_counter()
    count = int(min(chain.piece, capacity, method.iterations - chain.done))
    state, emission = advance(chain.state, count)
    draws, info = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], jax.block_until_ready(emission))
    method.watch(info, chain.done + count)
    iterations = np.arange(chain.done, chain.done + count)
    keep = np.isin(iterations, np.asarray(method.kept)) if method.kept else np.ones(count, bool)
    kept = {name: values[keep] for name, values in info.items()}
    chain.draws.append({name: values[keep] for name, values in draws.items()})
    chain.info.append(kept)
    for name, values in kept.items():
        chain.sums[name] = chain.sums.get(name, 0.0) + float(values.sum())
    chain.sums["count"] = chain.sums.get("count", 0.0) + int(keep.sum())
    chain.gradients += method.gradients(info, data)
    chain.state, chain.done = state, chain.done + count
    chain.piece = max(1, int(count * _PIECE_SECONDS / max(time.perf_counter() - began, 1e-6)))
    return method.status(kept, chain.sums) if chain.sums["count"] else "warming up"


def _gather(
    method: Method, target: Target, data: Data, chains: list[_Chain]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draws, their scalars and the scalars of the iterations, over chains cut to the shortest."""
    info = _stacked([_joined(chain.info) for chain in chains])
    if method.kept:
        draws = _stacked([_joined(chain.draws) for chain in chains])
        if not next(iter(info.values())).shape[1]:
            raise KeyboardInterrupt("stopped before the first draw: there is nothing to return")
        return draws, info, {}
    ends = [jax.device_get(_conclude(method, target, data, chain.state, chain.last_key)) for chain in chains]
    return _stacked([draws for draws, _ in ends]), _stacked([statistics for _, statistics in ends]), info


def _joined(pieces: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def _stacked(chains: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {
        name: np.stack([chain[name][: min(len(other[name]) for other in chains)] for chain in chains])
        for name in chains[0]
    }


def _peak_memory() -> int:
    if sys.platform == "win32":
        return 0
    import resource  # Unix only

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
