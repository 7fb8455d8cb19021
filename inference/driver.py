"""The one loop over the outside world: every method's `init` and `step` are compiled, run and watched here.

Chains run in worker threads that execute the same compiled single-chain program, so a CPU needs no device count and no
flag, and a chain's draws don't depend on how many others there are. Each thread runs one piece of a chain at a time;
how long a piece is follows from how long the last one took, and changes nothing in the draws, because the number of
iterations, and how much of the last one, are arguments of the program. Everything is traced and compiled in the main
thread (NumPyro's handler stack is shared by all threads). On accelerators chains take turns on the devices.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np

from inference import programs
from inference.methods import Method
from inference.progress import Display
from inference.target import Data, Position, Target
from inference.tracing import TRACING

__all__ = ["Cost", "Outcome", "drive"]

_PIECE_SECONDS = 0.25  # a piece's aim: short enough to stop and to show progress, long enough to cost nothing


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

    def __add__(self, other: Cost) -> Cost:
        """Of two stages, one after the other."""
        return Cost(
            self.compile_seconds + other.compile_seconds,
            self.run_seconds + other.run_seconds,
            self.gradients + other.gradients,
            max(self.peak_memory, other.peak_memory),
        )


@dataclass(frozen=True)
class Outcome:
    """What the driver hands to the posterior.

    Attributes:
        draws: each site's values, (chain, draw, ...).
        statistics: each scalar of the draws, (chain, draw).
        curves: each scalar of the iterations of a method that optimises, (chain, step).
        states: each chain's last state.
        cost: what it took.
        ended: why it ended: "draws", all were made; "until", enough were; "interrupted", by Ctrl-C.
        interrupted: whether Ctrl-C was pressed, if only when the last iteration was under way.
    """

    draws: dict[str, np.ndarray]
    statistics: dict[str, np.ndarray]
    curves: dict[str, np.ndarray]
    states: list[Any]
    cost: Cost
    ended: str
    interrupted: bool


@dataclass
class _Chain:
    """What the host knows of one chain while it runs."""

    device: Any
    last_key: jax.Array
    state: Any
    done: int = 0
    work: int = 1
    gradients: float = 0.0
    keeping: bool = False
    sums: dict[str, float] = field(default_factory=dict)
    draws: list[dict[str, np.ndarray]] = field(default_factory=list)
    info: list[dict[str, np.ndarray]] = field(default_factory=list)


def drive(
    method: Method,
    target: Target,
    data: Data,
    key: jax.Array,
    *,
    starts: list[Position],
    settings: Any,
    title: str,
    progress: bool,
    milestones: Iterable[int] = (),
    enough: Callable[[dict[str, np.ndarray]], bool] | None = None,
    gather: bool = True,
) -> Outcome:
    """Run a method to its end, or to Ctrl-C, and gather what it drew.

    Args:
        method: what to run.
        target: what to run it on.
        data: of the target.
        key: each chain folds its number in.
        starts: each chain's start.
        settings: what all chains share.
        title: what to call it.
        progress: show it.
        milestones: numbers of draws at which to ask whether there are enough.
        enough: asked then, with the draws so far.
        gather: False if only the last states are of use.

    Raises:
        KeyboardInterrupt: if it is stopped before there is anything to return, or a second time.
    """
    began = time.perf_counter()
    wide = method.precision == "float64"
    config: Any = jax.config
    products = config.jax_default_matmul_precision
    with jax.enable_x64(wide), Display(title, method.chains, method.iterations, enabled=progress) as display:
        program = method.program()
        on_device = {device: jax.device_put(data, device) for device in _devices(method.chains)}
        with TRACING:
            chains = []
            for i, (device, start) in enumerate(zip(itertools.cycle(on_device), starts, strict=False)):
                start = jax.device_put(start, device)
                state, last_key = programs.begin(
                    program, target, on_device[device], start, jax.random.fold_in(key, i), settings
                )
                chains.append(_Chain(device, last_key, state))
            capacity = programs.capacity(program, target, data, chains[0].state)
            zero = np.int32(0)
            for chain in chains[: len(on_device)]:
                first = programs.advance(program, target, capacity, on_device[chain.device], chain.state, zero, zero)
                jax.block_until_ready(first)  # compiled, and nothing run
        compiled = time.perf_counter()

        def piece(goal: int, chain: _Chain) -> str:
            with jax.enable_x64(wide), jax.default_matmul_precision(products):  # a thread has its own
                advance = partial(programs.advance, program, target, capacity, on_device[chain.device])
                return _piece(method, data, advance, min(capacity, goal - chain.done), chain)

        ended, interrupted = "draws", False
        goals = [method.kept[draws - 1] + 1 for draws in milestones]
        for goal in goals or [method.iterations]:
            interrupted = _run_chains(goal, chains, partial(piece, goal), display)
            try:
                if interrupted and any(chain.done < method.iterations for chain in chains):
                    raise KeyboardInterrupt
                if goals and enough is not None and enough(_drawn(chains)):
                    ended = "until"
                    break
            except KeyboardInterrupt:  # also while the draws were looked at
                ended, interrupted = "interrupted", True
                break
        with TRACING:
            draws, statistics, curves = _gather(method, target, data, chains) if gather else ({}, {}, {})
    cost = Cost(
        compile_seconds=compiled - began,
        run_seconds=time.perf_counter() - compiled,
        gradients=round(sum(chain.gradients for chain in chains)),
        peak_memory=_peak_memory(),
    )
    return Outcome(draws, statistics, curves, [chain.state for chain in chains], cost, ended, interrupted)


def _devices(chains: int) -> list[Any]:
    """Where chains run: on a CPU one device serves all threads, elsewhere chains are dealt out to the devices."""
    devices = jax.local_devices()
    return devices[:1] if devices[0].platform == "cpu" else devices[:chains]


def _run_chains(goal: int, chains: list[_Chain], piece: Callable[[_Chain], str], display: Display) -> bool:
    """Run all chains to so many iterations in worker threads; True if Ctrl-C was pressed.

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
                    if chains[i].done < goal and not stopped:
                        running[pool.submit(piece, chains[i])] = i
            except KeyboardInterrupt:
                if stopped:
                    raise
                stopped = True
                display.say("stopping when the iterations under way are done; Ctrl-C again gives up what was drawn")
                running = {future: i for future, i in running.items() if not future.cancel()}
    finally:
        pool.shutdown(wait=not running, cancel_futures=True)
    return stopped


