"""Diagnostics: what to believe of a posterior, how good its predictions are, and the report that says so."""

from diagnostics import plots
from diagnostics.comparison import Comparison, compare
from diagnostics.convergences import Convergence, convergence
from diagnostics.reports import report
from diagnostics.scoring import scores

__all__ = ["Comparison", "Convergence", "compare", "convergence", "plots", "report", "scores"]
