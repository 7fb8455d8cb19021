"""Images beside the probabilities of their classes."""

from __future__ import annotations

import numpy as np
import pytest

import models
from diagnostics import plots
from inference.display.figures import COLOURS
from inference.results.prediction import Prediction
from tests.helpers.made_up_predictions import outputs, regression

PREDICTION = Prediction.of(models.Categorical(3), outputs(3), {})
IMAGES = np.random.default_rng(0).normal(size=(7, 4, 5))


def test_bars_are_probabilities_and_lines_their_spread():
    figure = plots.labelled_images(PREDICTION, IMAGES, [0, 1, 2, 0, 1, 2, 9], columns=3, title="Seven")
    assert len(figure.axes) == 14
    np.testing.assert_array_equal(figure.axes[2].images[0].get_array(), IMAGES[1])
    bars = figure.axes[3].patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], PREDICTION.probs[1])
    from matplotlib.colors import to_hex

    assert [to_hex(bar.get_facecolor()).upper() for bar in bars] == [COLOURS[0], COLOURS[2], COLOURS[0]]
    probabilities = PREDICTION.likelihood.probabilities(PREDICTION.outputs)[:, :, 1]
    ends = np.array([segment[:, 1] for segment in figure.axes[3].collections[0].get_segments()])
    np.testing.assert_allclose(ends.T, np.quantile(probabilities, (0.05, 0.95), axis=(0, 1)))
    assert figure.axes[12].get_title(loc="left") == "9, not a class"
    said = f"al. {PREDICTION.aleatoric[1]:.2f}, ep. {PREDICTION.epistemic[1]:.2f}"
    assert figure.axes[3].get_title(loc="left") == said


def test_names_and_channels():
    colour = np.random.default_rng(1).uniform(size=(7, 4, 5, 3))
    figure = plots.labelled_images(PREDICTION, colour, [0] * 7, classes=["cat", "dog", "hen"])
    assert figure.axes[0].get_title(loc="left") == "cat"
    assert figure.axes[0].images[0].get_array().shape == (4, 5, 3)
    without = plots.labelled_images(PREDICTION, colour[..., :1])
    assert without.axes[0].get_title(loc="left") == ""
    assert without.axes[0].images[0].get_array().shape == (4, 5)


def test_what_can_not_be_drawn():
    with pytest.raises(TypeError, match="draws a classification"):
        plots.labelled_images(regression(), IMAGES)
    with pytest.raises(ValueError, match="images must be the 7 images"):
        plots.labelled_images(PREDICTION, IMAGES[:3])
    with pytest.raises(ValueError, match="y must have a label for each of the 7 images, got 2"):
        plots.labelled_images(PREDICTION, IMAGES, [1, 2])
    with pytest.raises(ValueError, match="classes must name all 3 classes, got 1"):
        plots.labelled_images(PREDICTION, IMAGES, classes=["cat"])
    many = Prediction.of(models.Categorical(3), np.zeros((1, 1, 61, 3), np.float32), {})
    with pytest.raises(ValueError, match="at most 60 images, got 61"):
        plots.labelled_images(many, np.zeros((61, 4, 4)))
