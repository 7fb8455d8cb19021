"""Figures of calibration and of predictive checks: what is drawn is what was computed."""

from __future__ import annotations

import numpy as np
import pytest

from diagnostics import plots
from diagnostics.checks.leave_one_out import loo
from diagnostics.checks.posterior_predictive import predictive_check


def test_pit_of_what_was_left_out(conjugate):
    found = loo(conjugate.exact(1, 300), conjugate.x, conjugate.y)
    axes = plots.pit(found).axes[0]
    assert axes.get_title(loc="left").endswith("left out")
    np.testing.assert_allclose(axes.lines[-1].get_ydata()[49], (found.pit <= 0.5).mean() - 0.5, atol=1e-12)


def test_replicates(conjugate):
    check = predictive_check(conjugate.exact(2, 100), conjugate.x, conjugate.y)
    figure = plots.replicates(check)
    assert len(figure.axes) == 4
    for axes, (name, observed) in zip(figure.axes, check.observed.items(), strict=True):
        assert axes.get_title(loc="left").startswith(f"{name}: p = {check.p_values[name]:.3f}")
        assert axes.lines[0].get_xdata()[0] == observed
        assert sum(patch.get_height() for patch in axes.patches) == 200


@pytest.mark.parametrize("size", [3, 30, 100, 1000])
def test_histograms_of_counts_have_no_comb(conjugate, size):
    """Every bin holds as many of the possible counts as every other, and none is left out."""
    counts = np.arange(size) / size
    check = predictive_check(conjugate.exact(1, 30), conjugate.x, conjugate.y, np.mean)
    check = type(check)(check.observed, {"mean": counts[None]}, check.p_values, check.errors)
    heights = np.array([patch.get_height() for patch in plots.replicates(check).axes[0].patches])
    assert heights.sum() == size
    assert len(set(heights[:-1])) == 1
