"""The one loop over the outside world: every method's kernel is compiled, run and watched here.

Chains run in worker threads that execute the same compiled single-chain program, so a CPU needs no device count and no
flag, and a chain's draws don't depend on how many others there are. Each thread runs one piece of a chain at a time.
The length of a piece follows from how long the last one took, and does not change the draws, because the number of
iterations and the work to be done for them are arguments of the program. Everything is traced and compiled in the main
thread (NumPyro's handler stack is shared by all threads). On accelerators the chains are dealt out to the devices.
"""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from functools import partial
from typing import Any

import jax
import numpy as np

from inference.display.progress import Display
from inference.engine import programs
from inference.engine.chain import Chain, Piece, begin_chains
from inference.engine.ledger import Ledger, Values
from inference.engine.pace import current_pace
from inference.engine.stage import Outcome, Stage, Stop
from inference.host.compiling import TRACING
from inference.host.machine import Cost, cores, peak_memory
from inference.host.signals import Signals

__all__ = ["Driver", "drive"]

_TERMINATED = 143  # the exit code of a process that was ended by SIGTERM


def drive(stage: Stage, ledger: Ledger, progress: bool) -> Outcome:
    """Run a stage to its end, or to Ctrl-C, and gather what was drawn.

    Args:
        stage: what to run.
        ledger: where to put what is drawn; the stage is resumed from what the ledger already holds.
        progress: whether to show bars.

    Raises:
        FloatingPointError: if all chains failed.
        KeyboardInterrupt: if Ctrl-C is pressed before there is anything to return, or a second time.
        SystemExit: on SIGTERM, once everything is saved, if the ledger outlives the process.
    """
    return Driver(stage, ledger, progress).run()


