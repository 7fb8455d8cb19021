"""Scores against brute force, scikit-learn and hand-made cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

import data
import diagnostics
import models
from inference.results.prediction import Prediction
from inference.results.scores import crps_of_mixture

GENERATOR = np.random.default_rng(0)


def test_crps_of_one_normal_is_the_textbook_formula():
    mean, scale, y = GENERATOR.normal(size=(3, 20))
    scale = np.abs(scale) + 0.1
    z = (y - mean) / scale
    normal = scipy.stats.norm
    expected = scale * (z * (2 * normal.cdf(z) - 1) + 2 * normal.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(crps_of_mixture(mean[None], scale[None], y), expected, rtol=1e-5)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_crps_of_a_mixture_is_the_integral_of_the_squared_cdf_error(offset):
    mean = GENERATOR.normal(size=(6, 4)) + offset
    scale = GENERATOR.uniform(0.2, 1.5, (6, 4))
    y = GENERATOR.normal(size=4) + offset
    grid = np.linspace(-15, 15, 300_001)
    for j in range(4):
        cdf = scipy.stats.norm(mean[:, j, None] - offset, scale[:, j, None]).cdf(grid).mean(axis=0)
        integral = ((cdf - (grid >= y[j] - offset)) ** 2).sum() * (grid[1] - grid[0])
        assert crps_of_mixture(mean, scale, y)[j] == pytest.approx(integral, rel=1e-4)


def _regression(n: int = 4000) -> tuple[Prediction, np.ndarray]:
    """An honest prediction: y really has the predicted distribution."""
    generator = np.random.default_rng(1)
    centre = generator.normal(size=(1, 1, n, 1)).astype(np.float32)
    y = centre[0, 0, :, 0] + 0.5 * generator.normal(size=n)
    return Prediction.of(models.Gaussian(scale=0.5), centre, {}), y


def test_scores_of_an_honest_regression():
    prediction, y = _regression()
    scores = diagnostics.scores(prediction, y)
    assert list(scores) == ["rmse", "log_score", "crps", "coverage"]
    n = len(y)
    assert scores["rmse"] == pytest.approx(np.sqrt(sklearn.metrics.mean_squared_error(y, prediction.mean)))
    assert scores["rmse"] == pytest.approx(0.5, rel=5 / np.sqrt(2 * n))
    assert scores["coverage"] == pytest.approx(0.9, abs=5 * np.sqrt(0.09 / n))
    assert scores["log_score"] == pytest.approx(-0.5 * np.log(2 * np.pi * 0.25) - 0.5, abs=5 * np.sqrt(0.5 / n))
    assert scores["crps"] == pytest.approx(0.5 / np.sqrt(np.pi), abs=5 * 0.4 / np.sqrt(n))


def test_a_split_restores_units():
    train, test = data.load("diabetes").split(seed=0)
    prediction = Prediction.of(models.Gaussian(scale=0.7), np.zeros((1, 1, len(test), 1), np.float32), {})
    own, standard = diagnostics.scores(prediction, test), diagnostics.scores(prediction, test.y)
    unit = float(train.scaler.y_scale)
    assert own["rmse"] == pytest.approx(unit * standard["rmse"], rel=1e-5)
    assert own["crps"] == pytest.approx(unit * standard["crps"], rel=1e-5)
    assert own["log_score"] == pytest.approx(standard["log_score"] - np.log(unit), rel=1e-5)
    assert own["coverage"] == standard["coverage"]
    restored = diagnostics.scores(test.restore(prediction), test)
    assert restored == own  # a prediction that has been restored is not restored again
