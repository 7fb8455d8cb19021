"""Figures of calibration and of predictive checks: what is drawn is what was computed."""

from __future__ import annotations

import numpy as np
import pytest

import models
from diagnostics import plots
from diagnostics.checks.calibrations import calibration
from diagnostics.checks.class_bins import Bins
from diagnostics.checks.uniformity import LEVELS, ecdf_band
from inference.results.prediction import Prediction


def _labels():
    generator = np.random.default_rng(0)
    outputs = generator.normal(size=(1, 1, 80, 3)).astype(np.float32)
    return Prediction.of(models.Categorical(3), outputs, {}), generator.integers(0, 3, 80)


def _regression(outputs: int = 1):
    y = np.random.default_rng(1).normal(size=(60, outputs)) * np.arange(1, outputs + 1)
    likelihood = models.Gaussian(scale=1.0, outputs=outputs)
    prediction = Prediction.of(likelihood, np.zeros((1, 1, 60, outputs), np.float32), {})
    return calibration(prediction, y if outputs > 1 else y[:, 0])


def _drawn(path) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest point of a filled area at each x."""
    points = path.get_paths()[0].vertices
    places = np.unique(points[:, 0])
    rows = [points[points[:, 0] == x, 1] for x in places]
    return np.array([min(row) for row in rows]), np.array([max(row) for row in rows])


def test_pit():
    found = _regression()
    axes = plots.pit(found).axes[0]
    curve = axes.lines[-1]
    below = [(found.pit <= level).mean() - level for level in LEVELS]
    np.testing.assert_allclose(curve.get_ydata(), below, atol=1e-12)
    lower, upper = ecdf_band(60)
    np.testing.assert_allclose(_drawn(axes.collections[0]), (lower - LEVELS, upper - LEVELS), atol=1e-12)
    several = plots.pit(_regression(3)).axes[0]
    assert [text.get_text() for text in several.get_legend().get_texts()][1:] == ["output 0", "output 1", "output 2"]


def test_coverage():
    found = _regression(2)
    axes = plots.coverage(found, "Two outputs").axes[0]
    assert axes.get_title(loc="left") == "Two outputs"
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), found.coverage.observed[:, 0])
    np.testing.assert_array_equal(axes.lines[2].get_ydata(), found.coverage.observed[:, 1])
    lower, upper = _drawn(axes.collections[0])
    np.testing.assert_allclose((upper - lower) / 4, found.coverage.errors)


def test_reliability_has_intervals():
    prediction, labels = _labels()
    axes = plots.reliability(prediction, labels, bins=10).axes[0]
    bins = Bins.of(prediction.probs, labels, 10)
    intervals, dots = axes.collections
    np.testing.assert_allclose(dots.get_offsets(), np.column_stack([bins.confidence, bins.accuracy]))
    ends = np.array([segment[:, 1] for segment in intervals.get_segments()])
    np.testing.assert_allclose(ends, np.column_stack([bins.lower, bins.upper]))


def test_what_can_not_be_drawn():
    of_labels = calibration(*_labels())
    with pytest.raises(TypeError, match=r"pit draws the calibration or the leave-one-out result of a regression"):
        plots.pit(of_labels)
    with pytest.raises(TypeError, match=r"coverage draws the calibration of a regression"):
        plots.coverage(of_labels)
