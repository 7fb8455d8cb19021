"""The verdict on chains: R-hat and ESS in two spaces, divergences, energies, and what the sampler itself warns of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from diagnostics.convergences.advice import advice_for_chains
from diagnostics.convergences.spaces import Mixing, aligned_mixing, function_mixing, weight_mixing
from diagnostics.convergences.verdict import Convergence
from inference import Posterior
from inference.host.arviz import bfmi
from inference.sgmcmc.temperatures import Bias

__all__ = ["judge_chains"]

_LEAST_DRAWS = 4  # draws per chain from which on R-hat and ESS are defined


def judge_chains(posterior: Posterior, x: Any, thresholds: dict[str, float]) -> Convergence:
    """Judge chains in weight space and, if the model is a network, in function space, which then decides."""
    if posterior.shape[1] < _LEAST_DRAWS:
        few = f"{posterior.shape[1]} draws per chain are too few to judge; at least {_LEAST_DRAWS} are needed"
        return Convergence(f"Convergence failed: {few}.", False, (few,), "chains", thresholds=thresholds)
    functions, weights, aligned = function_mixing(posterior, x), weight_mixing(posterior), aligned_mixing(posterior)
    if functions is None and weights is None:  # no draws were kept: all there is to judge is their density
        weights = Mixing(posterior.statistics["lp"][..., None].astype(np.float64), ("lp",), 1)
    kept = functions is not None or bool(posterior.draws)
    rhat, ess = thresholds["rhat"], thresholds["ess"]
    in_weights = weights.failures("weight space" if kept else "the log density", rhat, ess) if weights else []
    in_functions = functions.failures("function space", rhat, ess) if functions else []

    found = _measured(posterior, thresholds)
    failures, cautions = _beyond_mixing(found, posterior)
    deciding = (in_functions if functions else in_weights) + failures
    if deciding or kept:
        verdict = _sentence(deciding, in_weights, weights, aligned, functions)
    else:
        verdict = "Only the log density was kept. It has mixed, which can show failure and does not show convergence."
    found = replace(
        found,
        verdict=f"{verdict} {posterior.method.caveat}".rstrip(),
        passed=False if deciding else True if kept else None,
        failures=tuple(in_functions + in_weights + failures),
        cautions=tuple(cautions),
        weights=weights,
        aligned=aligned,
        functions=functions,
    )
    return replace(found, advice=advice_for_chains(found, posterior))


def _measured(posterior: Posterior, thresholds: dict[str, float]) -> Convergence:
    """What the statistics of the draws say, without a verdict yet."""
    statistics = posterior.statistics
    divergent = statistics["diverging"].sum(axis=1) if "diverging" in statistics else np.zeros(posterior.shape[0], int)
    gradients = statistics.get("n_gradients", statistics.get("n_steps", np.array(np.nan)))
    return Convergence(
        "", None, (), "chains",
        divergences=int(divergent.sum()),
        divergent_chains=int((divergent > 0).sum()),
        ebfmi=_least_ebfmi(statistics["energy"]) if "energy" in statistics else np.nan,
        acceptance=float(np.mean(statistics.get("acceptance_rate", np.nan))),
        steps=float(np.mean(gradients)),
        saturated=float(np.mean(statistics.get("reached_max_treedepth", np.nan))),
        cost=posterior.cost,
        thresholds=thresholds,
        bias=Bias.of(posterior.statistics, posterior.temperature),
    )  # fmt: skip


def _beyond_mixing(found: Convergence, posterior: Posterior) -> tuple[list[str], list[str]]:
    """What fails besides R-hat and ESS, and what does not fail but should be known."""
    failures = [f"chain {chain} stopped before its end: {why}" for chain, why in posterior.stopped.items()]
    cautions = list(posterior.notes)
    chains, draws = posterior.shape
    if found.divergences:
        plural = "s" if found.divergences > 1 else ""
        said = f"{found.divergences} divergent draw{plural}, in {found.divergent_chains} of {chains} chains"
        rare = found.divergences <= found.thresholds["divergences"] * chains * draws
        (cautions if rare else failures).append(said)
    if found.ebfmi < found.thresholds["ebfmi"]:
        failures.append(f"E-BFMI: least {found.ebfmi:.2f}, below {found.thresholds['ebfmi']}")
    if found.bias is not None:  # with thresholds of its own, which the run's warnings don't have
        failures += found.bias.failures(found.thresholds["temperature"], found.thresholds["noise"])
    else:
        failures += posterior.concerns
    return failures, cautions


def _sentence(
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


def _least_ebfmi(energy: np.ndarray) -> float:
    if (energy == energy[:, :1]).all(axis=1).any() or not np.isfinite(energy).all():
        return 0.0
    return float(bfmi(np.asarray(energy, np.float64)).min())
