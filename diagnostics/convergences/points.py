"""The verdict on point estimates and ensembles: one draw each, of which only the loss can be judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from diagnostics.convergences.advice import advice_for_point
from diagnostics.convergences.loss import LEAST_STEPS, Settling
from diagnostics.convergences.verdict import Convergence
from inference import Posterior

__all__ = ["judge_point"]

_NATS_PER_ROW = 0.1  # a loss that falls by less changes a log score by less; a point's own curve has hardly any noise


def judge_point(posterior: Posterior, thresholds: dict[str, float]) -> Convergence:
    """Judge whether the loss of each member had settled when its steps ran out; there is no spread to judge."""
    members, loss = posterior.shape[0], posterior.curves.get("loss")
    what = "One draw" if members == 1 else f"{members} members of one draw each"
    nothing = f"{what}: there is no spread to judge"
    verdict = Convergence(
        f"{nothing}.", None, (), "point", thresholds=thresholds, cost=posterior.cost, cautions=posterior.notes
    )
    if loss is None:
        return verdict
    if loss.shape[1] < LEAST_STEPS:
        return replace(verdict, verdict=f"{nothing}, and {loss.shape[1]} steps are too few to judge the loss.")
    each = [Settling.of(curve) for curve in loss]
    rows = max(len(np.atleast_1d(values)) for values in posterior.observed.values())
    least = _NATS_PER_ROW * rows
    found = [settling.failures(thresholds["slope"], nats=least, share=0.0) for settling in each]
    unsettled = [i for i, failures in enumerate(found) if failures]
    most = max(each, key=lambda settling: abs(settling.change))
    verdict = replace(
        verdict, settled=not unsettled, loss_slope=most.slope, loss_change=most.change, least_change=least
    )
    if not unsettled:
        return replace(verdict, verdict=f"{nothing}; {'its' if members == 1 else 'each'} loss had settled.")
    which = "" if members == 1 else f"member {unsettled[0]}: " if len(unsettled) == 1 else f"{len(unsettled)} members: "
    worst = max(unsettled, key=lambda i: each[i].fall)
    who = "the optimiser" if members == 1 else f"{len(unsettled)} of {members} members"
    return replace(
        verdict,
        verdict=f"Convergence failed: {who} had not arrived when the steps ran out.",
        passed=False,
        failures=tuple(f"{which}{failure}" for failure in found[worst]),
        advice=advice_for_point(posterior),
    )
