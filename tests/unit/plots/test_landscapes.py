"""The figure of paths: what is drawn is what was computed."""

from __future__ import annotations

import numpy as np
import pytest

from diagnostics import Paths, plots

SHARES = np.linspace(0, 1, 5)
FOUND = Paths(SHARES, np.array([[1.0, 3.0, 4.0, 4.0, 3.0]]), np.array([[0.0, -2.0, -6.0, -1.0, 2.0], [0.0] * 5]))


def test_paths():
    np.testing.assert_allclose(FOUND.barriers_within, [0.0])
    np.testing.assert_allclose(FOUND.barriers_between, [7.0, 0.0])
    within, between = plots.paths(FOUND, "Paths of two").axes
    assert between.get_title(loc="left") == "draws of two chains"
    np.testing.assert_allclose(within.lines[1].get_ydata(), [0.0, 1.5, 2.0, 1.5, 0.0])
    np.testing.assert_allclose(between.lines[1].get_ydata(), [0.0, -2.5, -7.0, -2.5, 0.0])
    np.testing.assert_allclose(between.lines[-1].get_ydata(), [0.0, -1.25, -3.5, -1.25, 0.0])
    assert within.get_ylim() == between.get_ylim()


def test_one_kind_alone():
    (axes,) = plots.paths(Paths(SHARES, np.zeros((0, 5)), FOUND.between)).axes
    assert axes.get_title(loc="left") == "two members"
    with pytest.raises(TypeError, match=r"what diagnostics.straight_paths gives, got dict"):
        plots.paths({})
