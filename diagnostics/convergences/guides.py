r"""The verdict on a guide: has its fit arrived, is it better than a constant, and how close are its draws?

A draw u of a guide q has the importance weight w = p(u, y) / q(u). Two numbers judge the weights, because each is blind
to one kind of guide. The tail index k-hat (Yao et al. 2018) is large where q is too narrow; where q is too wide the
weights are bounded and k-hat is small. The effective share of the draws, (sum w)^2 / (S sum w^2) over S draws, is small
for both: for a normal guide that is r times too wide in d directions it is ((2 r^2 - 1)^(1/2) / r^2)^d.

On a network with hidden layers k-hat is large for every guide that is cheaper than the posterior, so it can't tell a
good fit from a bad one. The free energy can: a guide that has collapsed onto the prior explains the data worse than the
best prediction that is the same for every input, and both are in nats of the same log-likelihood.

References: https://arxiv.org/abs/1802.02538, https://arxiv.org/abs/1507.02646 (threshold by the number of draws).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diagnostics.convergences.advice import advice_for_guide
from diagnostics.convergences.loss import LEAST_CHANGE, LEAST_STEPS, Settling
from diagnostics.convergences.verdict import Convergence
from inference import Posterior
from inference.host.arviz import pareto_smoothed
from models import Network

__all__ = ["judge_guide"]

_FAR = 0.5  # standard deviations from the mode: predictions are off by as many of their own
_SAME = 1e-6  # a smaller range of log weights means that the guide is the posterior itself
_LEAST_DRAWS = 100  # with fewer, one narrow guide in two passes


def judge_guide(posterior: Posterior, thresholds: dict[str, float]) -> Convergence:
    """Judge a guide by its loss, its free energy and its importance weights."""
    draws, steps = posterior.shape[1], posterior.curves["loss"].shape[1]
    if draws == 1 and not posterior.statistics:
        return Convergence("One draw: there is no convergence to judge.", None, (), "guide", thresholds=thresholds)
    if steps < LEAST_STEPS:
        few = f"{steps} steps are too few to judge; {LEAST_STEPS} are needed"
        return Convergence(f"Convergence failed: {few}.", False, (few,), "guide", thresholds=thresholds)
    settling = Settling.of(posterior.curves["loss"][0])
    # Newton's steps end at the mode whatever the optimiser's curve before them was.
    newton = "newton_decrement" in posterior.statistics
    moving = [] if newton else settling.failures(thresholds["slope"])
    unsettled = [*(_from_the_mode(posterior) if newton else moving), *posterior.concerns]
    weighted = "guide_log_density" in posterior.statistics
    scarce = weighted and draws < _LEAST_DRAWS
    k, share = _importance(posterior) if weighted and not scarce else (np.nan, np.nan)
    most = min(thresholds["pareto_k"], 1 - 1 / math.log10(max(draws, _LEAST_DRAWS)))
    far = weighted and not k <= most
    apart = weighted and not share >= thresholds["importance"]
    close = weighted and not (far or apart)
    if close and not newton:  # the weights judge the draws themselves, so what the loss still does has no bearing
        unsettled = list(posterior.concerns)
    deep = _is_deep(posterior.model)
    gap = _below_a_constant(posterior)
    collapsed = [_worse_than_a_constant(posterior, gap)] if deep and gap < 0 and not close else []
    failures = unsettled + collapsed
    if scarce:
        failures.append(f"{draws} draws are too few to judge the importance weights; {_LEAST_DRAWS} are needed")
    elif far and not deep:
        failures.append(f"Pareto k-hat {k:.3f}, above {most:.3f}: the guide is far from the posterior")
    if apart and not deep and not scarce:
        failures.append(
            f"the weights leave {share:.1%} of the draws, below {thresholds['importance']:.0%}: the guide is not the "
            "posterior, by its place or by its width"
        )
    if unsettled:
        verdict = "Convergence failed: the guide had not settled when the steps ran out."
        if newton:
            verdict = "Convergence failed: the normal is not at the mode."
        verdict += _explained(gap)
    elif collapsed:
        verdict = f"The fit failed: {collapsed[0]}."
    elif scarce:
        verdict = f"Convergence failed: {failures[-1]}."
    else:
        verdict = _sentence(posterior, k, share, far, apart, deep, gap)
    noise = float(posterior.curves["gradient_noise"][0, -max(steps // 5, 1) :].mean())
    return Convergence(
        verdict,
        False if failures else True if close else None,
        tuple(failures),
        "guide",
        advice_for_guide(posterior, not unsettled, bool(collapsed), far and not scarce, apart and not scarce),
        cautions=(*posterior.notes, *(moving if close else ())),
        pareto_k=k,
        importance=share,
        loss_slope=settling.slope,
        loss_change=settling.change,
        least_change=LEAST_CHANGE,
        gradient_noise=noise,
        settled=not unsettled,
        constant_gap=gap,
        cost=posterior.cost,
        thresholds=thresholds,
    )


def _sentence(posterior: Posterior, k: float, share: float, far: bool, apart: bool, deep: bool, gap: float) -> str:
    """The verdict on a guide that has settled and has not collapsed."""
    numbers = f"Pareto k-hat {k:.2f}, {share:.0%} of the draws effective"
    if np.isnan(k):
        held = [name for name, values in posterior.draws.items() if (values == values[:1, :1]).all()]
        such = f" (it holds {held[0]}, for instance, at one value)" if held else ""
        why = (
            f"It is a singular guide, whose draws have no density over all weights{such}, so"
            if posterior.statistics
            else "Its draws were changed since, as by pruning, and their densities are not known, so"
        )
        return (
            f"The guide has settled. {why} there are no importance weights and no k-hat: only a comparison with exact "
            "draws can show how far it is from the posterior."
        )
    if not (far or apart):
        return f"The guide has settled and is close to the posterior ({numbers})."
    if deep:
        return (
            f"The guide has settled.{_explained(gap)} Its draws are an approximation that can't be certified: "
            f"importance weights tell little about a network ({numbers}), and only a comparison with exact draws shows "
            "its error."
        )
    if far:
        return (
            f"The guide has settled, but the importance check failed ({numbers}): its draws are an approximation whose "
            "error only a comparison with exact draws can show."
        )
    return (
        f"The guide has settled, but the importance check failed ({numbers}): the weights can be used, the draws as "
        "they are differ from the posterior."
    )


def _from_the_mode(posterior: Posterior) -> list[str]:
    """How far Laplace's normal is from the mode, in words, if it is far and the run has not said so."""
    decrement = float(posterior.statistics["newton_decrement"].max())
    if decrement <= _FAR or posterior.concerns:
        return []
    return [f"laplace: the normal is {decrement:.2g} standard deviations from the mode, which was not reached"]


