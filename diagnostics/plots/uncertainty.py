"""Figures of uncertainty, in the style of `diagnostics.plots`: each returns a matplotlib `Figure` and shows nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from diagnostics.predictions.averaging import Mixture
from diagnostics.predictions.uncertainties import uncertainty
from inference import Prediction
from inference.display.figures import COLOURS, chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["uncertainty_split"]

_MOST = 500  # columns: more would be narrower than a pixel


def uncertainty_split(prediction: Prediction | Mixture, title: str = "") -> Figure:
    """The parts of the uncertainty on top of each other, input by input, the most uncertain on the right.

    Of more than 500 inputs and outputs, neighbours in this order are averaged.
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
