"""A group: chains that one program advances together, a piece at a time. What an arrangement deals the chains out to.

A worker thread runs a piece and changes nothing; the main thread moves the group on to the end of it, gives the worker
the next one, and takes in what each chain has emitted meanwhile. Between two pieces a group is whole and can be saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from inference.engine.chain import Chain, Piece
from inference.engine.ledger import Ledger
from inference.engine.stage import Stage
from inference.methods import Kernel
from inference.target.density import Data, Position, Target

__all__ = ["Arrangement", "Group", "Ran", "next_work"]


class Ran(NamedTuple):
    """What a worker brings back of a piece.

    Attributes:
        states: where the group is now.
        counts: how many iterations each chain has made.
        emission: what they have emitted, in the form that the group understands.
        pace: units of work per second.
    """

    states: Any
    counts: Sequence[int]
    emission: Any
    pace: float


class Group(Protocol):
    """Chains that are advanced together.

    Attributes:
        chains: the chains.
    """

    chains: list[Chain]

    def prepare(self) -> None:
        """Compile the program, unless another group of the same form has done it."""

    def run(self, goal: int) -> Ran:
        """Run a piece, in a worker thread, of chains that are to make `goal` iterations in all."""

    def go_on(self, ran: Ran, seconds: float) -> None:
        """Move on to the end of a piece, and let the next one take about `seconds`."""

    def pieces(self, ran: Ran) -> Iterator[tuple[Chain, Piece | FloatingPointError]]:
        """What each chain that had not stopped has emitted, or why it must stop."""

    def states(self) -> list[Any]:
        """Where each chain is."""


class Arrangement(Protocol):
    """How chains share a machine.

    Attributes:
        name: its name among the options of samplers.
        details: what there is to say of it once its groups are made; empty if nothing.
    """

    name: str
    details: str

    def begin(self, stage: Stage, ledger: Ledger) -> list[Group]:
        """The chains, in order, in groups, each at its start or where it was saved in `ledger`."""

    def workers(self, groups: int) -> int:
        """How many worker threads so many groups are worth."""

    def compile_ahead(
        self, kernel: Kernel, target: Target, data: Data, position: Position, key: jax.Array, settings: Any
    ) -> Future[Any] | None:
        """Begin to compile the program for chains that begin at a position of these shapes, if that can be done now."""


def next_work(pace: float, seconds: float) -> int:
    """Units of work that take about `seconds`."""
    return int(np.clip(pace * seconds, 1, 2**30))
