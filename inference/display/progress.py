"""Progress of a run: one bar for each stage, in a notebook, in a terminal or, as plain lines, in a log.

A stage leaves one line behind. What is under way inside of another display, such as a run of a sweep, is told on that
one's line. Nothing is drawn more often than the eye needs, so that it costs nothing.
"""

from __future__ import annotations

import html
import re
import sys
import time
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Protocol

__all__ = ["Display"]

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


class Display:
    """Shows how far a stage is. Used as a context manager.

    Args:
        title: what is running.
        total: how much there is to do, for each chain; None if that is not known.
        chains: how many chains do it.
        counted: what is counted.
        enabled: False shows nothing.
    """

    def __init__(
        self, title: str, total: int | None, *, chains: int = 1, counted: str = "iteration", enabled: bool = True
    ) -> None:
        self._title = title if chains == 1 else f"{title}, {chains} chains"
        self._counted, self._enabled = counted, enabled
        self._total = None if total is None else total * chains
        self._done, self._before, self._words = [0] * chains, [0] * chains, [""] * chains
        self._inside = ""
        self._outer: Display | None = None
        self._place: _Place | None = None

    def __enter__(self) -> Display:
        self._entered = self._began = self._shown = time.perf_counter()
        if self._enabled:
            self._outer = _OUTERMOST.get()
            if self._outer is None:
                place = _Cell if _in_notebook() else _Terminal if sys.stderr.isatty() else _Log
                self._place = place(f"{self._title}: preparing")
            self._token = _OUTERMOST.set(self)
        return self

    def begin(self, done: int, chain: int = 0) -> None:
        """Show that all is compiled and that `chain` had done so much in an earlier process."""
        self._done[chain] = self._before[chain] = done
        self._began = time.perf_counter()
        self._show_in_time()

    def update(self, done: int, words: str = "", chain: int = 0) -> None:
        """Show that `chain` has done so much, and what there is to say of it."""
        self._done[chain], self._words[chain], self._inside = done, words, ""
        self._show_in_time()

    def say(self, message: str) -> None:
        """Show a message that stays."""
        if self._outer is not None:
            self._outer.say(message)
        elif self._place is not None:
            self._place.say(message)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._enabled:
            _OUTERMOST.reset(self._token)
        if self._place is not None:
            self._inside = ""
            counted = f"{self._count()} in {_duration(time.perf_counter() - self._entered)}"
            self._place.close(f"{self._title}: {', '.join([counted, *self._status()])}")

    def _show_in_time(self) -> None:
        """Show where it is, unless the last time was a moment ago."""
        if self._outer is not None:
            self._outer._inside = self._under_way()
            self._outer._show_in_time()
        elif self._place is not None and time.perf_counter() - self._shown >= self._place.seconds:
            self._shown = time.perf_counter()
            self._place.show(self._under_way(), sum(self._done) / self._total if self._total else None)

    def _under_way(self) -> str:
        new, spent = sum(self._done) - sum(self._before), time.perf_counter() - self._began
        left = ""
        if self._total and 0 < new and sum(self._done) < self._total:
            left = f", {_duration(spent * (self._total - sum(self._done)) / new)} left"
        counted = [] if self._total is None else [f"{self._count()}{left}"]
        return f"{self._title}: {', '.join([*counted, *self._status()])}"

    def _count(self) -> str:
        done = sum(self._done)
        of = "" if self._total in (None, done) else f"of {self._total:,} "
        return f"{done:,} {of}{self._counted}{'' if (self._total or done) == 1 else 's'}"

    def _status(self) -> list[str]:
        return [words for words in (_together(self._words), self._inside) if words]


_OUTERMOST: ContextVar[Display | None] = ContextVar("display", default=None)


class _Place(Protocol):
    """Where progress is shown: `seconds` is the least time between two drawings, `share` what is done, 0 to 1."""

    seconds: float

    def __init__(self, line: str) -> None: ...
    def show(self, line: str, share: float | None) -> None: ...
    def say(self, message: str) -> None: ...
    def close(self, line: str) -> None: ...


class _Log:
    """A line now and then."""

    seconds = 10.0

    def __init__(self, line: str) -> None: ...

    def show(self, line: str, share: float | None) -> None:
        self.say(line)

    def say(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    close = say


class _Terminal:
    """A bar that is drawn again in its place, and a line once it is over."""

    seconds = 0.5

    def __init__(self, line: str) -> None:
        from rich import progress
        from rich.console import Console
        from rich.table import Column

        self._console = Console(stderr=True)
        words = progress.TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
        bar = progress.BarColumn(bar_width=24)
        self._bars = progress.Progress(bar, words, console=self._console, auto_refresh=False, transient=True)
        self._task = self._bars.add_task(line, total=None)
        self._bars.start()

    def show(self, line: str, share: float | None) -> None:
        total, done = (None, None) if share is None else (1.0, share)
        self._bars.update(self._task, total=total, completed=done, description=line, refresh=True)

    def say(self, message: str) -> None:
        self._console.print(message, markup=False, highlight=False, soft_wrap=True)

    def close(self, line: str) -> None:
        self._bars.stop()
        self.say(line)


class _Cell:
    """One output of a cell in a notebook, which is replaced, so that Jupyter and VS Code need nothing but HTML."""

    seconds = 0.5

    def __init__(self, line: str) -> None:
        self._messages: list[str] = []
        self._handle: Any = None
        self.show(line, None)

    def show(self, line: str, share: float | None) -> None:
        done = "" if share is None else f' max="1" value="{share:.4f}"'
        self._replace(line, f'<progress{done} style="width: 12em; vertical-align: middle"></progress> ')

    def say(self, message: str) -> None:
        self._messages.append(message)

    def close(self, line: str) -> None:
        self._replace(line, "")

    def _replace(self, line: str, bar: str) -> None:
        from IPython.display import display

        lines = "".join(f"{html.escape(message)}<br>" for message in self._messages) + bar + html.escape(line)
        bundle = {
            "text/plain": "\n".join([*self._messages, line]),
            "text/html": f'<div style="font-variant-numeric: tabular-nums; opacity: .8">{lines}</div>',
        }
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; IPython is not imported to find out."""
    loaded = sys.modules.get("IPython")
    shell = loaded.get_ipython() if loaded is not None else None
    return any(kind.__name__ == "ZMQInteractiveShell" for kind in type(shell).__mro__)


def _together(words: list[str]) -> str:
    """What chains say, as one: phrases that differ in their numbers alone are told once, with the range of each."""
    phrases: dict[str, list[list[str]]] = {}
    for phrase in (phrase for each in words for phrase in each.split(", ") if phrase):
        phrases.setdefault(_NUMBER.sub("#", phrase), []).append(_NUMBER.findall(phrase))
    told = []
    for form, numbers in phrases.items():
        ranges = [(min(column, key=float), max(column, key=float)) for column in zip(*numbers, strict=True)]
        each = iter(low if low == high else f"{low} to {high}" for low, high in ranges)
        told.append(re.sub("#", lambda _, each=each: next(each), form))  # type: ignore[misc]
    return ", ".join(told)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
