"""Figures of the posterior's landscape: the log density along straight paths between draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from diagnostics.convergences.path_densities import Paths
from inference.display.figures import COLOURS, chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["paths"]


def paths(found: Paths, title: str = "") -> Figure:
    """The log density along straight paths, minus the straight line between their ends.

    A thin line is a path, a thick one the median of its kind. Above 0 the log density is higher than on the way in a
    straight line from one end's to the other's, as everywhere in a normal posterior; below 0 there is a barrier.
    """
    if not isinstance(found, Paths):
        raise TypeError(f"paths draws what diagnostics.straight_paths gives, got {type(found).__name__}")
    kinds = [kind for kind in ("within", "between") if len(getattr(found, kind))]
    titles = {
        "within": "two draws of one chain",
        "between": "draws of two chains" if "within" in kinds else "two members",
    }
    figure, panels = chart([titles[kind] for kind in kinds], columns=2, size=(4.3, 3.2))
    for axes, kind in zip(panels, kinds, strict=True):
        colour = COLOURS[0] if kind == "within" else COLOURS[1]
        above = found.above_chord(kind)
        axes.axhline(0, color="0.4", lw=0.8, ls="--", zorder=1)
        axes.plot(found.shares, above.T, color=colour, lw=0.7, alpha=0.5)
        axes.plot(found.shares, np.median(above, axis=0), color=colour, lw=2.2)
        axes.set(xlabel="share of the way", xlim=(0, 1))
    lowest, highest = (f(axes.get_ylim()[i] for axes in panels) for i, f in ((0, min), (1, max)))
    for axes in panels:
        axes.set_ylim(lowest, highest)
    panels[0].set_ylabel("log density above its chord (nats)")
    figure.suptitle(title or "Log density along straight paths between draws", fontsize=10, x=0.01, ha="left")
    return figure
