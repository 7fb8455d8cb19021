"""The studies by name; a study's file is imported when the study is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from experiments.study import Study
from models.validation import one_of

__all__ = ["FILES", "names", "studies", "study"]

FILES: dict[str, str] = {
    "hmc_uci": "experiments.hmc_uci_study",
    "hmc_uci_heteroscedastic": "experiments.hmc_uci_study",
    "dropout_depth": "experiments.dropout_depth",
    "dropout_digit": "experiments.dropout_digit",
    "dropout_extrapolation": "experiments.dropout_extrapolation",
    "backprop_error": "experiments.backprop_study",
    "backprop_pruning": "experiments.backprop_study",
    "backprop_uci": "experiments.backprop_uci",
    "bandit": "experiments.bandit",
    "uncertainty_share": "experiments.uncertainty_share",
    "uncertainty_precision": "experiments.uncertainty_use",
    "uncertainty_calibration": "experiments.uncertainty_use",
    "variance_correlation": "experiments.twenty_rows",
    "active_learning": "experiments.twenty_rows",
    "bayesian_average": "experiments.bayesian_average",
    "bayesian_average_pictures_and_text": "experiments.bayesian_average",
    "hmc_chains": "experiments.hmc_settings",
    "tempering": "experiments.tempering",
    "tempering_augmented": "experiments.tempering",
    "prior_scale": "experiments.prior_choice",
    "prior_family": "experiments.prior_choice",
    "covariate_shift": "experiments.covariate_shift",
    "dead_inputs": "experiments.covariate_shift",
    "empcov": "experiments.covariate_shift",
    "approximations": "experiments.approximations",
    "hmc_trajectory": "experiments.hmc_settings",
    "hmc_steps": "experiments.hmc_settings",
    "hmc_step_size": "experiments.hmc_step_sizes",
    "hmc_smoothness": "experiments.hmc_step_sizes",
}
"""The module of each study; its attribute `STUDIES` is a tuple of `Study`."""


def names() -> list[str]:
    """The names of all studies."""
    return list(FILES)


def study(name: str) -> Study:
    """A study by its name."""
    one_of("study", name, names())
    return next(each for each in importlib.import_module(FILES[name]).STUDIES if each.name == name)


def studies() -> Iterator[Study]:
    """All studies, in the order of the catalogue."""
    return (study(name) for name in names())
