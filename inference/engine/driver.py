"""The one loop over the outside world: every method's `init` and `step` are compiled, run and watched here.

Chains run in worker threads that execute the same compiled single-chain program, so a CPU needs no device count and no
flag, and a chain's draws don't depend on how many others there are. Each thread runs one piece of a chain at a time;
how long a piece is follows from how long the last one took, and changes nothing in the draws, because the number of
iterations, and how much of the last one, are arguments of the program. Everything is traced and compiled in the main
thread (NumPyro's handler stack is shared by all threads). On accelerators chains take turns on the devices.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from inference.display.progress import Display
from inference.engine import programs
from inference.engine.chain import Chain, Piece, begin_chains
from inference.engine.kept_draws import Keeping
from inference.engine.ledger import Ledger, Values
from inference.host.compiling import TRACING
from inference.host.machine import Cost, peak_memory
from inference.host.signals import Signals
from inference.methods import Method
from inference.results.running_averages import Average
from inference.target.density import Position, Target

__all__ = ["Outcome", "drive"]

_TERMINATED = 143  # what a process ends with that SIGTERM has ended


@dataclass(frozen=True)
class Outcome:
    """What the driver hands to the posterior.

    Attributes:
        draws: each site's values, (chain, draw, ...).
        statistics: each scalar of the draws, (chain, draw).
        curves: each scalar of the iterations of a method that optimises, (chain, step).
        averages: each chain's averaged predictions, if any were asked for.
        states: each chain's last state.
        stopped: the chains that stopped before their end and why; their draws are left out.
        cost: what it took, in earlier processes too.
        ended: why it ended: "draws", all were made; "until", enough were; "interrupted", by Ctrl-C.
        interrupted: whether Ctrl-C was pressed, if only when the last iteration was under way.
    """

    draws: Values
    statistics: Values
    curves: Values
    averages: list[Average]
    states: list[Any]
    stopped: dict[int, str]
    cost: Cost
    ended: str
    interrupted: bool


def drive(
    method: Method,
    target: Target,
    data: Any,
    key: jax.Array,
    *,
    starts: list[Position],
    settings: Any,
    title: str,
    progress: bool,
    ledger: Ledger,
    keeping: Keeping,
    milestones: Sequence[int] = (),
    enough: Callable[[Values, Values], bool] | None = None,
    gather: bool = True,
) -> Outcome:
    """Run a method to its end, or to Ctrl-C, and gather what it drew.

    Args:
        method: what to run.
        target: what to run it on.
        data: of the target; for many fits together, see `inference.runs.side_by_side`.
        key: each chain folds its number in.
        starts: each chain's start.
        settings: what all chains share.
        title: what to call it.
        progress: show it.
        ledger: where to put what is drawn; the run is resumed from what it holds already.
        keeping: what of it to keep.
        milestones: numbers of draws, or of iterations of a method that keeps none, at which to ask whether there are
            enough.
        enough: asked then, with the draws so far and their scalars.
        gather: False if only the last states are of use; then a chain that fails ends them all.

    Raises:
        FloatingPointError: if all chains failed.
        KeyboardInterrupt: if it is stopped before there is anything to return, or a second time.
        SystemExit: on SIGTERM, once everything is saved, if the ledger outlives the process.
    """
    began = time.perf_counter()
    wide = method.precision == "float64"
    config: Any = jax.config
    products = config.jax_default_matmul_precision
    shown = Display(title, method.chains, method.iterations, enabled=progress)
    with jax.enable_x64(wide), closing(ledger), shown as display:
        on_device = {device: jax.device_put(data, device) for device in _devices(method.chains)}
        with TRACING:
            chains, emission = begin_chains(method, target, on_device, key, starts, settings, ledger, keeping)
            capacity = programs.capacity(emission)
            advance = {
                device: partial(_advance, method.program(), target, programs.empty_buffers(emission, capacity, device))
                for device in on_device
            }
            for chain in chains[: 0 if ledger.ended else len(on_device)]:
                nothing_run = advance[chain.device](chain.data, chain.state, np.int32(0), np.int32(0))
                jax.block_until_ready(nothing_run)  # compiled
        for chain in chains:
            display.begin(chain.number, chain.done)
        if gather and ledger.size:
            display.say(f"all draws will take at most {ledger.size / 1e6:,.1f} MB on disk")
        compiled = time.perf_counter()
        earlier = ledger.compile_seconds, ledger.run_seconds

        def seconds() -> tuple[float, float]:
            return earlier[0] + compiled - began, earlier[1] + time.perf_counter() - compiled

        def save(ended: str = "") -> None:
            ledger.save([chain.saved() for chain in chains], *seconds(), ended)

        def piece(goal: int, chain: Chain) -> Piece:
            with jax.enable_x64(wide), jax.default_matmul_precision(products):  # a thread has its own
                most = min(capacity, goal - chain.done)
                return chain.run(method, advance[chain.device], most, starts[0])

        def take(chain: Chain, future: Future[Piece], submit: Callable[[Chain], None]) -> None:
            try:
                piece = future.result()
            except FloatingPointError as error:
                chain.stopped = str(error)
                if not gather or not _going(chains):  # the first by number: which was the last in time is chance
                    raise FloatingPointError(next(each.stopped for each in chains if each.stopped)) from error
                display.say(f"chain {chain.number} has stopped, the others go on: {error}")
                return
            first = chain.go_on(piece)
            submit(chain)  # its worker is busy while the piece is taken in
            display.update(chain.number, chain.done, chain.take(first, piece, method, data, ledger, keeping))

        if not _going(chains):
            raise FloatingPointError(f"all chains had stopped: {chains[0].stopped}")
        ended, interrupted = ledger.ended or "draws", False
        asked = list(milestones) or [len(method.kept)]
        for draws in asked if not ledger.ended else ():
            goal = method.kept[draws - 1] + 1 if method.kept else draws or method.iterations
            with Signals(terminate=ledger.durable) as signals:
                _run_chains(goal, chains, partial(piece, goal), take, display, signals, ledger, save)
            try:
                interrupted = signals.stop
                if interrupted and any(chains[i].done < method.iterations for i in _going(chains)):
                    raise KeyboardInterrupt
                if milestones and enough is not None:
                    save()
                    # A resumed run may be past this milestone: it is asked with the draws that it had then.
                    if enough(*ledger.values(_going(chains), draws)):
                        ended = "until"
                        break
            except KeyboardInterrupt:  # also while the draws were looked at
                ended, interrupted = "interrupted", True
                break
        if not ledger.ended:
            save("" if ended == "interrupted" else ended)
        with TRACING:
            gathered = _gather(method, target, chains, ledger) if gather else ({}, {}, {})
    return Outcome(
        *gathered,
        averages=[average for i in _going(chains) if (average := chains[i].average) is not None],
        states=[chain.state for chain in chains],
        stopped={chain.number: chain.stopped for chain in chains if chain.stopped},
        cost=Cost(*seconds(), round(sum(chain.gradients for chain in chains)), peak_memory()),
        ended=ended,
        interrupted=interrupted,
    )


def _advance(program: Method, target: Target, buffers: Any, data: Any, *rest: Any) -> Any:
    return programs.advance(program, target, data, buffers, *rest)


def _devices(chains: int) -> list[Any]:
    """Where chains run: on a CPU one device serves all threads, elsewhere chains are dealt out to the devices."""
    devices = jax.local_devices()
    return devices[:1] if devices[0].platform == "cpu" else devices[:chains]


def _run_chains(
    goal: int,
    chains: list[Chain],
    piece: Callable[[Chain], Piece],
    take: Callable[[Chain, Future[Piece], Callable[[Chain], None]], None],
    display: Display,
    signals: Signals,
    ledger: Ledger,
    save: Callable[[], None],
) -> None:
    """Run all chains to so many iterations in worker threads.

    The first Ctrl-C lets the pieces under way end and starts no other; a second one is raised at once. SIGTERM does the
    same as the first, saves, and ends the process.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    pool = ThreadPoolExecutor(min(len(chains), cores))
    running: dict[Future[Piece], Chain] = {}

    def submit(chain: Chain) -> None:
        if chain.done < goal and not chain.stopped and not signals.stop:
            running[pool.submit(piece, chain)] = chain

    told = False
    try:
        for chain in chains:
            submit(chain)
        while running:
            try:
                finished, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
            except KeyboardInterrupt:  # where no signal tells it
                if signals.stop:
                    raise
                signals.stop, finished = True, set()
            for future in finished:
                chain = running.pop(future)
                take(chain, future, submit)
            if signals.stop and not told:
                told = True
                display.say("stopping when the iterations under way are done; Ctrl-C again gives up what was drawn")
                running = {future: chain for future, chain in running.items() if not future.cancel()}
            if ledger.due():  # the workers are busy meanwhile
                save()
    finally:
        pool.shutdown(wait=not running, cancel_futures=True)
    if signals.terminated:
        save()
        raise SystemExit(_TERMINATED)


def _gather(method: Method, target: Target, chains: list[Chain], ledger: Ledger) -> tuple[Values, Values, Values]:
    """Draws, their scalars and the scalars of the iterations, over chains cut to the shortest; states are finished."""
    draws, info = ledger.values(_going(chains))
    if not info or not next(iter(info.values())).shape[1]:
        raise KeyboardInterrupt("stopped before the first draw: there is nothing to return")
    if method.kept:
        return draws, info, {}
    going = [chains[i] for i in _going(chains)]
    ends = [(chain.data, chain.state, chain.last_key) for chain in going]
    draws, statistics, states = programs.conclusions(method, target, ends)
    for chain, state in zip(going, states, strict=True):
        chain.state = state
    return draws, statistics, info


def _going(chains: list[Chain]) -> list[int]:
    """The chains that have not stopped before their end."""
    return [chain.number for chain in chains if not chain.stopped]
