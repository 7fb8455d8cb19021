"""Figures, one function each, in one colour-blind-safe style. Each returns a matplotlib `Figure` and shows nothing."""

from __future__ import annotations

from diagnostics.checks.prior_predictive import prior_functions
from diagnostics.plots.chains import effective_sizes, energies, losses, mixing, ranks, temperatures, traces
from diagnostics.plots.comparison import assay
from diagnostics.plots.predictions import (
    band,
    coverage,
    observed_and_predicted,
    pit,
    reliability,
    replicates,
    uncertainty_split,
)

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
