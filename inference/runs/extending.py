"""More draws later: a sampler's chains go on from their last states, to the bits that one longer run would have had."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from inference.engine.ledger import Ledger, Saved
from inference.results.posterior import Posterior
from inference.runs.execution import Plan, check_until, draw
from inference.runs.resuming import check_more, extend_directory
from inference.samplers import Sampler

__all__ = ["extend"]


def extend(
    run: Posterior | str | Path,
    draws: int | None = None,
    *,
    until: Any = None,
    model: Any = None,
    progress: bool = True,
    save_every: float = 10.0,
) -> Posterior:
    """Make more draws of a run that has come to its end, or was stopped: the bits are those of one longer run.

    Args:
        run: what `inference.run` returned, in the same process; or the directory of a run, in any process.
        draws: draws per chain in all, those that are there included; None keeps the number that the run was given.
        until: stop before all draws are made, as in `inference.run`; None makes all.
        model: for a directory, the model, if it is not a built-in one.
        progress: show bars, or lines where there is no terminal.
        save_every: for a directory, seconds between two saves.

    Raises:
        ValueError: if there is nothing to go on from, such as a posterior that was read from a file or a method that
            draws no chains, or if the run already has as many draws.
    """
    if isinstance(run, str | Path):
        return extend_directory(run, lambda plan: _longer(plan, draws, until), model, progress, save_every)
    if not isinstance(run, Posterior):
        raise TypeError(f"extend takes a posterior or the directory of a run, got {type(run).__name__}")
    if not isinstance(run.method, Sampler):
        raise ValueError(f"extend makes more draws of Markov chains, and {run.method.name} has none; run it again")
    if run.further is None:
        raise ValueError(
            "this posterior does not know where its chains are, because it was read from a file, or lives in a "
            "directory; give extend the directory, or run it again with more draws"
        )
    plan = _longer(run.further.plan, draws, until)
    check_more(plan.method, run.further.ledger.most)
    return draw(plan, run.further.begun, Continued(run.further.ledger, run.further.saved, run.further.cost), progress)


def _longer(plan: Plan, draws: int | None, until: Any) -> Plan:
    """The plan of the longer run."""
    method = plan.method
    if not isinstance(method, Sampler):
        raise ValueError(f"extend makes more draws of Markov chains, and {method.name} has none; run it again")
    longer = method.extended(method.draws if draws is None else draws, until)
    check_until(plan.model, longer)
    return replace(plan, method=longer)


class Continued(Ledger):
    """A ledger in memory that begins with what another one holds.

    Args:
        before: the ledger of the chains so far.
        saved: where its chains are.
        cost: what they took.
    """

    def __init__(self, before: Ledger, saved: list[Saved], cost: Any) -> None:
        super().__init__()
        self._before, self._saved = before, saved
        self.compile_seconds, self.run_seconds = cost.compile_seconds, cost.run_seconds

    def restore(self, chains: int, template: Any) -> list[Saved | None]:
        """Each chain as it was when the run ended."""
        return list(self._saved)

    def begin(self, chains: int, length: int, emission: tuple[Any, Any]) -> None:
        """Allocate all draws, and put those that there are in their first places."""
        super().begin(chains, length, emission)
        for i in range(chains):
            first = [{name: values[0] for name, values in group.items()} for group in self._before.values([i])]
            self.add(i, *first)
        self._before = Ledger()  # its draws are here now
