"""Diagnostics: what to believe of a posterior, how good its predictions are, and the report that says so."""

from diagnostics import information, plots
from diagnostics.averaging import Mixture, average, stacking_weights
from diagnostics.calibrations import Calibration, calibration
from diagnostics.comparison import Comparison, compare
from diagnostics.convergences import Convergence, convergence
from diagnostics.detection import Detection, out_of_distribution
from diagnostics.leaving_out import LeaveOneOut, loo
from diagnostics.predictive import PredictiveCheck, predictive_check
from diagnostics.prior_predictive import PriorCheck, prior_check
from diagnostics.reports import report
from diagnostics.scoring import scores
from diagnostics.uncertainties import Uncertainty, uncertainty

__all__ = [
    "Calibration",
    "Comparison",
    "Convergence",
    "Detection",
    "LeaveOneOut",
    "Mixture",
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
    "uncertainty",
]
