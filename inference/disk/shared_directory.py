"""A run's directory that several hosts see: the first one writes it, and the others read what it wrote.

Only the first host holds the lock, writes what was asked for, and saves draws and states. The others look whether they
see the same, so that a folder that is not shared is found out before anything compiles. What they draw, which is the
same, they keep in memory; when a run is resumed, they begin with what they read here.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from inference.disk.journal import Journal
from inference.disk.run_directory import RunDirectory
from inference.engine.ledger import Ledger, Saved
from inference.host.hosts import all_do, check_same, count, everyones, first_says, is_first

__all__ = ["Mirror", "SharedDirectory", "check_unused", "run_directory"]

_LATE = 30.0  # seconds within which a file that one host wrote is there for the others, as a network's disk has it


def run_directory(path: str | Path, every: float = 10.0) -> RunDirectory:
    """The directory of a run on one host or on several."""
    return RunDirectory(path, every) if count() == 1 else SharedDirectory(path, every)


def check_unused(path: str | Path) -> None:
    """Raise ValueError if a run can't begin in a directory because something is in it."""
    with run_directory(path) as folder:
        if folder.exists():
            raise ValueError(
                f"{path} holds a run; go on with it by inference.resume({str(path)!r}), or use another directory"
            )


class SharedDirectory(RunDirectory):
    """A run on a disk that all hosts see. As a context, the first host holds the lock."""

    def __init__(self, path: str | Path, every: float = 10.0) -> None:
        super().__init__(path, every)
        self._own = RunDirectory(path, every)  # as this host sees it

    def exists(self) -> bool:
        """Whether a run has begun here, as the first host sees it."""
        return first_says(self._own.exists)

    def create(self, asked: dict[str, Any], arrays: list[np.ndarray]) -> None:
        """Let the first host write, and look whether all see it."""
        first_says(lambda: self._own.create(asked, arrays))
        self.asked()

    def lengthen(self, draws: int, asked: dict[str, Any], template: Callable[[], Any]) -> None:
        """Let the first host make room for more draws, when the others have read what they need."""
        everyones("ready")
        first_says(lambda: self._own.lengthen(draws, asked, template))
        self.asked()

    def asked(self) -> dict[str, Any]:
        """What was asked for when the run began, the same on all hosts."""
        there = self.exists()
        asked = all_do(lambda: self._seen(there))
        digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        check_same(f"{self.path}, which all hosts must see,", lambda: {"its run.json": digest})
        return asked

    def _seen(self, there: bool) -> dict[str, Any]:
        """What is asked for in the file that this host sees, maybe a little later than the first one."""
        until = time.monotonic() + _LATE
        while there and not self._own.exists() and time.monotonic() < until:
            time.sleep(0.2)
        try:
            return self._own.asked()
        except FileNotFoundError as error:
            if not there:
                raise
            raise FileNotFoundError(f"{error} as this host sees it, and all hosts must see the run") from error

    def arguments(self, asked: Mapping[str, Any]) -> tuple[Any, ...]:
        """The model's arguments, which every host reads."""
        return all_do(lambda: self._own.arguments(asked))

    def stage(self, name: str) -> Any:
        """The journal of a stage on the first host, and its mirror on the others."""
        journal = self._own.stage(name)
        return journal if is_first() else Mirror(journal)

    def __enter__(self) -> SharedDirectory:
        first_says(lambda: bool(self._own.__enter__()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if is_first():
            self._own.__exit__(kind, error, traceback)


class Mirror(Ledger):
    """What the chains of a stage have emitted, in the memory of a host that does not write it down.

    Args:
        journal: the stage on disk, from which the chains of a run that is resumed are read.
    """

    durable = True

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    @property
    def manifest(self) -> dict[str, Any] | None:
        """The last save when the stage was opened; None if there was none."""
        return self._journal.manifest

    def restore(self, chains: int, template: Callable[[], Any]) -> list[Saved | None]:
        """Each chain as it was last saved; None where there is nothing to resume."""
        found = self._journal.restore(chains, template)
        self.compile_seconds, self.run_seconds = self._journal.compile_seconds, self._journal.run_seconds
        self.ended = self._journal.ended
        return found

    def begin(self, chains: int, length: int, emission: tuple[Any, Any]) -> None:
        """Allocate all draws, and put those that were saved in their first places."""
        super().begin(chains, length, emission)
        for i in range(chains if self.manifest else 0):
            draws, scalars = self._journal.values([i])
            self.add(i, {name: each[0] for name, each in draws.items()}, {k: each[0] for k, each in scalars.items()})

    def close(self) -> None:
        """Close the files."""
        self._journal.close()
