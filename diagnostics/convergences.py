"""Convergence: can the draws be believed, and in which space?

Chains are judged by rank-normalised R-hat and by effective sample size, in weight space and in function space, by
divergences and by E-BFMI. A guide is judged by its loss and by the Pareto k-hat of its importance weights, never by
R-hat, which independent draws always pass. A point has nothing to judge. The result is a value with named thresholds,
a list of what fails, and a verdict in words.

References: Vehtari et al. 2021 (R-hat, ESS; 10.1214/20-BA1221), Betancourt 2016 (E-BFMI; arXiv:1604.00695),
Yao et al. 2018 (k-hat of a guide; arXiv:1802.02538).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from diagnostics.advice import advice_for_chains, advice_for_guide
from diagnostics.biases import Bias
from diagnostics.settling import Settling
from diagnostics.spaces import Mixing, aligned_mixing, function_mixing, weight_mixing
from inference import Posterior
from inference.arviz_import import arviz
from inference.costs import Cost

__all__ = ["Convergence", "convergence"]

_LEAST_DRAWS, _LEAST_STEPS = 25, 50  # a tail of 5 importance weights to fit, and 10 losses to see a slope in


@dataclass(frozen=True, eq=False)
class Convergence:
    """The verdict on a posterior; `str()` of it starts with the verdict and lists what fails.

    Attributes:
        verdict: one or two sentences.
        passed: True, False, or None where there is nothing to judge.
        failures: what misses its threshold.
        kind: what the draws are, "chains", "guide" or "point".
        advice: what to do next.
        weights: mixing in weight space, for chains whose draws were kept.
        aligned: the same once the order and the signs of hidden units are undone, for chains of a perceptron.
        functions: mixing in function space, for chains of a network.
        divergences: number of divergent draws, for chains.
        divergent_chains: in how many chains they are.
        ebfmi: the least E-BFMI over chains, nan where there is no energy.
        acceptance: the mean acceptance rate, nan where there is none.
        saturated: the share of NUTS trajectories that reached the largest tree depth, nan for other methods.
        cost: of the draws that are judged.
        bias: temperatures and gradient noise, for a sampler without a Metropolis step that measures them.
        pareto_k: of the guide's importance weights, nan for others and for a guide without a density.
        loss_slope: slope of the loss over the last fifth of the steps in standard errors, nan for others.
        gradient_noise: the share of a guide's squared gradient that was noise, over the last fifth of the steps: near 1
            where there was nothing left to follow; nan for others.
        settled: whether a guide's loss had come to rest; None for others.
        thresholds: what was asked for.
    """

    verdict: str
    passed: bool | None
    failures: tuple[str, ...]
    kind: str
    advice: tuple[str, ...] = ()
    weights: Mixing | None = None
    aligned: Mixing | None = None
    functions: Mixing | None = None
    divergences: int = 0
    divergent_chains: int = 0
    ebfmi: float = np.nan
    acceptance: float = np.nan
    saturated: float = np.nan
    cost: Cost | None = None
    pareto_k: float = np.nan
    loss_slope: float = np.nan
    gradient_noise: float = np.nan
    settled: bool | None = None
    thresholds: dict[str, float] = field(default_factory=dict)
    bias: Bias | None = None

    @property
    def judged(self) -> Mixing | None:
        """The space that decides: functions for a network, else weights; None for a guide or a point."""
        return self.functions or self.weights

    @property
    def ess_per_second(self) -> float:
        """The least ESS in the space that decides, over the seconds of the run, compiling included; nan for others."""
        return self.judged.least_ess / self.cost.seconds if self.judged and self.cost and self.cost.seconds else np.nan

    @property
    def ess_per_gradient(self) -> float:
        """The least ESS in the space that decides, over the full gradients, warm-up included; nan for others."""
        if not (self.judged and self.cost and self.cost.gradients):
            return np.nan
        return self.judged.least_ess / self.cost.gradients

    def __str__(self) -> str:
        listed = [f"  - {failure}" for failure in self.failures] + [f"  next: {step}" for step in self.advice]
        return "\n".join([self.verdict, *listed])


def convergence(
    posterior: Posterior,
    x: Any = None,
    *,
    rhat: float = 1.01,
    ess: float = 400.0,
    ebfmi: float = 0.3,
    pareto_k: float = 0.7,
    slope: float = 3.0,
    temperature: float = 0.2,
    noise: float = 0.1,
) -> Convergence:
    """Judge a posterior.

    Args:
        posterior: of any method.
        x: inputs at which a network's functions are judged; by default 30 of its training inputs, 10 points between and
            10 outside them.
        rhat: the largest rank-normalised R-hat that passes.
        ess: the smallest bulk and tail effective sample size that pass.
        ebfmi: the smallest energy fraction of missing information that passes.
        pareto_k: the largest k-hat of a guide's importance weights that passes.
        slope: how many standard errors the loss of a guide may still be falling, or be rising, by.
        temperature: by which share the configurational temperature of a sampler without a Metropolis step may differ.
        noise: the most that minibatches may add to the injected noise, as a share of it.
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(f"convergence needs a posterior, got {type(posterior).__name__}")
    thresholds = {
        "rhat": rhat, "ess": ess, "ebfmi": ebfmi, "pareto_k": pareto_k, "slope": slope, "temperature": temperature,
        "noise": noise,
    }  # fmt: skip
    if posterior.kind == "point":
        members = posterior.shape[0]
        what = "One draw" if members == 1 else f"{members} members of one draw each"
        return Convergence(f"{what}: there is no convergence to judge.", None, (), "point", thresholds=thresholds)
    if posterior.kind == "guide":
        return _judge_guide(posterior, thresholds)
    return _judge_chains(posterior, x, thresholds)