def _explained(gap: float) -> str:
    return f" It explains the data {gap:,.0f} nats better than a constant prediction." if gap > 0 else ""


def _importance(posterior: Posterior) -> tuple[float, float]:
    """K-hat of the importance weights, and the effective share of the draws under the smoothed weights."""
    statistics = posterior.statistics
    log_weights = (statistics["lp"].astype(np.float64) - statistics["guide_log_density"]).ravel()
    if not np.isfinite(log_weights).all():
        return np.inf, 0.0
    if np.ptp(log_weights) < _SAME:  # ArviZ finds no tail there, and says infinity
        return 0.0, 1.0
    smoothed, k = pareto_smoothed(log_weights)
    weights = np.exp(smoothed - smoothed.max())
    return k, float(weights.sum() ** 2 / (weights @ weights) / len(weights))


def _below_a_constant(posterior: Posterior) -> float:
    """How far the free energy is below that of the best constant prediction, in nats; nan where it is not known.

    A guide's free energy is its loss; Laplace's is minus the log evidence, which is the network's only with the full
    structure. The free energies of singular guides and of tempered posteriors are not on the same scale. The constant
    pays for its parameters too, half the logarithm of the number of rows for each (Schwarz 1978).
    """
    statistics, model = posterior.statistics, posterior.model
    if not isinstance(model, Network) or posterior.temperature != 1 or "guide_log_density" not in statistics:
        return np.nan
    if "log_evidence" in statistics:
        if getattr(posterior.method, "structure", None) != "full":
            return np.nan
        free_energy = -float(statistics["log_evidence"].mean())
    else:
        loss = posterior.curves["loss"][0]
        free_energy = float(loss[-max(len(loss) // 5, 1) :].mean())
    y = posterior.observed["y"]
    likelihood: Any = model.likelihood
    scales = getattr(likelihood, "scale", None) is None
    parameters = likelihood.classes - 1 if likelihood.classes else likelihood.outputs * (1 + scales)
    constant = likelihood.constant_log_likelihood(y) - 0.5 * parameters * math.log(len(y))
    return -constant - free_energy


def _worse_than_a_constant(posterior: Posterior, gap: float) -> str:
    if "log_evidence" in posterior.statistics:
        return (
            f"its log evidence is {-gap:,.1f} nats below that of predicting the same for every input: there is no room "
            "around this mode, as where it overfits, or the inputs say nothing about the targets"
        )
    return (
        f"its bound on the evidence is {-gap:,.1f} nats below that of predicting the same for every input, so the fit "
        "has collapsed, or the inputs say nothing about the targets"
    )


def _is_deep(model: Any) -> bool:
    """Whether a model is a network with hidden layers."""
    return isinstance(model, Network) and bool(getattr(model.architecture, "hidden", True))
