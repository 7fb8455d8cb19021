"""Figures of the parts of uncertainty: bands and maps are the parts of the prediction."""

from __future__ import annotations

import numpy as np
import pytest

import models
from diagnostics import average, plots
from inference.results.prediction import Prediction
from tests.helpers.made_up_predictions import outputs, regression

ALONG = np.array([3.0, 1.0, 2.0, 0.0, 4.0, 6.0, 5.0])[:, None]
PLANE = np.random.default_rng(2).normal(size=(7, 2))


def _labels(seed=0, classes=3):
    return Prediction.of(models.Categorical(classes), outputs(classes, seed), {})


def _edges(filled):
    points = filled.get_paths()[0].vertices
    rows = [points[points[:, 0] == x, 1] for x in np.sort(ALONG[:, 0])]
    return np.array([(min(row), max(row)) for row in rows]).T


def test_parts_along():
    prediction, order = regression(), np.argsort(ALONG[:, 0])
    observed = np.array([[0.5], [1.5]]), np.array([0.0, 1.0])
    axes, second = plots.parts_along(
        {"hmc": prediction, "again": prediction}, ALONG, observed, labels=("hour", "watts")
    ).axes
    assert axes.get_title(loc="left") == "hmc"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("hour", "watts")
    for filled, variance in zip(axes.collections, (prediction.total, prediction.epistemic), strict=True):
        around = prediction.mean + 2 * np.sqrt(variance) * np.array([[-1], [1]])
        np.testing.assert_allclose(_edges(filled), around[:, order])
    np.testing.assert_array_equal(axes.lines[1].get_xdata(), [0.5, 1.5])
    assert axes.get_ylim() == second.get_ylim()


def test_parts_along_has_the_structure_of_an_average():
    two = average({"a": regression(), "b": regression(scale=1.0)})
    axes = plots.parts_along({"both": two}, ALONG).axes[0]
    assert [each.get_label() for each in axes.collections] == ["total", "epistemic", "structure"]


def test_parts_over():
    one, other = _labels(), _labels(1)
    figure = plots.parts_over(one, PLANE, (PLANE, np.array([0, 1, 2, 0, 1, 2, 0])))
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == [
        "aleatoric: noise in the labels", "epistemic: unknown weights",
    ]  # fmt: skip
    assert len(figure.axes[0].get_legend().get_texts()) == 3
    highest = max(one.aleatoric.max(), one.epistemic.max())
    assert all(np.isclose(axes.collections[0].norm.vmax, highest) for axes in figure.axes[:2])
    assert len(plots.parts_over(average({"a": one, "b": other}), PLANE).axes) == 4


def test_inside_and_outside():
    one, other = _labels(), _labels(1)
    axes = plots.inside_and_outside(one, other).axes[1]
    heights = [bar.get_height() for bar in axes.patches]
    edges = np.linspace(0, max(one.epistemic.max(), other.epistemic.max()), 26)
    np.testing.assert_allclose(heights[:25], np.histogram(one.epistemic, edges)[0] / 7)
    np.testing.assert_allclose(heights[25:], np.histogram(other.epistemic, edges)[0] / 7)


def test_what_can_not_be_drawn():
    with pytest.raises(TypeError, match="parts_along needs predictions by name"):
        plots.parts_along(regression(), ALONG)
    with pytest.raises(TypeError, match="parts_along draws regressions"):
        plots.parts_along({"labels": _labels()}, ALONG)
    with pytest.raises(TypeError, match="parts_over draws a classification"):
        plots.parts_over(regression(), PLANE)
    with pytest.raises(ValueError, match=r"two inputs per row, shape \(n, 2\), got \(7, 1\)"):
        plots.parts_over(_labels(), ALONG)
    with pytest.raises(ValueError, match="of the same model in the same units"):
        plots.inside_and_outside(_labels(), regression())
