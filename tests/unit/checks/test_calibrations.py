"""Calibration of predictions whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import data
import diagnostics
import models
from diagnostics.checks.calibrations import Calibration, ClassCalibration, TargetCalibration, calibration
from diagnostics.checks.class_bins import CalibrationErrors
from diagnostics.checks.uniformity import LEVELS
from inference.results.prediction import Prediction


def _regression(n: int, said: float, true: float = 0.5, bias: float = 0.0) -> tuple[Prediction, np.ndarray]:
    """Targets of standard deviation `true` around predictions that say `said` and are too low by `bias`."""
    generator = np.random.default_rng(1)
    centre = generator.normal(size=(1, 1, n, 1)).astype(np.float32)
    y = centre[0, 0, :, 0] + bias + true * generator.normal(size=n)
    return Prediction.of(models.Gaussian(scale=said), centre, {}), y


def _mixture(n: int) -> tuple[Prediction, np.ndarray]:
    generator = np.random.default_rng(0)
    sites = {"noise": generator.uniform(0.3, 2.0, (2, 3))}
    prediction = Prediction.of(models.Gaussian(), generator.normal(size=(2, 3, n, 1)).astype(np.float32), sites)
    return prediction, generator.normal(size=n)


def test_pit_and_coverage_are_those_of_the_mixture():
    prediction, y = _mixture(40)
    found = calibration(prediction, y)
    assert isinstance(found, TargetCalibration)
    parts = scipy.stats.norm(prediction.outputs[..., 0], prediction.noise)
    np.testing.assert_allclose(found.pit, parts.cdf(y).mean(axis=(0, 1)), rtol=1e-12)
    assert found.coverage.levels.tolist() == [i / 20 for i in range(1, 20)]
    for level, share in zip(found.coverage.levels, found.coverage.observed, strict=True):
        lower, upper = prediction.interval(level)
        assert share == ((lower <= y) & (y <= upper)).mean()
    np.testing.assert_allclose(found.coverage.errors[9], np.sqrt(0.25 / 40))


def test_an_honest_prediction_passes():
    found = calibration(*_regression(4000, said=0.5))
    assert found.passed
    assert (np.abs(found.coverage.observed - found.coverage.levels) < 5 * found.coverage.errors).all()
    assert found.miscalibration < 3 * found.floor
    assert str(found).startswith("Nothing speaks against calibration on these 4000 rows")


@pytest.mark.parametrize(("said", "bias"), [(0.25, 0.0), (1.0, 0.0), (0.5, 0.2)])
def test_wrong_widths_and_shifts_have_their_closed_forms(said, bias):
    n = 4000
    found = calibration(*_regression(n, said, bias=bias))
    normal = scipy.stats.norm
    z = normal.ppf((1 + found.coverage.levels) / 2) * said
    inside = normal.cdf((z - bias) / 0.5) - normal.cdf((-z - bias) / 0.5)
    assert (np.abs(found.coverage.observed - inside) < 5 * np.sqrt(inside * (1 - inside) / n)).all()
    below = normal.cdf((normal.ppf(LEVELS) * said - bias) / 0.5)
    assert found.miscalibration == pytest.approx(np.abs(below - LEVELS).mean(), abs=5 * 0.5 / np.sqrt(n))
    assert not found.passed
    assert "Calibration failed" in str(found)


def test_words():
    prediction = Prediction.of(models.Gaussian(scale=1.0), np.zeros((1, 1, 4, 1), np.float32), {})
    text = str(calibration(prediction, np.array([-0.5, 0.1, 1.0, 9.0])))
    assert "central 50 % intervals hold 50.0% of the targets and the 90 % ones 75.0%; 25.0% are below" in text


def test_several_outputs_are_judged_each():
    generator = np.random.default_rng(2)
    y = generator.normal(size=(500, 3)) * [1.0, 1.6, 1.0] + [0.0, 0.0, 0.5]
    likelihood = models.Gaussian(scale=1.0, outputs=3)
    found = calibration(Prediction.of(likelihood, np.zeros((1, 2, 500, 3), np.float32), {}), y)
    assert found.pit.shape == (500, 3)
    assert found.coverage.observed.shape == (19, 3)
    assert (found.p_value < 0.05).tolist() == [False, True, True]
    assert not found.passed
    for k in range(3):
        alone = Prediction.of(models.Gaussian(scale=1.0), np.zeros((1, 2, 500, 1), np.float32), {})
        single = calibration(alone, y[:, k])
        np.testing.assert_array_equal(found.coverage.observed[:, k], single.coverage.observed)
        assert (found.miscalibration[k], found.p_value[k]) == (single.miscalibration, single.p_value)
    assert "at most" in str(found)


def test_several_outputs_pass_at_5_percent_together():
    numbers = {"miscalibration": np.zeros(3), "floor": 0.0, "rows": 1}
    assert not Calibration(p_value=np.array([0.5, 0.016, 0.9]), **numbers).passed
    assert Calibration(p_value=np.array([0.5, 0.017, 0.9]), **numbers).passed


@pytest.mark.parametrize("likelihood", [models.Categorical(4), models.Bernoulli()])
def test_classification(likelihood):
    generator = np.random.default_rng(3)
    outputs = 1.5 * generator.normal(size=(1, 1, 600, likelihood.heads)).astype(np.float32)
    prediction = Prediction.of(likelihood, outputs, {})
    y = (prediction.probs.cumsum(axis=1) < generator.random((600, 1))).sum(axis=1)
    found = calibration(prediction, y)
    assert isinstance(found, ClassCalibration)
    scores = diagnostics.scores(prediction, y)
    assert found.ece == found.miscalibration == pytest.approx(scores["ece"])
    errors = CalibrationErrors.of(prediction.probs, y)
    assert (found.ece_equal_mass, found.floor_equal_mass) == (errors.equal_mass, errors.floor_equal_mass)
    assert found.brier.score == pytest.approx(scores["brier"])
    assert found.bins.count.sum() == found.rows == 600
    assert found.bins.accuracy @ found.bins.count / 600 == pytest.approx(scores["accuracy"])
    assert found.passed  # labels were drawn from what is predicted
    assert found.ece < 3 * found.floor
    overconfident = Prediction.of(likelihood, 4 * outputs, {})
    failed = calibration(overconfident, y)
    assert not failed.passed
    assert failed.ece_equal_mass > 3 * failed.floor_equal_mass
    assert "Calibration failed on these 600 rows" in str(failed)
    assert f"the accuracy {scores['accuracy']:.1%}" in str(found)


def test_labels_of_a_split():
    train, _ = data.load("wine_cultivars").split()
    prediction = Prediction.of(models.Categorical(3), np.zeros((1, 1, len(train), 3), np.float32), {})
    assert calibration(prediction, train).rows == len(train)
    assert calibration(prediction, train).brier.resolution == pytest.approx(0, abs=1e-15)


def test_what_does_not_fit():
    prediction, y = _mixture(5)
    with pytest.raises(ValueError, match="y must have shape"):
        calibration(prediction, y[:4])
    with pytest.raises(ValueError, match="y must be finite"):
        calibration(prediction, [0, 1, np.nan, 2, 3])
    with pytest.raises(TypeError):
        calibration(y, y)
    labels = Prediction.of(models.Categorical(3), np.zeros((1, 1, 2, 3), np.float32), {})
    with pytest.raises(ValueError, match="labels 0 to 2"):
        calibration(labels, [0, 3])
    with pytest.raises(TypeError, match="integer labels"):
        calibration(labels, [0.0, 1.0])
