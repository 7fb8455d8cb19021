r"""The studies of HMC on UCI regression: is it the best in log-likelihood, with either kind of noise?

What is run, scored and compared, and the rule, are those of `experiments.hmc_uci`. The prior's scale is inferred, one
per layer (`models.Hierarchical`). The chains of HMC fill the cores, so splits are run one after the other, in programs
that are compiled once per set.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from experiments.deciding import dots
from experiments.hmc_uci import METHODS, PUBLISHED, SplitScore, by_split, table, verdict
from experiments.study import Finding, Laboratory, Study, mean_and_error

__all__ = ["STUDIES", "hmc_on_uci", "of_sets"]

_SOURCES = {"inferred": "HMC (Bui et al. 2016)"}
_OTHER = "HMC (Izmailov et al. 2021, other splits, read off a figure)"


def hmc_on_uci(
    lab: Laboratory, sets: Mapping[str, int], methods: Mapping[str, Mapping[str, Any]], noise: str, seed: int
) -> Finding:
    """Run the methods on the first splits of each of the `sets`."""
    found = {}
    for name, splits in sets.items():
        lab.say(f"{name}, {splits} splits, {noise} noise")
        options = {each: {**METHODS[each], **changes} for each, changes in methods.items()}
        found[name] = by_split(lab, name, splits, options, noise, seed, lab.say)
    return of_sets(found, noise)


def of_sets(found: Mapping[str, dict[str, list[SplitScore]]], noise: str) -> Finding:
    """The finding, from the scores by set and method."""
    key = "log_likelihood" if noise == "inferred" else "log_likelihood_gaussian"
    said = {name: verdict(scores, key) for name, scores in found.items()}
    words = [each.split(":")[0] for each in said.values()]
    whole = "contradicted" if "contradicted" in words else "confirmed" if set(words) == {"confirmed"} else "undecided"

    def means(scores: list[SplitScore], field: str) -> tuple[float, float]:
        return mean_and_error([getattr(each, field) for each in scores])

    return Finding(
        whole,
        " ".join(f"{name.capitalize()}: {each}." for name, each in said.items()),
        tuple(table(name, scores) for name, scores in found.items()),
        {
            name: {
                method: {
                    field: [getattr(each, field) for each in scores]
                    for field in ("rmse", "log_likelihood", "log_likelihood_gaussian", "rhat", "ess")
                    if np.isfinite([getattr(each, field) for each in scores]).all()
                }
                for method, scores in methods.items()
            }
            for name, methods in found.items()
        },
        lambda: dots(
            {name: {method: means(each, key) for method, each in scores.items()} for name, scores in found.items()},
            {name: {"hmc": _published(name, noise)} for name in found},
            "test log-likelihood (cross: published, HMC)",
        ),
    )


def _published(name: str, noise: str) -> float:
    """The published log-likelihood of HMC with such a noise."""
    return float(PUBLISHED[_SOURCES.get(noise, _OTHER)][name][1].split(" ")[0])


_RULE = (
    "By set: confirmed if no method has a higher mean log-likelihood ({}) over the splits than HMC; "
    "contradicted if one is higher by more than two standard errors of its paired differences; else undecided. "
    "As a whole: confirmed if it is on every set, contradicted if it is on one. Splits whose chains have not "
    "converged count, and are named."
)
_SHORT: dict[str, Any] = {"draws": 20, "warmup": 10, "tuning": 10, "until": None}
_QUICK = {
    "sets": {"yacht": 1},
    "methods": {"hmc": _SHORT, "laplace": {"steps": 200}},
}
_METHODS: dict[str, dict[str, Any]] = {
    "hmc": {"draws": 2000}, "dropout": {"steps": 8000}, "ensemble": {}, "svi": {"steps": 8000}, "sgld": {},
    "laplace": {},
}  # fmt: skip

STUDIES = (
    Study(
        "hmc_uci",
        "HMC on UCI regression, noise inferred",
        "Does HMC have the best test log-likelihood of all methods on the same network, with one noise that is "
        "inferred? (The scale of the prior is inferred too, one per layer: none is chosen by hand.)",
        _RULE.format("of the mixture"),
        "Bui et al. 2016: one hidden layer of 50 ReLU units, 20 splits; HMC has the best log-likelihood of what they "
        "compare on most sets (boston -2.27, concrete -2.72, yacht -1.62).",
        partial(hmc_on_uci, noise="inferred"),
        {"sets": {"yacht": 2, "boston": 2}, "methods": _METHODS, "seed": 0},
        _QUICK,
        needs=("yacht", "boston"),
    ),
    Study(
        "hmc_uci_heteroscedastic",
        "HMC on UCI regression, noise by input",
        "Does HMC have the best test log-likelihood of all methods on the same network, with two outputs, mean and "
        "noise? (The scale of the prior is inferred, one per layer: none is chosen by hand.)",
        _RULE.format("of the normal with the mixture's mean and variance"),
        "Izmailov et al. 2021, section 6.1 (read off a figure): HMC has the best log-likelihood on all sets but "
        "energy, of the normal with the mixture's moments (boston -2.39, concrete -2.67, yacht 0.57), on other "
        "splits.",
        partial(hmc_on_uci, noise="heteroscedastic"),
        {"sets": {"yacht": 2, "boston": 2}, "methods": _METHODS, "seed": 0},
        _QUICK,
        needs=("yacht", "boston"),
    ),
)
