"""Scores against brute force, scikit-learn and hand-made cases."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics

import diagnostics
import models
from inference.results.prediction import Prediction
from inference.results.scores import calibration_error

GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize("likelihood", [models.Categorical(3), models.Bernoulli()])
def test_scores_of_a_classification(likelihood):
    outputs = 2 * GENERATOR.normal(size=(2, 3, 200, likelihood.heads)).astype(np.float32)
    prediction = Prediction.of(likelihood, outputs, {})
    y = GENERATOR.integers(0, likelihood.classes, 200)
    scores = diagnostics.scores(prediction, y)
    assert list(scores) == ["accuracy", "log_score", "brier", "ece"]
    labels = list(range(likelihood.classes))
    assert scores["accuracy"] == sklearn.metrics.accuracy_score(y, prediction.probs.argmax(axis=1))
    assert scores["log_score"] == pytest.approx(-sklearn.metrics.log_loss(y, prediction.probs, labels=labels))
    indicator = np.eye(likelihood.classes)[y]
    assert scores["brier"] == pytest.approx(((prediction.probs - indicator) ** 2).sum(axis=1).mean())
    if likelihood.classes == 2:
        assert scores["brier"] == pytest.approx(2 * sklearn.metrics.brier_score_loss(y, prediction.probs[:, 1]))


def test_calibration_error_by_hand():
    # Bin (0.8, 0.9]: confidences 0.9 and 0.85, one of two right. Bin (0.5, 0.6]: 0.6, wrong; 1.0 is right.
    probs = np.array([[0.9, 0.1], [0.15, 0.85], [0.6, 0.4], [0.0, 1.0]])
    labels = np.array([0, 0, 1, 1])
    expected = (abs(1 - (0.9 + 0.85)) + 0.6 + 0.0) / 4
    assert calibration_error(probs, labels, bins=10) == pytest.approx(expected)


def test_calibration_error_loses_no_point_on_an_edge():
    probs = np.array([[0.5, 0.5], [1.0, 0.0]])
    assert calibration_error(probs, np.array([1, 1]), bins=2) == pytest.approx((0.5 + 1.0) / 2)
