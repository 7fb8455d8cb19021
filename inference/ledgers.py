"""Where the chains of a stage put what they emit. This one keeps it in memory; `inference.journal` keeps it on disk.

The driver tells its ledger of every piece of a chain that has ended, and asks it now and then to save where the chains
are. What is in a ledger is independent of how the chains were cut into pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Ledger", "Saved", "Values"]

Values = dict[str, np.ndarray]


class Saved(NamedTuple):
    """A chain between two pieces.

    Attributes:
        arrays: a tree of arrays: all that going on needs.
        done: iterations so far.
        gradients: evaluated so far.
        stopped: why it stopped before its end, or nothing.
    """

    arrays: Any
    done: int
    gradients: float
    stopped: str


class Ledger:
    """What the chains of a stage have emitted, in memory.

    Attributes:
        durable: whether it outlives the process.
        compile_seconds: spent by earlier processes.
        run_seconds: likewise.
        ended: why the stage ended, if it did so in an earlier process.
        size: bytes that all draws will take on disk.
    """

    durable = False
    compile_seconds = run_seconds = 0.0
    ended = ""
    size = 0

    def __init__(self) -> None:
        self._pieces: list[list[tuple[Values, Values]]] = []

    def restore(self, chains: int, template: Callable[[], Any]) -> list[Saved | None]:
        """Each chain as it was saved, its arrays in the form of the template; None where it has to begin."""
        return [None] * chains

    def begin(self, chains: int, length: int, emission: tuple[Any, Any]) -> None:
        """Make room for so many chains of at most so many draws like this one; nothing in memory."""
        self._pieces = [[] for _ in range(chains)]

    def add(self, chain: int, draws: Values, scalars: Values) -> None:
        """The next draws of a chain, with their scalars."""
        self._pieces[chain].append((draws, scalars))

    def due(self) -> bool:
        """Whether it is time to save."""
        return False

    def save(self, chains: Sequence[Saved], compile_seconds: float, run_seconds: float, ended: str) -> None:
        """Make all that was added, and the chains as they are now, outlive the process; nothing in memory."""

    def values(self, chains: Sequence[int]) -> tuple[Values, Values]:
        """Draws and scalars of some chains, (chain, draw, ...), cut to the shortest."""
        pieces = [self._pieces[chain] for chain in chains]
        draws = _stacked([_joined([draws for draws, _ in chain]) for chain in pieces])
        return draws, _stacked([_joined([scalars for _, scalars in chain]) for chain in pieces])

    def close(self) -> None:
        """No more will be added."""


def _joined(pieces: list[Values]) -> Values:
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in (pieces[0] if pieces else {})}


def _stacked(chains: list[Values]) -> Values:
    names = chains[0] if all(chains) else {}
    return {
        name: np.stack([chain[name][: min(len(other[name]) for other in chains)] for chain in chains]) for name in names
    }
