"""Figures, one function each, in one colour-blind-safe style. Each returns a matplotlib `Figure` and shows nothing."""

from __future__ import annotations

from diagnostics.checks.prior_predictive import prior_functions
from diagnostics.plots.chains import effective_sizes, energies, losses, mixing, ranks, temperatures, traces
from diagnostics.plots.comparison import assay
from diagnostics.plots.curves import histograms, lines, pairs
from diagnostics.plots.functions import draws, probability_surface, sampled_functions
from diagnostics.plots.images import labelled_images
from diagnostics.plots.landscapes import paths
from diagnostics.plots.predictions import (
    band,
    coverage,
    observed_and_predicted,
    pit,
    reliability,
    replicates,
    uncertainty_split,
)
from diagnostics.plots.uncertainties import inside_and_outside, parts_along, parts_over
from diagnostics.plots.weights import signal_to_noise

__all__ = [
    "assay",
    "band",
    "coverage",
    "draws",
    "effective_sizes",
    "energies",
    "histograms",
    "inside_and_outside",
    "labelled_images",
    "lines",
    "losses",
    "mixing",
    "observed_and_predicted",
    "pairs",
    "parts_along",
    "parts_over",
    "paths",
    "pit",
    "prior_functions",
    "probability_surface",
    "ranks",
    "reliability",
    "replicates",
    "sampled_functions",
    "signal_to_noise",
    "temperatures",
    "traces",
    "uncertainty_split",
]