def _judge_chains(posterior: Posterior, x: Any, thresholds: dict[str, float]) -> Convergence:
    rhat, ess = thresholds["rhat"], thresholds["ess"]
    if posterior.shape[1] < 4:
        few = f"{posterior.shape[1]} draws per chain are too few to judge; at least 4 are needed"
        return Convergence(f"Convergence failed: {few}.", False, (few,), "chains", thresholds=thresholds)
    functions, weights, aligned = function_mixing(posterior, x), weight_mixing(posterior), aligned_mixing(posterior)
    if functions is None and weights is None:  # no draws were kept: all there is to judge is their density
        weights = Mixing(posterior.statistics["lp"][..., None].astype(np.float64), ("lp",), 1)
    kept = functions is not None or bool(posterior.draws)
    in_weights = weights.failures("weight space" if kept else "the log density", rhat, ess) if weights else []
    in_functions = functions.failures("function space", rhat, ess) if functions else []

    statistics = posterior.statistics
    divergent = statistics["diverging"].sum(axis=1) if "diverging" in statistics else np.zeros(posterior.shape[0], int)
    acceptance = float(statistics["acceptance_rate"].mean()) if "acceptance_rate" in statistics else np.nan
    saturated = float(np.mean(statistics.get("reached_max_treedepth", np.nan)))
    energy = _least_ebfmi(statistics["energy"]) if "energy" in statistics else np.nan
    elsewhere = [f"chain {chain} stopped before its end: {why}" for chain, why in posterior.stopped.items()]
    if divergent.any():
        where = int((divergent > 0).sum())
        plural = "s" if divergent.sum() > 1 else ""
        elsewhere.append(f"{divergent.sum()} divergent draw{plural}, in {where} of {posterior.shape[0]} chains")
    if energy < thresholds["ebfmi"]:
        elsewhere.append(f"E-BFMI: least {energy:.2f}, below {thresholds['ebfmi']}")

    bias = Bias.of(posterior)
    elsewhere += bias.failures(thresholds["temperature"], thresholds["noise"]) if bias else []

    deciding = (in_functions if functions else in_weights) + elsewhere
    if deciding or kept:
        verdict = _chain_verdict(deciding, in_weights, weights, aligned, functions)
    else:
        verdict = "Only the log density was kept. It has mixed, which can show failure and does not show convergence."
    found = Convergence(
        f"{verdict} {posterior.method.caveat}".rstrip(),
        False if deciding else True if kept else None,
        tuple(in_functions + in_weights + elsewhere),
        "chains",
        weights=weights,
        aligned=aligned,
        functions=functions,
        divergences=int(divergent.sum()),
        divergent_chains=int((divergent > 0).sum()),
        ebfmi=energy,
        acceptance=acceptance,
        saturated=saturated,
        cost=posterior.cost,
        thresholds=thresholds,
        bias=bias,
    )
    return replace(found, advice=advice_for_chains(found, posterior.shape[1], len(posterior.stopped)))