class Driver:
    """A stage under way.

    Attributes:
        stage: what is run.
        ledger: where draws are put.
        display: what is shown.
        signals: the signals that have come since the last milestone.
        pace: how long a piece of a chain takes.
        chains: the chains, each where it has got to.
        ended: why the stage ended, in the words of `Outcome.ended`.
        interrupted: whether Ctrl-C was pressed.
    """

    def __init__(self, stage: Stage, ledger: Ledger, progress: bool) -> None:
        method = stage.method
        self.stage, self.ledger, self.pace = stage, ledger, current_pace()
        self.display = Display(stage.title, method.iterations, chains=method.chains, enabled=progress)
        self.signals = Signals(terminate=ledger.durable)
        self.chains: list[Chain] = []
        self.ended, self.interrupted = "draws", False
        config: Any = jax.config
        self._products, self._wide = config.jax_default_matmul_precision, method.precision == "float64"
        self._running: dict[Future[Piece], Chain] = {}
        self._began = time.perf_counter()

    def run(self) -> Outcome:
        """Compile, run to the end, gather."""
        with jax.enable_x64(self._wide), closing(self.ledger), self.display:
            with TRACING:
                self._compile()
            self._announce()
            if self.ledger.ended:
                self.ended = self.ledger.ended
            else:
                self._run_milestones()
                self._save("" if self.ended == "interrupted" else self.ended)
            with TRACING:
                draws, statistics, curves = self._gather() if self.stage.gather else ({}, {}, {})
        return Outcome(
            draws,
            statistics,
            curves,
            averages=[chain.average for chain in self._going() if chain.average is not None],
            states=[chain.state for chain in self.chains],
            saved=[chain.saved() for chain in self.chains],
            stopped={chain.number: chain.stopped for chain in self.chains if chain.stopped},
            cost=Cost(*self._seconds(), round(sum(chain.gradients for chain in self.chains)), peak_memory()),
            ended=self.ended,
            interrupted=self.interrupted,
        )

    def _compile(self) -> None:
        """Make the chains, each where it begins, and compile the program that advances them, once per device."""
        stage, devices = self.stage, _devices(self.stage.method.chains)
        self.chains, emission = begin_chains(stage, devices, self.ledger)
        self._capacity, kernel = programs.capacity(emission), stage.method.kernel()
        buffers = {device: programs.empty_buffers(emission, self._capacity, device) for device in devices}
        self._advance = {device: partial(programs.advance, kernel, stage.target, buffers[device]) for device in devices}
        for chain in self.chains[: 0 if self.ledger.ended else len(devices)]:
            jax.block_until_ready(self._advance[chain.device](chain.data, chain.state, np.int32(0), np.int32(0)))
        self._compiled = time.perf_counter()

    def _announce(self) -> None:
        for chain in self.chains:
            self.display.begin(chain.done, chain.number)
        if self.stage.gather and self.ledger.size:
            self.display.say(f"all draws will take at most {self.ledger.size / 1e6:,.1f} MB on disk")
        if not self._going():
            raise FloatingPointError(f"all chains had stopped: {self.chains[0].stopped}")

    def _run_milestones(self) -> None:
        """Run to each milestone until the draws are enough; without a stopping rule, run to the end."""
        method, stop = self.stage.method, self.stage.stop
        for draws in stop.milestones if stop else [len(method.kept)]:
            self._run_to(method.kept[draws - 1] + 1 if method.kept else draws or method.iterations)
            try:
                self.interrupted = self.signals.stop
                if self.interrupted and any(chain.done < method.iterations for chain in self._going()):
                    raise KeyboardInterrupt
                if stop and self._enough(stop, draws):
                    self.ended = "until"
                    return
            except KeyboardInterrupt:  # also raised by Ctrl-C while the draws are judged
                self.ended, self.interrupted = "interrupted", True
                return

    def _enough(self, stop: Stop, draws: int) -> bool:
        """Whether the first `draws` per chain are enough; a resumed run may have more, but is judged as it was then."""
        self._save()
        return stop.met(*self.ledger.values([chain.number for chain in self._going()], draws))

    def _run_to(self, goal: int) -> None:
        """Run all chains to `goal` iterations in worker threads.

        The first Ctrl-C lets the pieces under way end and starts no new ones; a second one is raised at once. SIGTERM
        does the same as a first Ctrl-C, then saves, and ends the process.
        """
        self._goal, self._told = goal, False
        with Signals(terminate=self.ledger.durable) as self.signals:
            self._pool = ThreadPoolExecutor(min(len(self.chains), cores()))
            try:
                for chain in self.chains:
                    self._submit(chain)
                while self._running:
                    for future in self._finished():
                        self._take(self._running.pop(future), future)
                    if self.signals.stop and not self._told:
                        self._stop_soon()
                    if self.ledger.due():  # the workers are busy meanwhile
                        self._save()
            finally:
                self._pool.shutdown(wait=not self._running, cancel_futures=True)
            if self.signals.terminated:
                self._save()
                raise SystemExit(_TERMINATED)

    def _submit(self, chain: Chain) -> None:
        """Give a chain's next piece to a worker, unless the chain has reached the goal or is to stop."""
        if chain.done < self._goal and not chain.stopped and not self.signals.stop:
            self._running[self._pool.submit(self._piece, chain)] = chain

    def _piece(self, chain: Chain) -> Piece:
        """Run a piece of a chain in a worker thread, which has a JAX configuration of its own."""
        with jax.enable_x64(self._wide), jax.default_matmul_precision(self._products):
            most = min(self._capacity, self._goal - chain.done)
            return chain.run(self.stage.method, self._advance[chain.device], most, self.stage.starts[0])

    def _finished(self) -> set[Future[Piece]]:
        try:
            return wait(self._running, timeout=0.5, return_when=FIRST_COMPLETED)[0]
        except KeyboardInterrupt:  # where `Signals` has no handler
            if self.signals.stop:
                raise
            self.signals.stop = True
            return set()

    def _take(self, chain: Chain, future: Future[Piece]) -> None:
        """Take in a piece that has ended; the chain's worker is busy with the next one meanwhile."""
        try:
            piece = future.result()
        except FloatingPointError as error:
            self._fail(chain, error)
            return
        first = chain.go_on(piece, self.pace.piece_seconds)
        self._submit(chain)
        status = chain.take(first, piece, self.stage.method, self.ledger, self.stage.keeping)
        self.display.update(chain.done, status, chain.number)

    def _fail(self, chain: Chain, error: FloatingPointError) -> None:
        """Leave a failed chain out; end the stage if it needs every chain, or if no chain is left."""
        chain.stopped = str(error)
        if not self.stage.gather or not self._going():  # give the first chain's reason: which one was last is chance
            raise FloatingPointError(next(each.stopped for each in self.chains if each.stopped)) from error
        self.display.say(f"chain {chain.number} has stopped, the others go on: {error}")

    def _stop_soon(self) -> None:
        self._told = True
        self.display.say("stopping when the iterations under way are done; Ctrl-C again gives up what was drawn")
        self._running = {future: chain for future, chain in self._running.items() if not future.cancel()}

    def _save(self, ended: str = "") -> None:
        self.ledger.save([chain.saved() for chain in self.chains], *self._seconds(), ended)

    def _seconds(self) -> tuple[float, float]:
        """The seconds spent compiling and running, earlier processes included."""
        now = time.perf_counter()
        return (
            self.ledger.compile_seconds + self._compiled - self._began,
            self.ledger.run_seconds + now - self._compiled,
        )

    def _gather(self) -> tuple[Values, Values, Values]:
        """Draws, their scalars and the scalars of the iterations, cut to the shortest chain; concludes the states."""
        going, method = self._going(), self.stage.method
        draws, info = self.ledger.values([chain.number for chain in going])
        if not info or not next(iter(info.values())).shape[1]:
            raise KeyboardInterrupt("stopped before the first draw: there is nothing to return")
        if method.kept:
            return draws, info, {}
        ends = [(chain.data, chain.state, chain.last_key) for chain in going]
        draws, statistics, states = programs.conclusions(method, self.stage.target, ends)
        for chain, state in zip(going, states, strict=True):
            chain.state = state
        return draws, statistics, info

    def _going(self) -> list[Chain]:
        """The chains that have not stopped before their end."""
        return [chain for chain in self.chains if not chain.stopped]


def _devices(chains: int) -> list[Any]:
    """Where chains run: on a CPU one device serves all threads, elsewhere chains are dealt out to the devices."""
    devices = jax.local_devices()
    return devices[:1] if devices[0].platform == "cpu" else devices[:chains]
