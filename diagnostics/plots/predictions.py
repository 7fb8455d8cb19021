"""Figures of predictions: what was observed, how calibrated they are, and what a prior says."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from diagnostics.checks.calibrations import Calibration, TargetCalibration
from diagnostics.checks.class_bins import Bins
from diagnostics.checks.leave_one_out import LeaveOneOut
from diagnostics.checks.posterior_predictive import PredictiveCheck
from diagnostics.checks.uniformity import LEVELS, ecdf_band, shares_below
from diagnostics.predictions.averaging import Mixture
from diagnostics.predictions.uncertainties import uncertainty
from inference.display.figures import COLOURS, chart
from inference.results.prediction import Classification, Prediction, Regression
from inference.results.scores import in_data_units

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["band", "coverage", "observed_and_predicted", "pit", "reliability", "replicates", "uncertainty_split"]

_MOST = 500  # columns: more would be narrower than a pixel


def observed_and_predicted(prediction: Prediction, y: Any, title: str = "") -> Figure:
    """Targets against predicted means, with central 90 % intervals; points on the line are right."""
    prediction, targets = in_data_units(prediction, y)
    if not isinstance(prediction, Regression):
        raise TypeError("observed_and_predicted draws a regression; for labels use plots.reliability")
    figure, axes = _figure(title or "Observed against predicted, with 90 % intervals")
    lower, upper = (bound.ravel() for bound in prediction.interval(0.9))
    mean, observed = prediction.mean.ravel(), targets.ravel()
    inside = (lower <= observed) & (observed <= upper)
    for chosen, colour, label in ((inside, COLOURS[0], "inside"), (~inside, COLOURS[1], "outside")):
        if chosen.any():
            error = np.stack([mean - lower, upper - mean])[:, chosen]
            axes.errorbar(mean[chosen], observed[chosen], xerr=error, fmt="o", ms=3, lw=0.7, color=colour, label=label)
    ends = [min(lower.min(), observed.min()), max(upper.max(), observed.max())]
    axes.plot(ends, ends, color="0.6", lw=0.8, zorder=0)
    axes.set(xlabel="predicted", ylabel="observed")
    axes.legend(title="90 % interval", frameon=False)
    return figure


def band(
    predictions: Mapping[str, Prediction], x: np.ndarray, data: tuple[np.ndarray, np.ndarray] | None = None
) -> Figure:
    """Mean and central 90 % interval along one input, for each prediction; `data` adds observed points."""
    if not isinstance(predictions, Mapping):
        raise TypeError(f"band needs predictions by name, such as {{'hmc': ...}}, got {type(predictions).__name__}")
    figure, axes = _figure("Predicted mean and 90 % interval")
    order = np.argsort(x[:, 0])
    for (name, prediction), colour in zip(predictions.items(), cycle(COLOURS), strict=False):
        if not isinstance(prediction, Regression):
            raise TypeError("band draws a regression; for labels use plots.reliability")
        lower, upper = prediction.interval(0.9)
        axes.plot(x[order, 0], prediction.mean[order], color=colour, lw=1.3, label=name)
        axes.fill_between(x[order, 0], lower[order], upper[order], color=colour, alpha=0.18, lw=0)
    if data is not None:
        axes.plot(data[0][:, 0], data[1], "k.", ms=3, label="observed")
    axes.set(xlabel="x", ylabel="y")
    axes.legend(frameon=False)
    return figure


def reliability(prediction: Prediction, y: Any, title: str = "", bins: int = 10) -> Figure:
    """How often the top class is right, with 95 % intervals, by the confidence in it; larger dots hold more rows."""
    if not isinstance(prediction, Classification):
        raise TypeError("reliability draws a classification; for a regression use plots.observed_and_predicted")
    _, labels = in_data_units(prediction, y)
    found = Bins.of(prediction.probs, labels, bins)
    figure, axes = _figure(title or "Reliability of the top class")
    axes.plot([0, 1], [0, 1], color="0.6", lw=0.8, zorder=0)
    axes.vlines(found.confidence, found.lower, found.upper, color=COLOURS[0], lw=0.9, alpha=0.6)
    axes.scatter(found.confidence, found.accuracy, s=10 + 200 * found.count / found.count.sum(), color=COLOURS[0])
    axes.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1.02), ylim=(-0.02, 1.02))
    return figure


def pit(result: Calibration | LeaveOneOut, title: str = "") -> Figure:
    """The share of targets below each predicted quantile, minus the quantile, with a band of 95 % of calibrated curves.

    A hill over the left half, then a valley, means intervals that are too narrow; a valley, then a hill, means that
    they are too wide; a curve on one side of 0 means predictions that are too high (above) or too low (below).
    """
    values = getattr(result, "pit", None)
    if values is None:
        raise TypeError("pit draws the calibration or the leave-one-out result of a regression; see plots.reliability")
    default = "Targets below each predicted quantile, left out" if isinstance(result, LeaveOneOut) else ""
    figure, axes = _figure(title or default or "Targets below each predicted quantile")
    lower, upper = ecdf_band(len(values))
    axes.fill_between(LEVELS, lower - LEVELS, upper - LEVELS, color="0.85", lw=0, label="95 % of calibrated curves")
    axes.axhline(0, color="0.6", lw=0.8)
    columns = values.reshape(len(values), -1).T
    for k, (column, colour) in enumerate(zip(columns, cycle(COLOURS), strict=False)):
        label = f"output {k}" if len(columns) > 1 else "observed"
        axes.plot(LEVELS, shares_below(column) - LEVELS, color=colour, lw=1.3, label=label)
    axes.set(xlabel="predicted quantile", ylabel="share below, minus the quantile", xlim=(0, 1))
    axes.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=4)
    return figure


def coverage(result: Calibration, title: str = "") -> Figure:
    """The share of targets inside central intervals, against the intervals' probability and two standard errors."""
    if not isinstance(result, TargetCalibration):
        raise TypeError("coverage draws the calibration of a regression; for labels use plots.reliability")
    found = result.coverage
    figure, axes = _figure(title or "Coverage of central intervals")
    around = found.levels - 2 * found.errors, found.levels + 2 * found.errors
    axes.fill_between(found.levels, *around, color="0.85", lw=0, label="two standard errors")
    axes.plot([0, 1], [0, 1], color="0.6", lw=0.8, zorder=0)
    columns = found.observed.reshape(len(found.levels), -1).T
    for k, (column, colour) in enumerate(zip(columns, cycle(COLOURS), strict=False)):
        label = f"output {k}" if len(columns) > 1 else "observed"
        axes.plot(found.levels, column, "o-", ms=3, lw=1.2, color=colour, label=label)
    axes.set(xlabel="probability of the interval", ylabel="share of targets inside", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False, fontsize="small")
    return figure


