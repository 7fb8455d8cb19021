"""The pilot: what a method needs to know before its chains run, found by chains of its own in one round or several.

The rounds run one after the other, each from where the last one got to, and the method says after each what it has
learned and whether there is another. The pilot's chains begin at the first starts, whatever the number of chains that
the user asked for, or all at the first of the starts that the user gave. So the draws of a chain don't depend on which
other chains run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax

from inference.disk.run_directory import PILOTS
from inference.display.progress import Display
from inference.engine.driver import drive
from inference.engine.kept_draws import FUNCTIONS, Keeping
from inference.engine.ledger import Ledger
from inference.engine.stage import Outcome, Stage
from inference.host.compiling import tracing
from inference.host.hosts import is_first
from inference.host.machine import Cost
from inference.methods import Method, Rehearsal
from inference.results.function_space import site_columns
from inference.runs.starts import Starts
from inference.target.binding import Bound
from inference.target.density import Position
from models import Network

__all__ = ["Piloted", "find_settings", "pilot_chains"]


_ROUNDS = 2**30  # numbers of rounds, as no chain has them


class Piloted(NamedTuple):
    """What the chains begin with.

    Attributes:
        settings: the kernel's settings, which all chains share.
        positions: each chain's start.
        cost: what the pilot took.
        notes: what a user should know about it.
    """

    settings: Any
    positions: list[Position]
    cost: Cost
    notes: tuple[str, ...]


def pilot_chains(method: Method, settings: Any) -> int:
    """How many chains the pilot has; 0 if there is none."""
    pilot = method.pilot(settings)
    return pilot.chains if pilot is not None else 0


def find_settings(
    method: Method,
    bound: Bound,
    settings: Any,
    key: jax.Array,
    starts: Starts,
    keeping: Keeping,
    ledger: Callable[[str], Ledger],
    progress: bool,
) -> Piloted:
    """Run the pilot, if the method has one.

    Args:
        method: the method whose chains are to run.
        bound: the model with its data.
        settings: the settings that the method begins with.
        key: the key of the pilot.
        starts: a start for each chain, and for each of the pilot's chains.
        keeping: what is kept of the draws of chains.
        ledger: gives the ledger of each round.
        progress: whether to show bars.

    Raises:
        FloatingPointError: if one of its chains failed.
        KeyboardInterrupt: if Ctrl-C stops it.
    """
    cost, notes, positions = Cost(0.0, 0.0, 0, 0), tuple[str, ...](), starts.positions
    given = starts.how == "given"
    network = isinstance(bound.target.model, Network)
    piloted = progress and is_first() and method.pilot(settings) is not None
    with Display(f"{method.name} pilot", None, counted="round", enabled=piloted) as display:
        for number, name in enumerate(PILOTS):
            pilot = method.pilot(settings)
            if pilot is None:
                break
            if number == 0:
                begin = [positions[0]] * pilot.chains if given else positions[: pilot.chains]
            stage = Stage(
                title=f"round {number + 1}",
                method=pilot,
                target=bound.target,
                data=[bound.data] * pilot.chains,
                key=jax.random.fold_in(key, _ROUNDS + number) if number else key,
                starts=begin,
                settings=settings,
                keeping=replace(keeping, inputs=None, keep="none" if network else "all"),
            )
            outcome = drive(stage, ledger(name), progress)
            if outcome.interrupted:
                raise KeyboardInterrupt("stopped before the first draw: there is nothing to return")
            if outcome.stopped:
                raise FloatingPointError(next(iter(outcome.stopped.values())))
            with tracing(method.precision):
                found = method.tuned(bound.target, bound.data, settings, _rehearsal(bound, outcome))
            settings, cost = found.settings, cost + outcome.cost
            notes += (found.note,) if found.note else ()
            if found.positions is not None:
                begin = found.positions
                if not given:
                    positions = [*begin, *positions[len(begin) :]]
            display.update(number + 1)
    return Piloted(settings, positions[: method.chains], cost, notes)


def _rehearsal(bound: Bound, outcome: Outcome) -> Rehearsal:
    statistics = {name: values for name, values in outcome.statistics.items() if name != FUNCTIONS}
    shape = next(iter(statistics.values())).shape[:2]

    def functions() -> Any:
        if FUNCTIONS in outcome.statistics:
            return outcome.statistics[FUNCTIONS]
        return site_columns(outcome.draws, bound.deterministic, shape)

    return Rehearsal(outcome.states, statistics, functions)
