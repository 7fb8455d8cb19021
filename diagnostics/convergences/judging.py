"""Convergence: can the draws be believed, and in which space?

Chains are judged by rank-normalised R-hat and by effective sample size, in weight space and in function space, by
divergences and by E-BFMI. A guide is judged by its loss and by its importance weights, never by R-hat, which
independent draws always pass. A point is judged by its loss alone. The result is a value with named thresholds, a list
of what fails, and a verdict in words.

References: Vehtari et al. 2021 (R-hat, ESS; 10.1214/20-BA1221), Betancourt 2016 (E-BFMI; arXiv:1604.00695),
Yao et al. 2018 (k-hat of a guide; arXiv:1802.02538).
"""

from __future__ import annotations

from typing import Any

from diagnostics.convergences.chains import judge_chains
from diagnostics.convergences.elsewhere import from_elsewhere
from diagnostics.convergences.guides import judge_guide
from diagnostics.convergences.points import judge_point
from diagnostics.convergences.verdict import Convergence
from inference import Posterior

__all__ = ["Convergence", "convergence"]


def convergence(
    posterior: Any,
    x: Any = None,
    *,
    rhat: float = 1.01,
    ess: float = 400.0,
    ebfmi: float = 0.3,
    divergences: float = 0.002,
    pareto_k: float = 0.7,
    importance: float = 0.7,
    slope: float = 3.0,
    temperature: float = 0.2,
    noise: float = 0.1,
) -> Convergence:
    """Judge a posterior.

    Args:
        posterior: the posterior to judge, by any method; or the chains of another program, as an
            `arviz.InferenceData` or an `xarray.DataTree`.
        x: inputs at which a network's functions are judged; by default 30 of its training inputs, 10 points between and
            10 outside them.
        rhat: the rank-normalised R-hat up to which chains always agree. A larger one fails only if it also exceeds what
            stationary chains that mix equally well show by chance in the worst of as many quantities: see
            `inference.mixing`.
        ess: the smallest bulk and tail effective sample size that passes.
        ebfmi: the smallest energy fraction of missing information that passes.
        divergences: the largest share of divergent draws that passes, with a caution; 0 tolerates none.
        pareto_k: the largest k-hat of a guide's importance weights that passes; with S draws at most 1 - 1 / log10(S),
            because k-hat itself is uncertain (Vehtari et al. 2024).
        importance: the smallest effective share of a guide's draws under its importance weights that passes. k-hat
            alone sees guides that are too narrow, but not guides that are too wide.
        slope: by how many standard errors the loss of a guide or a point may still be falling, or rising, at the end.
        temperature: by which share the configurational temperature of a sampler without a Metropolis step may differ
            from the posterior's.
        noise: the most that minibatches may add to the injected noise, as a share of it.
    """
    if not isinstance(posterior, Posterior):
        given, posterior = posterior, from_elsewhere(posterior)
        if posterior is None:
            raise TypeError(f"convergence needs a posterior, or ArviZ's groups of draws, got {type(given).__name__}")
    thresholds = {
        "rhat": rhat, "ess": ess, "ebfmi": ebfmi, "divergences": divergences, "pareto_k": pareto_k,
        "importance": importance, "slope": slope, "temperature": temperature, "noise": noise,
    }  # fmt: skip
    if posterior.kind == "point":
        return judge_point(posterior, thresholds)
    if posterior.kind == "guide":
        return judge_guide(posterior, thresholds)
    return judge_chains(posterior, x, thresholds)
