"""Ctrl-C and SIGTERM while chains run: the first is a request that the loop looks at, so nothing is left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

from inference.host.hosts import count

__all__ = ["Signals"]


class Signals:
    """A context that takes note of Ctrl-C and, if `terminate`, of SIGTERM; a second Ctrl-C is raised at once.

    Only the main thread of a process gets signals; in any other thread this does nothing. On several hosts a signal
    counts once all of them know of it: what this host has to tell is `noted`, and what all have told is given to
    `heed`.

    Args:
        terminate: whether to take note of SIGTERM, which otherwise ends the process at once.

    Attributes:
        stop: whether Ctrl-C or SIGTERM has come.
        terminated: whether SIGTERM has come.
        noted: the same two of this host alone.
    """

    def __init__(self, terminate: bool) -> None:
        self.stop = self.terminated = False
        self.noted = (False, False)
        self._numbers = [signal.SIGINT, *([signal.SIGTERM] if terminate else [])]
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):  # set by `nohup`, or not set from Python
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def note(self, terminated: bool = False) -> None:
        """A signal has come to this host."""
        self.noted = True, self.noted[1] or terminated
        if count() == 1:
            self.heed([self.noted])

    def heed(self, noted: Sequence[Sequence[bool]]) -> None:
        """Take in what all hosts have `noted`."""
        self.stop |= any(stop for stop, _ in noted)
        self.terminated |= any(terminated for _, terminated in noted)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.noted[0]:
            raise KeyboardInterrupt
        self.note(number == signal.SIGTERM)
