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


def assay(comparison: Comparison) -> Figure:
    """How far each posterior is from the reference, beside how far the reference is from itself.

    The grey band is the noise floor: the distance of one half of the reference's chains to the other, two spreads wide
    on either side. A point in the band is as close to the reference as the reference is to itself.
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
        if name in comparison.floor:
            floor, spread = comparison.floor[name], np.nan_to_num(comparison.floor_spread[name])
            axes.axvspan(max(floor - 2 * spread, 0.0), floor + 2 * spread, color="0.88", lw=0, zorder=0)
            axes.axvline(floor, color="0.45", lw=0.9, ls="--", zorder=1)
        values = np.array([row[name] for row in rows])
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
            axes.set_xlim(left=0)
        unit = (
            "share of test points" if name == "agreement"
            else "half the summed difference" if name == "total_variation"
            else f"standard deviations of {comparison.reference}"
        )  # fmt: skip
        grey = f"; grey: {comparison.reference} to itself" if name in comparison.floor else ""
        axes.set_xlabel(f"{unit}{grey}", fontsize=9)
    return figure
