"""Figures of the parts of uncertainty: along one input, over two inputs, and inside against outside of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from diagnostics.predictions.averaging import Mixture
from diagnostics.predictions.uncertainties import uncertainty
from inference import Prediction
from inference.display.figures import COLOURS, chart
from inference.results.prediction import Classification

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["inside_and_outside", "parts_along", "parts_over"]

_DEVIATIONS = 2.0
_LEVELS = 20  # of colour in a map


def parts_along(
    predictions: Mapping[str, Prediction | Mixture],
    x: np.ndarray,
    data: tuple[np.ndarray, np.ndarray] | None = None,
    columns: int = 2,
    labels: tuple[str, str] = ("x", "y"),
) -> Figure:
    """The mean of regressions along one input, with two standard deviations of what is uncertain about it.

    The dark band is the epistemic part, what the function may be; the light one is the total, where targets may be. For
    an average over architectures the darkest band is the part that is due to not knowing the architecture.

    Args:
        predictions: predictions by name, a panel for each.
        x: their inputs, (n, 1), or of several columns, of which the first is drawn.
        data: observed inputs, (m, 1), and targets.
        columns: panels side by side.
        labels: what the input and the targets are.
    """
    if not isinstance(predictions, Mapping):
        raise TypeError(
            f"parts_along needs predictions by name, such as {{'hmc': ...}}, got {type(predictions).__name__}"
        )
    figure, panels = chart(list(predictions), columns=columns, size=(4.3, 3.2))
    order = np.argsort(x[:, 0])
    along = x[order, 0]
    for axes, prediction in zip(panels, predictions.values(), strict=True):
        if isinstance(prediction, Classification) or (isinstance(prediction, Mixture) and prediction.classification):
            raise TypeError("parts_along draws regressions; for labels use plots.parts_over")
        split = uncertainty(prediction)
        parts = [("total", split.total, "0.85"), ("epistemic", split.epistemic, COLOURS[5])]
        parts += [("structure", split.structure, COLOURS[0])] if split.structure is not None else []
        for name, variance, colour in parts:
            reach = _DEVIATIONS * np.sqrt(variance)[order]
            middle = prediction.mean[order]
            axes.fill_between(along, middle - reach, middle + reach, color=colour, lw=0, label=name)
        axes.plot(along, prediction.mean[order], color="k", lw=1.3, label="mean")
        if data is not None:
            axes.plot(data[0][:, 0], data[1], "o", ms=2.2, color=COLOURS[1], label="observed", zorder=1.5)
        axes.set(xlabel=labels[0], xlim=(along[0], along[-1]))
        axes.locator_params(axis="x", nbins=6)
    lowest, highest = (f(axes.get_ylim()[i] for axes in panels) for i, f in ((0, min), (1, max)))
    for axes in panels:
        axes.set_ylim(lowest, highest)
    panels[0].set_ylabel(labels[1])
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, fontsize="small", loc="outside right upper")
    return figure


def parts_over(
    prediction: Classification | Mixture, x: np.ndarray, data: tuple[np.ndarray, np.ndarray] | None = None
) -> Figure:
    """The aleatoric and the epistemic part of a classification's entropy over two inputs, as maps with one scale.

    Args:
        prediction: the prediction at `x`.
        x: inputs that cover a part of the plane, such as a grid, (n, 2).
        data: observed inputs, (m, 2), and labels; each class has its own marker.
    """
    if not (isinstance(prediction, Classification) or (isinstance(prediction, Mixture) and prediction.classification)):
        raise TypeError("parts_over draws a classification; for a regression use plots.parts_along")
    if np.shape(x)[1:] != (2,):
        raise ValueError(f"x must have two inputs per row, shape (n, 2), got {np.shape(x)}")
    split = uncertainty(prediction)
    parts = {"aleatoric: noise in the labels": split.aleatoric, "epistemic: unknown weights": split.epistemic}
    if split.structure is not None:
        parts["structure: unknown architecture"] = split.structure
    figure, panels = chart(list(parts), columns=3, size=(4.3, 3.6))
    highest = max(float(values.max()) for values in parts.values())
    levels = np.linspace(0, highest or 1.0, _LEVELS + 1)
    for axes, values in zip(panels, parts.values(), strict=True):
        drawn = axes.tricontourf(x[:, 0], x[:, 1], np.clip(values, 0, highest), levels, cmap="cividis")
        if data is not None:
            for label, marker in zip(np.unique(data[1]), "os^DvP*X", strict=False):
                rows = np.asarray(data[1]) == label
                axes.scatter(*data[0][rows].T, s=11, marker=marker, color="w", edgecolor="k", lw=0.5, label=f"{label}")
        axes.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
    bar = figure.colorbar(drawn, ax=panels, shrink=0.85, label="entropy (nats)")
    bar.ax.yaxis.set_major_formatter("{x:.2f}")
    if data is not None:
        panels[0].legend(title="label", frameon=True, framealpha=0.8, fontsize=7, title_fontsize=7, loc="lower left")
    return figure


def inside_and_outside(inside: Any, outside: Any, title: str = "") -> Figure:
    """Both parts of the uncertainty at points inside and outside of the data, as histograms.

    The less the two histograms of a panel overlap, the better that part tells outside from inside; how well is what
    `diagnostics.out_of_distribution` says.
    """
    splits = uncertainty(inside), uncertainty(outside)
    if splits[0].unit != splits[1].unit:
        raise ValueError("inside and outside must be predictions of the same model in the same units")
    figure, panels = chart(["aleatoric", "epistemic"], columns=2, size=(4.3, 2.9))
    unit = "nats" if splits[0].unit == "nats" else "variance"
    for axes, part in zip(panels, ("aleatoric", "epistemic"), strict=True):
        values = [getattr(split, part).ravel() for split in splits]
        edges = np.linspace(0, max(float(each.max()) for each in values) or 1.0, 26)
        for each, name, colour in zip(values, ("inside", "outside"), COLOURS, strict=False):
            axes.hist(
                each, edges, weights=np.full(len(each), 1 / len(each)), color=colour, alpha=0.55,
                label=f"{name} ({len(each)})",
            )  # fmt: skip
        axes.set(xlabel=unit, ylabel="share of inputs")
    panels[0].legend(frameon=False, fontsize="small")
    figure.suptitle(title or "Uncertainty inside and outside of the data", fontsize=10, x=0.01, ha="left")
    return figure
