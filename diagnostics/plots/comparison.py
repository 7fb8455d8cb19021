"""Figures of several posteriors side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from diagnostics.comparisons.comparison import Comparison
from inference.display.figures import COLOURS, chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["assay"]

_TITLES = {
    "w1": "Distance of the functions (W1)",
    "w1_noise": "Distance of the predictions with noise (W1)",
    "total_variation": "Distance of the probabilities (total variation)",
    "agreement": "Agreement of the top class",
}
_WIDEST = 30.0  # the largest distance over the least that a linear axis can show


def assay(comparison: Comparison) -> Figure:
    """How far each posterior is from the reference, beside how far the reference is from itself.

    The grey band is the noise floor: the distance of one half of the reference's chains to the other, two spreads wide
    on either side. A point in the band is as close to the reference as the reference is to itself. Distances that are
    of very different sizes have a logarithmic axis, unless one of them is 0.
    """
    if comparison.reference is None:
        raise ValueError("assay shows distances to a reference; give compare one")
    rows = [row for row in comparison.rows if row["method"] != comparison.reference]
    if not rows:
        raise ValueError("assay needs another posterior beside the reference")
    shown = [name for name in _TITLES if name in comparison.distances]
    figure, panels = chart([_TITLES[name] for name in shown], columns=1, size=(6.2, 0.9 + 0.27 * len(rows)))
    places = np.arange(len(rows))[::-1]
    for axes, name in zip(panels, shown, strict=True):
        values = np.array([row[name] for row in rows])
        left = _left(name, [*values, *([comparison.floor[name]] if name in comparison.floor else [])])
        if name in comparison.floor:
            floor, spread = comparison.floor[name], np.nan_to_num(comparison.floor_spread[name])
            axes.axvspan(max(floor - 2 * spread, left), floor + 2 * spread, color="0.88", lw=0, zorder=0)
            axes.axvline(floor, color="0.45", lw=0.9, ls="--", zorder=1)
        spreads = np.nan_to_num([row[f"{name}_spread"] for row in rows])
        near = np.array([comparison.near(row, name) for row in rows])
        for chosen, colour in ((near, COLOURS[2]), (~near, COLOURS[1])):
            if chosen.any():
                axes.errorbar(
                    values[chosen], places[chosen], xerr=2 * spreads[chosen], fmt="o", ms=5, lw=1.1, color=colour
                )
        axes.set_yticks(places, [row["method"] for row in rows], fontsize=9)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        if name != "agreement":
            axes.set_xscale("log" if left else "linear")
            axes.set_xlim(left=left)
        unit = (
            "share of test points" if name == "agreement"
            else "half the summed difference" if name == "total_variation"
            else f"standard deviations of {comparison.reference}"
        )  # fmt: skip
        grey = f"; grey: {comparison.reference} to itself" if name in comparison.floor else ""
        axes.set_xlabel(f"{unit}{grey}", fontsize=9)
    return figure


def _left(name: str, values: list[float]) -> float:
    """Where the axis of a panel begins: at 0, or above it if the axis is logarithmic."""
    least, largest = min(values), max(values)
    return least / 2 if name != "agreement" and least > 0 and largest > _WIDEST * least else 0.0
