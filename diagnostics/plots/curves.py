"""Figures of plain numbers: lines over one quantity, histograms, and clouds of draws of two."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from data.rows import spaced
from inference.display.figures import COLOURS, chart
from models.validation import finite_array, one_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["histograms", "lines", "pairs"]

_MARKED = 15  # so many points or fewer are measurements, and are marked; more are a curve
_BINS = 60
_DOTS = 1000  # of a cloud: more would only be blacker
_STYLES = ("--", ":", "-.")


def lines(
    x: Any,
    values: Mapping[str, Any],
    expected: Mapping[str, Any] | None = None,
    *,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
    log: str = "",
) -> Figure:
    """Several quantities over one.

    Args:
        x: the places, (n,).
        values: by name, each (n,), or (repeat, n): then the mean over the repeats is drawn with two standard errors.
        expected: by name, (n,), what theory says: drawn in black, without marks.
        xlabel: what x is.
        ylabel: what the values are.
        title: the title.
        log: which axes are logarithmic: "", "x", "y" or "xy".
    """
    one_of("log", log, ("", "x", "y", "xy"))
    places = finite_array("x", x)
    figure, (axes,) = chart([title])
    style: dict[str, Any] = {"marker": "o", "ms": 4} if len(places) <= _MARKED else {}
    for (name, each), colour in zip(values.items(), cycle(COLOURS[:-1]), strict=False):
        heights = _checked(name, each, places)
        if heights.ndim == 1:
            axes.plot(places, heights, color=colour, lw=1.5, label=name, **style)
            continue
        error = 2 * heights.std(axis=0, ddof=1) / np.sqrt(len(heights))
        axes.plot(places, heights.mean(axis=0), color=colour, lw=1.5, label=name, **style)
        axes.errorbar(places, heights.mean(axis=0), error, color=colour, fmt="none", lw=1.0, capsize=2)
    for (name, each), dashes in zip((expected or {}).items(), cycle(_STYLES), strict=False):
        axes.plot(places, _checked(name, each, places), color="k", lw=1.0, ls=dashes, label=name)
    if "x" in log:
        axes.set_xscale("log")
        if len(places) <= _MARKED:
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.minorticks_off()
    if "y" in log:
        axes.set_yscale("log")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if len(values) + len(expected or {}) > 1:
        axes.legend(frameon=False, fontsize="small")
    return figure


def histograms(values: Mapping[str, Any], *, xlabel: str = "", title: str = "") -> Figure:
    """Shares of numbers, in bins that all have in common; a few numbers are a line each.

    Args:
        values: by name, numbers of any shape.
        xlabel: what they are.
        title: the title.
    """
    numbers = {name: finite_array(name, each).ravel().astype(np.float64) for name, each in values.items()}
    every = np.concatenate(list(numbers.values()))
    edges = np.histogram_bin_edges(every, _BINS)
    figure, (axes,) = chart([title])
    for (name, each), colour in zip(numbers.items(), cycle(COLOURS), strict=False):
        if len(each) <= _MARKED:
            for i, number in enumerate(each):
                axes.axvline(number, color=colour, lw=1.5, label=name if i == 0 else None)
            continue
        shares = np.histogram(each, edges)[0] / len(each)
        axes.stairs(shares, edges, color=colour, fill=True, alpha=0.3, lw=0)
        axes.stairs(shares, edges, color=colour, lw=1.2, label=name)
    axes.set(xlabel=xlabel, ylabel="share")
    axes.legend(frameon=False, fontsize="small")
    return figure


def pairs(draws: Mapping[str, tuple[Any, Any]], *, xlabel: str = "", ylabel: str = "", title: str = "") -> Figure:
    """Draws of two numbers as a cloud for each posterior, the largest cloud at the back; a point estimate is a cross.

    Args:
        draws: by name, the draws of the first and of the second number, each of any shape.
        xlabel: what the first number is.
        ylabel: what the second number is.
        title: the title.
    """
    figure, (axes,) = chart([title], size=(5.0, 4.0))
    clouds = {}
    for name, (first, second) in draws.items():
        cloud = np.stack([finite_array(name, each).ravel() for each in np.broadcast_arrays(first, second)])
        clouds[name] = cloud[:, spaced(cloud.shape[1], min(cloud.shape[1], _DOTS))]
    areas = {name: np.prod(np.ptp(cloud, axis=1)) for name, cloud in clouds.items()}
    behind = sorted(clouds, key=lambda name: -areas[name])
    for (name, cloud), colour in zip(clouds.items(), cycle(COLOURS), strict=False):
        if cloud.shape[1] == 1:
            axes.plot(*cloud, "x", ms=9, mew=2.2, color=colour, label=name, zorder=len(clouds) + 2)
        else:
            axes.plot(
                *cloud, ".", ms=3, alpha=0.45, color=colour, mec="none", zorder=2 + behind.index(name), label=name
            )
    axes.set(xlabel=xlabel, ylabel=ylabel)
    legend = axes.legend(frameon=False, fontsize="small", markerscale=2)
    for handle in legend.legend_handles:
        handle.set_alpha(1)
    return figure


def _checked(name: str, values: Any, places: np.ndarray) -> np.ndarray:
    heights = finite_array(name, values).astype(np.float64)
    if heights.ndim not in (1, 2) or heights.shape[-1] != len(places) or (heights.ndim == 2 and len(heights) < 2):
        raise ValueError(
            f"'{name}' must have shape ({len(places)},), or (repeat, {len(places)}) with at least 2 repeats, to fit x; "
            f"got {heights.shape}"
        )
    return heights
