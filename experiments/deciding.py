"""Verdicts on claims that are made of several things at once, such as data sets, and a figure of means and errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import TYPE_CHECKING

from experiments.study import CLEAR, decided
from inference.display.figures import COLOURS, chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["dots", "on_all", "pooled"]

Effect = tuple[float, float]
"""An effect, positive if the claim holds, and its standard error."""


def on_all(effects: Iterable[Effect], clear: float = CLEAR) -> str:
    """The verdict on a claim of each of several effects: one of them can contradict it, all of them confirm it."""
    words = [decided(*each, clear) for each in effects]
    if "contradicted" in words:
        return "contradicted"
    return "confirmed" if words and set(words) == {"confirmed"} else "undecided"


def pooled(effects: Iterable[Effect]) -> Effect:
    """The mean of independent effects, and its standard error."""
    every = list(effects)
    error = math.sqrt(sum(error**2 for _, error in every)) / len(every)
    return sum(effect for effect, _ in every) / len(every), error


def dots(
    panels: Mapping[str, Mapping[str, Effect]],
    published: Mapping[str, Mapping[str, float]] | None = None,
    xlabel: str = "",
) -> Figure:
    """A panel for each title, a row for each name in it: its mean with two standard errors, and what was published.

    Args:
        panels: by title and name, a mean and its standard error, which may be nan.
        published: by title and name, the published number, which is drawn as a cross.
        xlabel: what the numbers are.
    """
    figure, axes = chart(list(panels), columns=3, size=(4.0, 0.9 + 0.26 * max(map(len, panels.values()))))
    for panel, (title, rows) in zip(axes, panels.items(), strict=True):
        marks = (published or {}).get(title, {})
        for i, ((name, (mean, error)), colour) in enumerate(zip(rows.items(), cycle(COLOURS[:-1]), strict=False)):
            panel.errorbar(mean, -i, xerr=2 * error if math.isfinite(error) else 0, fmt="o", ms=5, color=colour)
            if name in marks:
                panel.plot(marks[name], -i, "kx", ms=6)
        panel.set_yticks([-i for i in range(len(rows))], list(rows), fontsize=8)
        panel.locator_params(axis="x", nbins=4)
        panel.set(xlabel=xlabel, ylim=(0.6 - len(rows), 0.6))
    return figure
