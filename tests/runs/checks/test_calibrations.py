"""Calibration of predictions whose truth is known."""

from __future__ import annotations

import numpy as np

import data
import diagnostics
import models
from diagnostics.checks.calibrations import calibration
from inference.results.prediction import Prediction


def test_calibration_has_no_units():
    _, test = data.load("diabetes").split(seed=0)
    outputs = np.random.default_rng(0).normal(size=(1, 5, len(test), 1)).astype(np.float32)
    prediction = Prediction.of(models.Gaussian(scale=0.7), outputs, {})
    own, standard, pair = (calibration(prediction, y) for y in (test, test.y, (test.x, test.y)))
    np.testing.assert_allclose(own.pit, standard.pit, atol=1e-6)
    np.testing.assert_array_equal(pair.pit, standard.pit)
    coverage = diagnostics.scores(prediction, test)["coverage"]
    assert coverage == own.coverage.observed[list(own.coverage.levels).index(0.9)]
