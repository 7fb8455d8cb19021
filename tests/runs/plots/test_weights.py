"""The figure of signal-to-noise ratios has every weight, and its line is where `prune` cuts."""

from __future__ import annotations

import numpy as np

import inference
from diagnostics import plots


def test_signal_to_noise(regression):
    guide = regression[0]["svi"]
    ratios = np.concatenate([ratio.ravel() for ratio in inference.signal_to_noise(guide).values()])
    axes = plots.signal_to_noise({"svi": guide}, 0.75).axes[0]
    assert axes.patches[0].get_data().values.sum() == 1
    assert axes.get_legend_handles_labels()[1][0] == f"svi, {len(ratios):,} weights"
    cut = axes.lines[0].get_xdata()[0]
    pruned = np.concatenate([part.ravel() for part in inference.signal_to_noise(inference.prune(guide, 0.75)).values()])
    assert (pruned[ratios < cut] == 0).all()
    assert (pruned[ratios > cut] > 0).all()
