"""The figure of distances to a reference: points, bands and scales are those of the comparison."""

from __future__ import annotations

import numpy as np
import pytest

from diagnostics import plots
from diagnostics.comparisons.comparison import Comparison


def _axes(*distances, floor=0.1, floor_spread=0.02):
    rows = [{"method": f"method {i}", "w1": distance, "w1_spread": 0.01} for i, distance in enumerate(distances)]
    floors = ({}, {}) if floor is None else ({"w1": floor}, {"w1": floor_spread})
    return plots.assay(Comparison(({"method": "exact"}, *rows), "exact", *floors)).axes[0]


def _band(axes):
    return np.array([axes.patches[0].get_x(), axes.patches[0].get_x() + axes.patches[0].get_width()])


def test_distances_alike_begin_at_nothing():
    axes = _axes(0.12, 2.9)
    assert (axes.get_xscale(), axes.get_xlim()[0]) == ("linear", 0)
    np.testing.assert_allclose(_band(axes), [0.06, 0.14])
    np.testing.assert_allclose(_band(_axes(0.12, floor_spread=0.2)), [0.0, 0.5])


@pytest.mark.parametrize(("floor", "left"), [(0.1, 0.05), (None, 0.06)])
def test_distances_of_very_different_sizes_are_all_to_be_seen(floor, left):
    axes = _axes(0.12, 4.0, floor=floor)
    assert axes.get_xscale() == "log"
    np.testing.assert_allclose(axes.get_xlim()[0], left)
    points = [line.get_xdata() for line in axes.lines if line.get_marker() == "o"]
    np.testing.assert_array_equal(np.sort(np.concatenate(points)), [0.12, 4.0])
    if floor is not None:
        np.testing.assert_allclose(_band(axes), [0.06, 0.14])
        np.testing.assert_allclose(_band(_axes(0.12, 4.0, floor_spread=0.2)), [0.05, 0.5])


def test_a_distance_of_nothing_has_a_place():
    axes = _axes(0.0, 4.0)
    assert (axes.get_xscale(), axes.get_xlim()[0]) == ("linear", 0)
