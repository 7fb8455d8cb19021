"""The one loop over the outside world: every method's kernel is compiled, run and watched here.

Which chains share a program and a device is not known here: an arrangement deals them out to groups, see
`inference.engine.arrangements`. Worker threads run a piece of a group at a time. The length of a piece follows from how
long the last one took, and does not change the draws, because the number of iterations and the work to be done for them
are arguments of the program. Everything is traced and compiled in the main thread (NumPyro's handler stack is shared by
all threads). On several hosts each runs this loop, and what depends on a clock or a signal is agreed on between two
pieces: the length of the next one, whether there is a next one, and whether the draws are enough.
"""

from __future__ import annotations

import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from typing import Any

from inference.display.progress import Display
from inference.engine import programs
from inference.engine.arrangements import arrange
from inference.engine.chain import Chain
from inference.engine.group import Group, Ran
from inference.engine.ledger import Ledger, Saved, Values
from inference.engine.pace import current_pace
from inference.engine.stage import Outcome, Stage, Stop
from inference.host.arithmetic import arithmetic, precision_of_products
from inference.host.compiling import TRACING
from inference.host.hosts import HostLost, Watch, as_one, check_same, everyones, first_says, is_first, together
from inference.host.machine import Cost, peak_memory
from inference.host.signals import Signals

__all__ = ["Driver", "drive"]

