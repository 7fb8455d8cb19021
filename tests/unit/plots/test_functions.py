"""Figures of functions: each panel, line and bar is of the draws that it says it is."""

from __future__ import annotations

import numpy as np
import pytest

import models
from diagnostics import plots
from inference.results.prediction import Prediction

X = np.linspace(2, -2, 30)[:, None]  # not in order
GRID = np.stack([axis.ravel() for axis in np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9))], axis=1)


def _regression(draws: int = 40, x: np.ndarray = X):
    """Draw s of two chains has the slope s."""
    outputs = np.arange(draws, dtype=np.float32).reshape(2 if draws > 1 else 1, -1, 1, 1) * x.astype(np.float32)
    return Prediction.of(models.Gaussian(scale=0.5), outputs, {})


def _labels(slope: float = 3.0, draws: int = 1, x: np.ndarray = GRID):
    """Logits of class 1 are slope * x1, with both signs where there are two draws."""
    signs = np.array([1.0, -1.0][:draws], np.float32)
    outputs = signs[None, :, None, None] * slope * x[None, None, :, :1].astype(np.float32)
    return Prediction.of(models.Bernoulli(), outputs, {})


def test_sampled_functions_are_single_draws():
    one, many = _regression(1), _regression()
    observed = np.zeros((3, 1)), np.ones(3)
    figure = plots.sampled_functions({"map": one, "hmc": many}, X, observed, functions=5)
    left, right = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["map: one function", "hmc: 40 draws"]
    assert left.get_ylim() == right.get_ylim()
    assert [len(axes.lines) for axes in figure.axes] == [2, 7]  # the mean and the observed points, and five draws
    along = np.sort(X[:, 0])
    slopes = [line.get_ydata()[-1] / along[-1] for line in right.lines[:5]]
    np.testing.assert_allclose(slopes, [0, 10, 20, 29, 39])
    np.testing.assert_allclose(right.lines[5].get_ydata(), 19.5 * along)
    np.testing.assert_array_equal(right.lines[6].get_ydata(), observed[1])
    band = right.collections[0].get_paths()[0].vertices
    lower, upper = many.interval(0.9)
    assert {np.round(lower.min(), 6), np.round(upper.max(), 6)} <= set(np.round(band[:, 1], 6))


def test_a_probability_surface_has_the_boundary_where_it_is():
    shifted = _labels(x=GRID - 0.3)
    labels = np.array([0, 1, 1])
    figure = plots.probability_surface({"map": shifted}, GRID, (GRID[:3], labels), {"far": (0.9, 0.9)})
    axes = figure.axes[0]
    boundary = axes.collections[-1].get_paths()[0].vertices
    np.testing.assert_allclose(boundary[:, 0], 0.3, atol=0.02)
    assert [len(line.get_xdata()) for line in axes.lines] == [1, 2, 1]  # each class, and the star
    assert [text.get_text() for text in axes.texts] == ["far"]
    assert figure.axes[-1].get_ylabel() == "probability of class 1"


def test_a_surface_that_is_certain_everywhere_is_filled():
    figure = plots.probability_surface({"map": _labels(1000.0, x=np.ones_like(GRID))}, GRID)
    paths = [path for path in figure.axes[0].collections[0].get_paths() if len(path.vertices)]
    corners = np.concatenate([path.vertices for path in paths])
    assert corners.min() == -1
    assert corners.max() == 1


def test_draws_at_one_input():
    axes = plots.draws({"hmc": _regression(), "map": _regression(1)}, row=0, observed=3.0).axes[0]
    shares = axes.patches[0].get_data().values
    assert shares.sum() == pytest.approx(1)
    assert (shares > 0).sum() == 40  # draws 0, 1, .. 39 at x = 2, each in a bin of its own
    assert [line.get_xdata()[0] for line in axes.lines] == [39.0, 0.0, 3.0]
    sure = plots.draws({"svi": _labels(1000.0, 2)}, row=0).axes[0]
    np.testing.assert_allclose(sure.patches[0].get_data().values[[0, -1]], 0.5)
    np.testing.assert_allclose(sure.lines[0].get_xdata()[0], 0.5)


def test_what_can_not_be_drawn():
    regression, labels = _regression(), _labels()
    with pytest.raises(TypeError, match=r"sampled_functions needs predictions by name, .* got Regression"):
        plots.sampled_functions(regression, X)
    with pytest.raises(TypeError, match=r"draws a regression; for labels use probability_surface, got Classif"):
        plots.sampled_functions({"a": labels}, GRID)
    with pytest.raises(ValueError, match=r"draws over 1 input, got x of shape \(81, 2\)"):
        plots.sampled_functions({"a": regression}, GRID)
    with pytest.raises(ValueError, match=r"needs predictions at x, 29 rows; 'a' has 30"):
        plots.sampled_functions({"a": regression}, X[1:])
    with pytest.raises(ValueError, match=r"label must be one of the classes 0 to 1, got 2"):
        plots.probability_surface({"a": labels}, GRID, label=2)
    with pytest.raises(TypeError, match=r"draws needs predictions of one kind"):
        plots.draws({"a": labels, "b": regression})
    several = Prediction.of(models.Gaussian(scale=1.0, outputs=2), np.zeros((1, 2, 30, 2), np.float32), {})
    with pytest.raises(ValueError, match=r"draws one output, and this prediction has 2"):
        plots.sampled_functions({"a": several}, X)
