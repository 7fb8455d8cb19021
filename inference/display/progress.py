"""Progress of a run: bars in a terminal or a notebook, a few plain lines in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

__all__ = ["Display"]

_LINE_SECONDS = 10.0  # between two lines about the same chain in a log


class Display:
    """Shows how far each chain is. Used as a context manager; writes to standard error.

    Args:
        title: what is running.
        chains: how many chains there are.
        total: iterations per chain.
        enabled: False shows nothing.
    """

    def __init__(self, title: str, chains: int, total: int, *, enabled: bool) -> None:
        self._labels = [title if chains == 1 else f"{title} chain {i}" for i in range(chains)]
        self._total = total
        self._enabled = enabled
        self._bars: Any = None
        self._began = time.perf_counter()
        self._said = [self._began] * chains
        self._before = [0] * chains

    def __enter__(self) -> Display:
        if self._enabled:
            from rich import progress
            from rich.console import Console

            console = Console(stderr=True)
            if console.is_terminal or console.is_jupyter:
                columns = (
                    progress.TextColumn("{task.description}"),
                    progress.BarColumn(bar_width=24),
                    progress.MofNCompleteColumn(),
                    progress.TimeRemainingColumn(compact=True, elapsed_when_finished=True),
                    progress.TextColumn("{task.fields[status]}"),
                )
                self._bars = progress.Progress(*columns, console=console)
                self._tasks = [
                    self._bars.add_task(label, total=self._total, status="compiling") for label in self._labels
                ]
                self._bars.start()
        return self

    def begin(self, chain: int, done: int) -> None:
        """Show that `chain` had made `done` iterations in an earlier process."""
        self._before[chain] = done
        if done and self._bars is not None:
            self._bars.update(self._tasks[chain], completed=done, status="resumed")

    def update(self, chain: int, done: int, status: str) -> None:
        """Show that `chain` has made `done` iterations, with its `status`."""
        if self._bars is not None:
            self._bars.update(self._tasks[chain], completed=done, status=status)
        elif self._enabled and (done == self._total or time.perf_counter() - self._said[chain] > _LINE_SECONDS):
            now = time.perf_counter()
            left = (now - self._began) * (self._total - done) / max(done - self._before[chain], 1)
            words = f", {_duration(left)} left" if 0 < done < self._total else ""
            self._said[chain] = now
            print(f"{self._labels[chain]}: {done}/{self._total}{words}  {status}".rstrip(), file=sys.stderr, flush=True)

    def say(self, message: str) -> None:
        """Show a message above the bars, or as a line of the log."""
        if self._bars is not None:
            self._bars.console.print(message)
        elif self._enabled:
            print(message, file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
