"""Diagnostics: what to believe of a posterior, how good its predictions are, and the report that says so."""

import inference

if not hasattr(inference, "Posterior"):
    raise ImportError(
        f"{inference.__file__} hides Touchstone's own package 'inference': Python looks beside the script first; "
        "rename it, or start Python in another folder"
    )

from diagnostics import information, plots
from diagnostics.checks.calibrations import Calibration, calibration
from diagnostics.checks.leave_one_out import LeaveOneOut, loo
from diagnostics.checks.posterior_predictive import PredictiveCheck, predictive_check
from diagnostics.checks.prior_predictive import PriorCheck, prior_check
from diagnostics.comparisons.comparison import Comparison, compare
from diagnostics.convergences.judging import Convergence, convergence
from diagnostics.convergences.path_densities import Paths, straight_paths
from diagnostics.predictions.averaging import Mixture, average, stacking_weights
from diagnostics.predictions.detection import Detection, out_of_distribution
from diagnostics.predictions.uncertainties import Uncertainty, uncertainty
from diagnostics.reports.page import report
from inference.results.scores import scores

__all__ = [
    "Calibration",
    "Comparison",
    "Convergence",
    "Detection",
    "LeaveOneOut",
    "Mixture",
    "Paths",
    "PredictiveCheck",
    "PriorCheck",
    "Uncertainty",
    "average",
    "calibration",
    "compare",
    "convergence",
    "information",
    "loo",
    "out_of_distribution",
    "plots",
    "predictive_check",
    "prior_check",
    "report",
    "scores",
    "stacking_weights",
    "straight_paths",
    "uncertainty",
]