def _piece(method: Method, data: Data, advance: Callable[..., Any], most: int, chain: _Chain) -> str:
    """Run one piece of a chain, in a worker thread; keep what the method keeps, and say how it goes."""
    began = time.perf_counter()
    done, worked, state, emission = jax.block_until_ready(advance(chain.state, np.int32(most), np.int32(chain.work)))
    count = int(done)
    draws, info = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], emission)
    method.watch(info, chain.done + count)
    iterations = np.arange(chain.done, chain.done + count)
    keep = np.isin(iterations, np.asarray(method.kept)) if method.kept else np.ones(count, bool)
    kept = {name: values[keep] for name, values in info.items()}
    chain.draws.append({name: values[keep] for name, values in draws.items()})
    chain.info.append(kept)
    if keep.any() and not chain.keeping:
        chain.keeping, chain.sums = True, {}  # what is shown of the warm-up is not of the draws
    shown = kept if chain.keeping else info
    for name, values in (shown | {"count": np.ones(len(keep[keep]) if chain.keeping else count)}).items():
        chain.sums[name] = chain.sums.get(name, 0.0) + float(values.sum())
    chain.gradients += method.gradients(info, data)
    chain.state, chain.done = state, chain.done + count
    pace = int(worked) / max(time.perf_counter() - began, 1e-6)
    chain.work = int(np.clip(pace * _PIECE_SECONDS, 1, 2**30))
    stage = "" if chain.keeping else "warming up"
    status = method.status(shown, chain.sums) if chain.sums["count"] else ""
    return ", ".join(words for words in (stage, status, method.under_way(state)) if words)


def _gather(
    method: Method, target: Target, data: Data, chains: list[_Chain]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draws, their scalars and the scalars of the iterations, over chains cut to the shortest."""
    if not all(chain.info for chain in chains):
        raise KeyboardInterrupt("stopped before the first draw: there is nothing to return")
    info = _stacked([_joined(chain.info) for chain in chains])
    if method.kept:
        draws = _drawn(chains)
        if not next(iter(info.values())).shape[1]:
            raise KeyboardInterrupt("stopped before the first draw: there is nothing to return")
        return draws, info, {}
    ends = [jax.device_get(programs.conclude(method, target, data, chain.state, chain.last_key)) for chain in chains]
    return _stacked([draws for draws, _ in ends]), _stacked([statistics for _, statistics in ends]), info


def _drawn(chains: list[_Chain]) -> dict[str, np.ndarray]:
    return _stacked([_joined(chain.draws) for chain in chains])


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
