"""Where the chains of a stage put what they emit: in memory here, on disk in `inference.disk.journal`.

The driver gives its ledger what each finished piece of a chain has emitted, and asks it now and then to save where the
chains are. The contents of a ledger don't depend on how the chains were cut into pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from inference.host.machine import available_memory
from inference.host.telling import tell

__all__ = ["Ledger", "Saved", "Values", "cut"]

Values = dict[str, np.ndarray]

_SHARE = 0.5  # of the memory: draws are copied when they are judged and predicted from


class Saved(NamedTuple):
    """A chain between two pieces.

    Attributes:
        arrays: a tree of arrays: all that is needed to continue the chain.
        done: iterations made so far.
        gradients: gradients evaluated so far.
        stopped: why it stopped before its end; empty if it did not.
    """

    arrays: Any
    done: int
    gradients: float
    stopped: str


class Ledger:
    """What the chains of a stage have emitted, in memory.

    Attributes:
        durable: whether its contents outlive the process.
        compile_seconds: seconds that earlier processes spent compiling.
        run_seconds: seconds that earlier processes spent running.
        ended: why the stage ended, if it ended in an earlier process; empty if it did not.
        size: bytes that all draws will take, at most.
    """

    durable = False
    compile_seconds = run_seconds = 0.0
    ended = ""
    size = 0

    def __init__(self) -> None:
        self._groups: tuple[Values, Values] = {}, {}
        self._counts: list[int] = []

    def restore(self, chains: int, template: Callable[[], Any]) -> list[Saved | None]:
        """Each chain as it was saved, its arrays in the form of `template()`; None for a chain that was not saved."""
        return [None] * chains

    def begin(self, chains: int, length: int, emission: tuple[Any, Any]) -> None:
        """Allocate `chains` x `length` draws shaped like `emission`; what is never filled takes no memory."""
        self._counts = [0] * chains
        self.size = sum(
            chains * length * leaf.size * leaf.dtype.itemsize for leaves in emission for leaf in leaves.values()
        )
        if self.size > _SHARE * available_memory():
            tell(
                f"all draws will take {self.size / 1e9:,.1f} GB, and the memory is {available_memory() / 1e9:,.1f} GB; "
                'give a directory, so that they go to disk, or keep="last_layer", a larger thin or fewer draws'
            )
        for group, leaves in zip(self._groups, emission, strict=True):
            group |= {name: np.empty((chains, length, *leaf.shape), leaf.dtype) for name, leaf in leaves.items()}

    def add(self, chain: int, draws: Values, scalars: Values) -> None:
        """Add the next draws of a chain, with their scalars."""
        first = self._counts[chain]
        self._counts[chain] += len(next(iter(scalars.values())))
        for group, values in zip(self._groups, (draws, scalars), strict=True):
            for name, each in values.items():
                group[name][chain, first : self._counts[chain]] = each

    @property
    def most(self) -> int:
        """The largest number of draws that a chain has made."""
        return max(self._counts, default=0)

    def due(self) -> bool:
        """Whether it is time to save."""
        return False

    def save(self, chains: Sequence[Saved], compile_seconds: float, run_seconds: float, ended: str) -> None:
        """Make all that was added, and the chains as they are now, outlive the process; does nothing in memory."""

    def values(self, chains: Sequence[int], most: int | None = None) -> tuple[Values, Values]:
        """Draws and scalars of `chains`, (chain, draw, ...), cut to the shortest chain and to at most `most` draws."""
        count = min((self._counts[chain] for chain in chains), default=0)
        count = count if most is None else min(count, most)
        draws, scalars = (
            {name: cut(values, chains, count) for name, values in group.items()} for group in self._groups
        )
        return draws, scalars

    def close(self) -> None:
        """Close what is open: no more draws will be added."""


def cut(values: np.ndarray, chains: Sequence[int], count: int) -> np.ndarray:
    """The first `count` draws of `chains`, without a copy if these are all chains."""
    every = list(chains) == list(range(len(values)))
    return values[:, :count] if every else values[list(chains), :count]