def _chain_verdict(
    deciding: list[str],
    in_weights: list[str],
    weights: Mixing | None,
    aligned: Mixing | None,
    functions: Mixing | None,
) -> str:
    judged = functions or weights
    assert judged is not None
    space = "functions" if functions else "chains"
    numbers = f"worst R-hat {judged.worst_rhat:.3f}, least ESS {judged.least_ess:.0f}"
    if deciding:
        mixed = not any(failure.startswith(("R-hat", "ESS")) for failure in deciding)
        why = f"{deciding[0]}; {numbers}" if mixed else numbers
        return f"Convergence failed ({why}): do not rely on these {'predictions' if functions else 'draws'} yet."
    if functions is not None and weights is not None and in_weights:
        without = (
            f", and {aligned.worst_rhat:.2f} once the order and signs of units are undone"
            if aligned is not None and weights.worst_rhat > judged.worst_rhat
            else ""
        )
        return (
            f"The functions have converged ({numbers}); the weights have not (worst R-hat {weights.worst_rhat:.2f}"
            f"{without}), "
            + (
                "as is usual for a network, whose units can trade places without changing the function. "
                if aligned is not None
                else "because some of them can change together without changing the function. "
            )
            + "Believe the predictions, not single weights."
        )
    if len(judged.draws) == 1:
        return f"One chain has come to rest ({numbers}); it can't show whether others would end elsewhere."
    what = "draws" if functions is None else "predictions and the weights" if weights else "predictions"
    return f"The {space} have converged ({numbers}): believe the {what}."


def _judge_guide(posterior: Posterior, thresholds: dict[str, float]) -> Convergence:
    draws, steps = posterior.shape[1], posterior.curves["loss"].shape[1]
    if draws == 1 and not posterior.statistics:
        return Convergence("One draw: there is no convergence to judge.", None, (), "guide", thresholds=thresholds)
    if draws < _LEAST_DRAWS or steps < _LEAST_STEPS:
        few = f"{draws} draws after {steps} steps are too few to judge; {_LEAST_DRAWS} and {_LEAST_STEPS} are needed"
        return Convergence(f"Convergence failed: {few}.", False, (few,), "guide", thresholds=thresholds)
    guide = getattr(posterior.method, "guide", None)
    name = guide if isinstance(guide, str) or guide is None else "one of your own"
    settling = Settling.of(posterior.curves["loss"][0])
    noise = float(posterior.curves["gradient_noise"][0, -max(steps // 5, 1) :].mean())
    weighted = "guide_log_density" in posterior.statistics
    k = _pareto_k(_log_weights(posterior)) if weighted else np.nan
    unsettled = settling.failures(thresholds["slope"])
    far = weighted and not k <= thresholds["pareto_k"]
    failures = list(unsettled)
    if far:
        failures.append(f"Pareto k-hat {k:.2f}, above {thresholds['pareto_k']}: the guide is far from the posterior")
    if unsettled:
        verdict = "Convergence failed: the guide had not settled when the steps ran out."
    elif far:
        verdict = (
            f"The guide has settled, but the importance check failed (Pareto k-hat {k:.2f}): its draws are an "
            "approximation whose error only a comparison with exact draws can show."
        )
    elif weighted:
        verdict = f"The guide has settled and is close to the posterior (Pareto k-hat {k:.2f})."
    else:
        held = [name for name, values in posterior.draws.items() if (values == values[:1, :1]).all()]
        such = f" (it holds {held[0]}, for instance, at one value)" if held else ""
        why = (
            f"It is a singular guide, whose draws have no density over all weights{such}, so"
            if posterior.statistics
            else "Its draws were changed since, as by pruning, and their densities are not known, so"
        )
        verdict = (
            f"The guide has settled. {why} there are no importance weights and no k-hat: only a comparison with exact "
            "draws can show how far it is from the posterior."
        )
    passed = False if failures else True if weighted else None
    return Convergence(
        verdict, passed, tuple(failures), "guide", advice_for_guide(name, not unsettled, not far if weighted else None),
        pareto_k=k, loss_slope=settling.slope, gradient_noise=noise, settled=not unsettled, cost=posterior.cost,
        thresholds=thresholds,
    )  # fmt: skip


def _log_weights(posterior: Posterior) -> np.ndarray:
    """Of the draws as a sample of the posterior."""
    statistics = posterior.statistics
    return (statistics["lp"].astype(np.float64) - statistics["guide_log_density"]).ravel()


def _pareto_k(log_weights: np.ndarray) -> float:
    if not np.isfinite(log_weights).all():
        return np.inf
    return float(arviz().psislw(log_weights)[1])


def _least_ebfmi(energy: np.ndarray) -> float:
    if (energy == energy[:, :1]).all(axis=1).any() or not np.isfinite(energy).all():
        return 0.0
    return float(np.min(arviz().bfmi(np.asarray(energy, np.float64))))