_LARGE = 10**8  # bytes of draws in memory from which on they are worth a word
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
        HostLost: if another host has failed, once everything is saved.
    """
    return Driver(stage, ledger, progress and is_first()).run()


class Driver:
    """A stage under way.

    Attributes:
        stage: what is run.
        ledger: where draws are put.
        display: what is shown.
        signals: the signals that have come since the last milestone.
        pace: how long a piece takes.
        groups: the chains that are advanced together, each where it has got to.
        chains: the chains of all groups.
        ended: why the stage ended, in the words of `Outcome.ended`.
        interrupted: whether Ctrl-C was pressed.
    """

    def __init__(self, stage: Stage, ledger: Ledger, progress: bool) -> None:
        method = stage.method
        self.stage, self.ledger, self.pace = stage, ledger, current_pace()
        self.display = Display(stage.title, method.iterations, chains=method.chains, enabled=progress)
        self.signals = Signals(terminate=ledger.durable)
        self.groups: list[Group] = []
        self.chains: list[Chain] = []
        self.ended, self.interrupted = "draws", False
        self._products, self._watch = precision_of_products(), Watch()
        self._running: dict[Future[Ran], Group] = {}
        self._arrangement, self._why = arrange(method)
        self._began = time.perf_counter()

    def run(self) -> Outcome:
        """Compile, run to the end, gather."""
        with together(), arithmetic(self.stage.method.precision), closing(self.ledger), self.display:
            with TRACING:
                self._compile()
            self._announce()
            if self.ledger.ended:
                self.ended = self.ledger.ended
            else:
                self._run_or_save()
                self._save("" if self.ended == "interrupted" else self.ended)
            states = self._states()
            with TRACING:
                draws, statistics, curves = self._gather(states) if self.stage.gather else ({}, {}, {})
        return Outcome(
            draws,
            statistics,
            curves,
            averages=[chain.average for chain in self._going() if chain.average is not None],
            states=states,
            saved=[chain.saved(state) for chain, state in zip(self.chains, states, strict=True)],
            stopped={chain.number: chain.stopped for chain in self.chains if chain.stopped},
            cost=self._cost(),
            ended=self.ended,
            interrupted=self.interrupted,
        )

    def _compile(self) -> None:
        """Make the groups, each chain where it begins, and compile the programs that advance them."""
        self.groups = self._arrangement.begin(self.stage, self.ledger)
        self.chains = [chain for group in self.groups for chain in group.chains]
        check_same(f"what {self.stage.title} begins with", lambda: self.stage.fingerprints(self._saved()))
        for group in self.groups if not self.ledger.ended else ():
            with as_one():
                group.prepare()
        self._compiled = time.perf_counter()

    def _announce(self) -> None:
        for chain in self.chains:
            self.display.begin(chain.done, chain.number)
        if self.stage.gather and self.ledger.size > (0 if self.ledger.durable else _LARGE):
            where = "on disk" if self.ledger.durable else "of memory"
            self.display.say(f"all draws will take at most {self.ledger.size / 1e6:,.1f} MB {where}")
        if not self._going():
            raise FloatingPointError(f"all chains had stopped: {self.chains[0].stopped}")

    def _run_or_save(self) -> None:
        """Run all milestones; if another host is lost on the way, save what there is."""
        try:
            self._run_milestones()
        except HostLost as lost:
            self._save()
            raise lost.with_state(self.ledger.durable) from lost

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

        def judged() -> bool | None:
            try:
                return bool(stop.met(*self.ledger.values([chain.number for chain in self._going()], draws)))
            except KeyboardInterrupt:
                return None

        enough = first_says(judged)
        if enough is None:
            raise KeyboardInterrupt
        return enough

    def _run_to(self, goal: int) -> None:
        """Run all groups to `goal` iterations in worker threads.

        The first Ctrl-C lets the pieces under way end and starts no new ones; a second one is raised at once. SIGTERM
        does the same as a first Ctrl-C, then saves, and ends the process.
        """
        self._goal, self._told = goal, False
        with Signals(terminate=self.ledger.durable) as self.signals:
            self._pool = ThreadPoolExecutor(self._arrangement.workers(len(self.groups)))
            self._agreed()
            try:
                for group in self.groups:
                    self._submit(group)
                while self._running:
                    for future in self._finished():
                        self._take(self._running.pop(future), future)
                    if self.signals.stop and not self._told:
                        self._stop_soon()
                    if self.ledger.due():  # the workers are busy meanwhile
                        self._save()
            finally:
                self._pool.shutdown(wait=not self._running, cancel_futures=True)
            self._agreed()
            if self.signals.terminated:
                self._save()
                raise SystemExit(_TERMINATED)

    def _submit(self, group: Group) -> None:
        """Give a group's next piece to a worker, unless its chains have reached the goal or are to stop."""
        if any(chain.done < self._goal and not chain.stopped for chain in group.chains) and not self.signals.stop:
            self._watch.begin()
            self._running[self._pool.submit(self._piece, group)] = group

    def _piece(self, group: Group) -> Ran:
        """Run a piece of a group in a worker thread, which has a JAX configuration of its own."""
        with arithmetic(self.stage.method.precision, self._products):
            return group.run(self._goal)

    def _finished(self) -> set[Future[Ran]]:
        try:
            finished = wait(self._running, timeout=0.5, return_when=FIRST_COMPLETED)[0]
        except KeyboardInterrupt:  # where `Signals` has no handler
            if self.signals.noted[0]:
                raise
            self.signals.note()
            return set()
        if not finished:
            self._watch.look()
        return finished

    def _take(self, group: Group, future: Future[Ran]) -> None:
        """Take in a piece that has ended; the group's worker is busy with the next one meanwhile."""
        ran = self._result(future)
        pace, seconds = self._agreed(ran.pace)
        group.go_on(ran._replace(pace=pace), seconds)
        self._submit(group)
        for chain, piece in group.pieces(ran):
            if isinstance(piece, FloatingPointError):
                self._fail(chain, piece)
            else:
                status = chain.take(piece, self.stage.method, self.ledger, self.stage.keeping)
                self.display.update(chain.done, status, chain.number)

    def _result(self, future: Future[Ran]) -> Ran:
        """A piece that has ended; on several hosts it fails when one of them is gone."""
        with as_one():
            ran = future.result()
        self._watch.end()
        return ran

    def _agreed(self, pace: float = 0.0) -> tuple[float, float]:
        """Pace and seconds of a piece, as the first host has them; all hosts then know of the signals of any."""
        said = everyones((pace, self.pace.piece_seconds, self.signals.noted))
        self.signals.heed([noted for _, _, noted in said])
        return said[0][:2]

    def _fail(self, chain: Chain, error: FloatingPointError) -> None:
        """Leave a failed chain out; end the stage if it needs every chain, or if no chain is left."""
        chain.stopped = str(error)
        if not self.stage.gather or not self._going():  # give the first chain's reason: which one was last is chance
            raise FloatingPointError(next(each.stopped for each in self.chains if each.stopped)) from error
        self.display.say(f"chain {chain.number} has stopped, the others go on: {error}")

    def _stop_soon(self) -> None:
        self._told = True
        self.display.say("stopping when the iterations under way are done; Ctrl-C again gives up what was drawn")
        self._running = {future: group for future, group in self._running.items() if not future.cancel()}

    def _save(self, ended: str = "") -> None:
        self.ledger.save(self._saved(), *self._seconds(), ended)

    def _saved(self) -> list[Saved]:
        """Each chain, with where it is."""
        return [chain.saved(state) for chain, state in zip(self.chains, self._states(), strict=True)]

    def _states(self) -> list[Any]:
        """Where each chain is."""
        return [state for group in self.groups for state in group.states()]

    def _cost(self) -> Cost:
        gradients = round(sum(chain.gradients for chain in self.chains))
        why = "; ".join(words for words in (self._why, self._arrangement.details) if words)
        return Cost(*self._seconds(), gradients, peak_memory(), self._arrangement.name, why, self._products or "")

    def _seconds(self) -> tuple[float, float]:
        """The seconds spent compiling and running, earlier processes included."""
        now = time.perf_counter()
        return (
            self.ledger.compile_seconds + self._compiled - self._began,
            self.ledger.run_seconds + now - self._compiled,
        )

    def _gather(self, states: list[Any]) -> tuple[Values, Values, Values]:
        """Draws, their scalars and the scalars of the iterations, cut to the shortest chain; concludes `states`."""
        going, method = self._going(), self.stage.method
        draws, info = self.ledger.values([chain.number for chain in going])
        if not info or not next(iter(info.values())).shape[1]:
            raise KeyboardInterrupt("stopped before the first draw: there is nothing to return")
        if method.kept:
            return draws, info, {}
        ends = [(chain.data, states[chain.number], chain.last_key) for chain in going]
        draws, statistics, concluded = programs.conclusions(method, self.stage.target, ends)
        for chain, state in zip(going, concluded, strict=True):
            states[chain.number] = state
        return draws, statistics, info

    def _going(self) -> list[Chain]:
        """The chains that have not stopped before their end."""
        return [chain for chain in self.chains if not chain.stopped]