def replicates(check: PredictiveCheck) -> Figure:
    """Each statistic of the replicated data as a histogram, with its observed value as a line."""
    titles = [f"{name}: p = {p:.3f} ± {check.errors[name]:.3f}" for name, p in check.p_values.items()]
    figure, panels = chart(titles, columns=2, size=(4.3, 2.9))
    for axes, (name, values) in zip(panels, check.replicates.items(), strict=True):
        axes.hist(values.ravel(), _edges(values), color=COLOURS[0], alpha=0.6, label="replicated")
        axes.axvline(check.observed[name], color="k", lw=1.2, ls="--", label="observed")
        axes.set(xlabel=name, yticks=[])
        axes.spines["left"].set_visible(False)
    panels[0].legend(frameon=False, fontsize="small")
    return figure


def _edges(values: np.ndarray) -> np.ndarray:
    """The edges of about 20 bins; where values are counts or shares, all bins hold equally many possible ones."""
    lowest, span, gaps = values.min(), np.ptp(values), np.diff(np.unique(values))
    step = gaps.min(initial=1.0)
    if span > 200 * step:
        return np.linspace(lowest, lowest + span, 21)
    width = step * max(1.0, np.ceil(span / step / 20))
    return np.arange(lowest - step / 2, lowest + span + width, width)


def _figure(title: str) -> tuple[Figure, Any]:
    figure, (axes,) = chart([title])
    return figure, axes


def uncertainty_split(prediction: Prediction | Mixture, title: str = "") -> Figure:
    """The parts of the uncertainty stacked on each other, input by input, the most uncertain on the right.

    Where there are more than 500 inputs and outputs, neighbours in this order are averaged.
    """
    split = uncertainty(prediction)
    order = np.argsort(split.total, axis=None)
    parts = {"epistemic": (split.epistemic, COLOURS[0]), "aleatoric": (split.aleatoric, COLOURS[1])}
    if split.structure is not None:
        within = split.epistemic - split.structure
        parts = {
            "structure": (split.structure, COLOURS[2]),
            "epistemic, structure known": (within, COLOURS[0]),
            "aleatoric": (split.aleatoric, COLOURS[1]),
        }
    figure, (axes,) = chart([title or "Uncertainty in parts, the most uncertain on the right"])
    edges = np.linspace(0, order.size, min(order.size, _MOST) + 1).round().astype(int)
    floor = np.zeros(len(edges) - 1)
    for name, (values, colour) in parts.items():
        heights = np.add.reduceat(values.ravel()[order], edges[:-1]) / np.diff(edges)
        axes.stairs(floor + heights, edges, baseline=floor, fill=True, color=colour, alpha=0.75, lw=0, label=name)
        floor = floor + heights
    unit = "entropy (nats)" if split.unit == "nats" else "variance"
    axes.set(xlabel="inputs, by their uncertainty", ylabel=unit, xlim=(0, order.size), ylim=(0, 1.3 * floor.max()))
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], frameon=False, loc="upper left")
    return figure
