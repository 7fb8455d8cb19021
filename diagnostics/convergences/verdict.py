"""The verdict on a posterior: what was measured, what fails, what to do next, and the sentence that sums it up."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from diagnostics.convergences.spaces import Mixing
from inference.display.cards import card
from inference.display.tables import Table
from inference.host.machine import Cost
from inference.sgmcmc.temperatures import Bias

__all__ = ["Convergence"]

_AT_LEAST = ("ess", "ebfmi", "importance")  # thresholds that are passed from above


@dataclass(frozen=True, eq=False, repr=False)
class Convergence:
    """The verdict on a posterior; `str()` of it starts with the verdict and lists what fails.

    Attributes:
        verdict: one or two sentences.
        passed: True, False, or None where the draws themselves can't tell.
        failures: what misses its threshold.
        kind: what the draws are, "chains", "guide" or "point".
        advice: what to do next.
        cautions: what a user should know although it does not fail: rare divergences, and what the run warned of.
        weights: mixing in weight space, for chains whose draws were kept.
        aligned: mixing in weight space once the order and the signs of hidden units are undone, for a perceptron.
        functions: mixing in function space, for chains of a network.
        divergences: the number of divergent draws, for chains.
        divergent_chains: the number of chains that have divergent draws.
        ebfmi: the least E-BFMI over chains, nan where there is no energy.
        acceptance: the mean acceptance rate, nan where there is none.
        steps: the mean number of gradients per draw, nan where it is not known.
        saturated: the share of NUTS trajectories that reached the largest tree depth, nan for other methods.
        cost: the cost of the draws that are judged.
        bias: temperatures and gradient noise, for a sampler without a Metropolis step that measures them.
        pareto_k: k-hat of a guide's importance weights, nan for other kinds and for a guide without a density.
        importance: the effective share of a guide's draws under its importance weights, nan where `pareto_k` is.
        loss_slope: slope of the loss over the last fifth of the steps in standard errors, nan for chains.
        loss_change: how far that slope takes the loss over these steps, in nats; nan for chains.
        least_change: how far it may take it, however sure the slope is, in nats; nan for chains.
        gradient_noise: the share of a guide's squared gradient that was noise, over the last fifth of the steps: near 1
            where there was nothing left to follow; nan for other kinds.
        settled: whether a loss had come to rest; None for chains.
        constant_gap: how many nats a guide's free energy is below that of predicting the same for every input; negative
            for a guide that has collapsed, nan where it is not known.
        thresholds: the thresholds that were asked for, by name.
    """

    verdict: str
    passed: bool | None
    failures: tuple[str, ...]
    kind: str
    advice: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    weights: Mixing | None = None
    aligned: Mixing | None = None
    functions: Mixing | None = None
    divergences: int = 0
    divergent_chains: int = 0
    ebfmi: float = np.nan
    acceptance: float = np.nan
    steps: float = np.nan
    saturated: float = np.nan
    cost: Cost | None = None
    pareto_k: float = np.nan
    importance: float = np.nan
    loss_slope: float = np.nan
    loss_change: float = np.nan
    least_change: float = np.nan
    gradient_noise: float = np.nan
    settled: bool | None = None
    constant_gap: float = np.nan
    thresholds: dict[str, float] = field(default_factory=dict)
    bias: Bias | None = None

    @property
    def judged(self) -> Mixing | None:
        """The space that decides: functions for a network, else weights; None for a guide or a point."""
        return self.functions or self.weights

    @property
    def ess_per_second(self) -> float:
        """The least ESS in the space that decides, over the seconds of the run with compiling; nan without chains."""
        return self.judged.least_ess / self.cost.seconds if self.judged and self.cost and self.cost.seconds else np.nan

    @property
    def ess_per_gradient(self) -> float:
        """The least ESS in the space that decides, over the full gradients, warm-up included; nan without chains."""
        if not (self.judged and self.cost and self.cost.gradients):
            return np.nan
        return self.judged.least_ess / self.cost.gradients

    @property
    def word(self) -> str:
        """The verdict in a few words."""
        if self.kind == "guide" and self.passed:
            return "close to the posterior"
        if self.kind == "guide" and self.settled and not self.constant_gap < 0:
            return "an approximation"
        return {True: "converged", False: "not to be relied on yet", None: "nothing to certify"}[self.passed]

    def measures(self) -> Table:
        """What was measured, as text, and what passes."""
        found: list[tuple[str, float, str, str]] = []
        for space, each in (("functions", self.functions), ("weights", self.weights)):
            if each is not None and each.names:
                found += [(f"worst R-hat of {space}", each.worst_rhat, ".3f", "rhat")]
                found += [(f"least ESS of {space}", each.least_ess, ",.0f", "ess")]
        found += [
            ("E-BFMI, least of the chains", self.ebfmi, ".2f", "ebfmi"),
            ("divergent draws", self.divergences or np.nan, ",.0f", ""),
            ("mean acceptance", self.acceptance, ".2f", ""),
            ("gradients per draw", self.steps, ",.0f", ""),
            ("k-hat of the importance weights", self.pareto_k, ".2f", "pareto_k"),
            ("effective share of the importance weights", self.importance, ".2f", "importance"),
            ("slope of the loss, in standard errors", self.loss_slope, ".1f", "slope"),
            ("change of the loss over its last fifth, in nats", self.loss_change, ".2g", "change"),
            ("least ESS per second", self.ess_per_second, ",.0f" if self.ess_per_second >= 100 else ".3g", ""),
        ]
        known = [each for each in found if not np.isnan(each[1])]
        passes = {name: f"{'≥' if name in _AT_LEAST else '≤'} {value:g}" for name, value in self.thresholds.items()}
        passes["rhat"] = f"{passes.get('rhat', '')}, or chance"
        passes |= {"slope": f"±{self.thresholds.get('slope', np.nan):g}", "change": f"or ±{self.least_change:g}"}
        rows = [(name, format(value, form), passes.get(threshold, "")) for name, value, form, threshold in known]
        return Table("", ("measured", "value", "passes"), rows)

    def _repr_html_(self) -> str:
        cautions = [f"Caution: {caution}" for caution in self.cautions]
        advice = f"What to do next: {' '.join(self.advice)}" if self.advice else ""
        heading = self.word[:1].upper() + self.word[1:]
        return card(heading, self.verdict, [*self.failures, *cautions], advice, self.measures(), passed=self.passed)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        listed = [f"  - {failure}" for failure in self.failures]
        listed += [f"  caution: {caution}" for caution in self.cautions]
        return "\n".join([self.verdict, *listed, *(f"  next: {step}" for step in self.advice)])
