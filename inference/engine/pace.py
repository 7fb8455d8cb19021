"""How often the driver comes up for air: how long a piece of a chain takes, how often it saves, in which chunks.

None of it changes a draw. Tests, and who wants to look at a run more closely, set it for a while:

    with pace(piece_seconds=0.01):
        inference.run(...)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["Pace", "current_pace", "pace"]


@dataclass(frozen=True)
class Pace:
    """The pace of a run.

    Attributes:
        piece_seconds: what a piece of a chain aims at: short enough to stop and to show progress, long enough to cost
            nothing.
        saving_share: saving may take one part in so many of the time, unless more than a minute would be lost.
        chunk_bytes: of draws on disk that share a checksum: what is read again when a run is resumed, and what is lost
            if one bit flips.
    """

    piece_seconds: float = 0.25
    saving_share: float = 50.0
    chunk_bytes: int = 4 * 2**20


_CURRENT: ContextVar[Pace] = ContextVar("pace", default=Pace())  # noqa: B039 (a frozen record)


def current_pace() -> Pace:
    """The pace that a driver or a ledger made now keeps to."""
    return _CURRENT.get()


@contextmanager
def pace(**changes: Any) -> Iterator[None]:
    """Runs that begin within this context keep to another pace; see the fields of `Pace`."""
    token = _CURRENT.set(replace(current_pace(), **changes))
    try:
        yield
    finally:
        _CURRENT.reset(token)
