"""How often the driver comes up for air: how long a piece of a chain takes, how often it saves, in which chunks.

None of it changes a draw. Tests, and anyone who wants to look at a run more closely, set it for a while:

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
        piece_seconds: how long a piece of a chain should take: short enough to stop and to show progress, long enough
            to cost nothing.
        saving_share: saving may take 1 / `saving_share` of the time; more, if a crash could lose over a minute
            otherwise.
        chunk_bytes: bytes of draws on disk that share a checksum: what is read again when a run is resumed, and what is
            lost if one bit flips.
    """

    piece_seconds: float = 0.25
    saving_share: float = 50.0
    chunk_bytes: int = 4 * 2**20


_CURRENT: ContextVar[Pace] = ContextVar("pace", default=Pace())  # noqa: B039 (a frozen record)


def current_pace() -> Pace:
    """The pace that a driver or a ledger keeps to if it is made now."""
    return _CURRENT.get()


@contextmanager
def pace(**changes: Any) -> Iterator[None]:
    """A context in which runs begin with `changes` to the pace, by the fields of `Pace`."""
    token = _CURRENT.set(replace(current_pace(), **changes))
    try:
        yield
    finally:
        _CURRENT.reset(token)
