"""Figures, one function each, in one colour-blind-safe style. Each returns a matplotlib `Figure` and shows nothing."""

from __future__ import annotations

from diagnostics.comparison_plots import assay
from diagnostics.convergence_plots import effective_sizes, energies, losses, mixing, ranks, temperatures, traces
from diagnostics.prediction_plots import (
    band,
    coverage,
    observed_and_predicted,
    pit,
    prior_functions,
    reliability,
    replicates,
)
from diagnostics.uncertainty_plots import uncertainty_split

__all__ = [
    "assay",
    "band",
    "coverage",
    "effective_sizes",
    "energies",
    "losses",
    "mixing",
    "observed_and_predicted",
    "pit",
    "prior_functions",
    "ranks",
    "reliability",
    "replicates",
    "temperatures",
    "traces",
    "uncertainty_split",
]
