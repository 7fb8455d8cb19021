"""The figure of a sweep: a panel per score, means with errors over its values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from inference.display.figures import COLOURS, chart
from inference.results.scores import BEST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["directed", "draw_curves"]


def draw_curves(
    titles: list[str],
    curves: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    labels: Sequence[str],
    numbers: np.ndarray | None,
    hollow: np.ndarray,
    reference: int | None,
) -> Figure:
    """A panel per curve: means with errors, single values in grey, a dashed line at the reference.

    Args:
        titles: the panels' titles.
        curves: for each panel, the single values (point, n), their means and their errors (point,).
        labels: the points' labels.
        numbers: where the points are on a logarithmic axis; None for categories.
        hollow: which points are drawn as hollow circles.
        reference: the point with the dashed line, if there is one.
    """
    figure, panels = chart(titles, columns=2, size=(4.3, 2.9))
    places = np.arange(len(labels), dtype=np.float64) if numbers is None else numbers
    order = np.argsort(places)
    crowded = numbers is None and max(map(len, labels)) * len(labels) > 40
    for axes, (values, mean, error) in zip(panels, curves.values(), strict=True):
        if reference is not None:
            axes.axhline(mean[reference], color="0.6", lw=0.8, ls="--", zorder=0)
        if values.shape[1] > 1:
            axes.plot(np.repeat(places, values.shape[1]), values.ravel(), "o", ms=2.5, color="0.75", zorder=1)
        if numbers is not None:
            axes.plot(places[order], mean[order], lw=1.2, color=COLOURS[0], zorder=2)
            axes.set_xscale("log")
            axes.minorticks_off()
        bars = np.where(np.isfinite(error), error, 0.0)
        for chosen, face in ((~hollow, COLOURS[0]), (hollow, "white")):
            if chosen.any():
                axes.errorbar(
                    places[chosen], mean[chosen], bars[chosen], fmt="o", ms=5.5, capsize=3, lw=1.2, color=COLOURS[0],
                    markerfacecolor=face, zorder=3,
                )  # fmt: skip
        axes.margins(x=0.08)
        if numbers is None or _apart(numbers):
            axes.set_xticks(places, labels, rotation=30 if crowded else 0, ha="right" if crowded else "center")
        axes.tick_params(labelsize=8)
    if crowded:  # long words once per column
        for axes in panels[: max(0, len(panels) - 2)]:
            axes.tick_params(labelbottom=False)
    return figure


def _apart(numbers: np.ndarray) -> bool:
    """Whether labels at `numbers` would not run into each other on a logarithmic axis."""
    gaps = np.diff(np.sort(np.log(numbers)))
    return not gaps.size or bool(gaps.min() > 0.09 * gaps.sum())


def directed(score: str) -> str:
    """The name of a score in words, with what is better: lower, higher or close to a value."""
    better = {0.0: " (lower is better)", math.inf: " (higher is better)"}
    return score.replace("_", " ") + better.get(
        BEST.get(score, math.nan), f" (best at {BEST.get(score)})" * (score in BEST)
    )
