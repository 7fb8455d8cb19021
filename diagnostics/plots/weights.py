"""Figures of weights: how sure a guide is of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from inference import Posterior
from inference.display.figures import COLOURS, chart
from inference.results.pruning import signal_to_noise as ratios_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

__all__ = ["signal_to_noise"]

_LEAST = 1e-3  # ratios below are drawn there: their weight is noise, however small it is
_BINS = np.geomspace(_LEAST, 1e3, 73)


def signal_to_noise(posteriors: Mapping[str, Posterior], fraction: float | None = None) -> Figure:
    """The signal-to-noise ratios |mu| / sigma of all weights under Gaussian guides, as a histogram for each.

    Args:
        posteriors: Gaussian guides of networks, by name.
        fraction: a share of the weights; a dashed line marks the ratio below which so many are, as `prune` takes them.
    """
    figure, (axes,) = chart(["Signal-to-noise ratio of the weights"])
    low, high = np.inf, -np.inf
    for (name, posterior), colour in zip(posteriors.items(), COLOURS, strict=False):
        every = np.concatenate([ratio.ravel() for ratio in ratios_of(posterior).values()])
        shown = np.clip(every, *_BINS[[0, -1]])
        shares = np.histogram(shown, _BINS)[0] / len(every)
        axes.stairs(shares, _BINS, color=colour, fill=True, alpha=0.25, lw=0)
        axes.stairs(shares, _BINS, color=colour, lw=1.3, label=f"{name}, {len(every):,} weights")
        low, high = min(low, shown.min()), max(high, shown.max())
        if fraction is not None:
            axes.axvline(
                np.quantile(every, fraction), color=colour, lw=1, ls="--", label=f"{fraction:.0%} are below this"
            )
    axes.set_xscale("log")
    axes.set(xlabel="|mu| / sigma", ylabel="share of the weights", xlim=(low / 1.2, high * 1.2))
    axes.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)
    return figure
