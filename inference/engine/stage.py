"""What the driver is given, a stage of a run, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax

from inference.engine.kept_draws import Keeping
from inference.engine.ledger import Values
from inference.host.machine import Cost
from inference.methods import Method
from inference.results.running_averages import Average
from inference.target.density import Position, Target

__all__ = ["Outcome", "Stage", "Stop"]


@runtime_checkable
class Stop(Protocol):
    """When a stage may end before all its iterations are made."""

    @property
    def milestones(self) -> Sequence[int]:
        """The numbers of draws, or of iterations of a method that keeps none, after which to ask."""

    def met(self, draws: Values, scalars: Values) -> bool:
        """Whether these are enough, which are those of a milestone."""


@dataclass(frozen=True, eq=False)
class Stage:
    """What to drive.

    Attributes:
        title: what to call it.
        method: what to run.
        target: what to run it on.
        data: of the target, for each chain; for many fits together, see `inference.runs.side_by_side`.
        key: each chain folds its number in.
        starts: each chain's start.
        settings: what all chains share.
        keeping: what to keep of the draws.
        stop: when to end early; None makes all iterations.
        gather: False if only the last states are of use; then a chain that fails ends them all.
    """

    title: str
    method: Method
    target: Target
    data: Sequence[Any]
    key: jax.Array
    starts: list[Position]
    settings: Any
    keeping: Keeping
    stop: Stop | None = None
    gather: bool = True


@dataclass(frozen=True)
class Outcome:
    """What the driver hands to the posterior.

    Attributes:
        draws: each site's values, (chain, draw, ...).
        statistics: each scalar of the draws, (chain, draw).
        curves: each scalar of the iterations of a method that optimises, (chain, step).
        averages: each chain's averaged predictions, if any were asked for.
        states: each chain's last state.
        stopped: the chains that stopped before their end and why; their draws are left out.
        cost: what it took, in earlier processes too.
        ended: why it ended: "draws", all were made; "until", enough were; "interrupted", by Ctrl-C.
        interrupted: whether Ctrl-C was pressed, if only when the last iteration was under way.
    """

    draws: Values
    statistics: Values
    curves: Values
    averages: list[Average]
    states: list[Any]
    stopped: dict[int, str]
    cost: Cost
    ended: str
    interrupted: bool
