"""Diagnostics: what to believe of a posterior, how good its predictions are, and the report that says so."""

from diagnostics import plots
from diagnostics.comparison import Comparison, compare
from diagnostics.convergences import Convergence, convergence
from diagnostics.prior_predictive import PriorCheck, prior_check
from diagnostics.reports import report
from diagnostics.scoring import scores

__all__ = [
    "Comparison",
    "Convergence",
    "PriorCheck",
    "compare",
    "convergence",
    "plots",
    "prior_check",
    "report",
    "scores",
]
