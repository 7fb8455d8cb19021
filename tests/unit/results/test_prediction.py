"""Predictions against closed forms and against NumPyro's own densities."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import models
from inference.results.prediction import Prediction
from tests.helpers.made_up_predictions import outputs, regression


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"outputs": 3}, {"outputs": 3, "scale": 0.3}])
def test_moments_of_the_mixture_by_sampling(options):
    prediction = regression(**options)
    draws = np.concatenate([prediction.sample(seed).reshape(10, *prediction.mean.shape) for seed in range(4000)])
    error = np.sqrt(prediction.total / len(draws))
    assert (np.abs(draws.mean(axis=0) - prediction.mean) < 5 * error).all()
    square = (draws - prediction.mean) ** 2
    assert (np.abs(square.mean(axis=0) - prediction.total) < 5 * square.std(axis=0) / np.sqrt(len(draws))).all()
    lower, upper = prediction.interval(0.8)
    inside = ((lower < draws) & (draws < upper)).mean(axis=0)
    assert (np.abs(inside - 0.8) < 5 * np.sqrt(0.16 / len(draws))).all()


def test_one_draw_is_its_own_distribution():
    likelihood = models.Gaussian(scale=0.5)
    prediction = Prediction.of(likelihood, outputs()[:1, :1], {})
    assert (prediction.epistemic == 0).all()
    np.testing.assert_allclose(prediction.aleatoric, 0.25)
    normal = scipy.stats.norm(prediction.mean, 0.5)
    np.testing.assert_allclose(prediction.interval(0.9), normal.interval(0.9), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(prediction.log_prob(np.zeros(7)), normal.logpdf(0))


def test_interval_holds_its_probability_exactly():
    prediction = regression()
    lower, upper = prediction.interval(0.7)
    np.testing.assert_allclose(prediction.cdf(upper) - prediction.cdf(lower), 0.7, atol=1e-9)
    np.testing.assert_allclose(prediction.cdf(lower), 0.15, atol=1e-9)
    with pytest.raises(ValueError, match=r"probability must be above 0 and below 1, got 90.0"):
        prediction.interval(90.0)


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"outputs": 3}])
def test_intervals_do_not_depend_on_how_many_rows_are_worked_on_at_once(options, monkeypatch):
    whole = regression(**options).interval(0.8)
    monkeypatch.setattr("inference.results.prediction._BLOCK", 2 * 10 * 3)  # two rows of three outputs, six of one
    np.testing.assert_array_equal(regression(**options).interval(0.8), whole)


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"outputs": 3}])
def test_rescaled_prediction_is_that_of_the_rescaled_targets(options):
    prediction = regression(**options)
    shape = prediction.mean.shape[1:]
    location, scale = np.full(shape, 1e6), np.full(shape, 20.0)  # an offset that float32 could not carry
    restored = prediction.rescaled(location, scale)
    y = np.random.default_rng(2).normal(size=prediction.mean.shape)
    shift = np.log(20.0) * prediction.likelihood.outputs
    np.testing.assert_allclose(restored.log_prob(location + scale * y), prediction.log_prob(y) - shift, atol=1e-6)
    np.testing.assert_allclose(restored.mean, 1e6 + 20 * prediction.mean)
    np.testing.assert_allclose(restored.total, 400 * prediction.total, rtol=1e-6)
    np.testing.assert_allclose(restored.interval(0.9)[0], 1e6 + 20 * prediction.interval(0.9)[0])
    np.testing.assert_allclose(restored.sample(3), 1e6 + 20 * prediction.sample(3), rtol=1e-9)
    assert restored.rescaled(location, scale) is restored  # never twice


def test_a_prediction_is_restored_by_its_own_kind_of_data_only():
    import data

    one, two = regression(), regression(outputs=3)
    with pytest.raises(ValueError, match=r"of 1 outputs needs scales of shape \(\), got \(2,\)"):
        one.rescaled(np.zeros(2), np.ones(2))
    with pytest.raises(ValueError, match=r"of 3 outputs needs scales of shape \(3,\), got \(\)"):
        two.rescaled(np.zeros(()), np.ones(()))
    _, labels = data.load("moons").split()
    with pytest.raises(ValueError, match=r"'moons, test' has labels"):
        labels.restore(one)


@pytest.mark.parametrize("likelihood", [models.Categorical(4), models.Bernoulli()])
def test_classification(likelihood):
    prediction = Prediction.of(likelihood, 3 * outputs(likelihood.heads), {})
    classes = likelihood.classes
    assert prediction.probs.shape == (7, classes)
    np.testing.assert_allclose(prediction.probs.sum(axis=1), 1)
    np.testing.assert_allclose(prediction.total, prediction.epistemic + prediction.aleatoric)
    assert (prediction.epistemic > 0).all()
    assert (prediction.total <= np.log(classes)).all()
    np.testing.assert_allclose(prediction.total, scipy.stats.entropy(prediction.probs, axis=1))
    per_draw = likelihood.probabilities(prediction.outputs)
    np.testing.assert_allclose(prediction.aleatoric, scipy.stats.entropy(per_draw, axis=-1).mean(axis=(0, 1)))
    for label in range(classes):
        np.testing.assert_allclose(prediction.log_prob(np.full(7, label)), np.log(prediction.probs[:, label]))
    labels = np.stack([prediction.sample(seed) for seed in range(500)])
    assert labels.dtype == np.int32
    share = (labels == 1).mean(axis=(0, 1, 2))
    assert (np.abs(share - prediction.probs[:, 1]) < 5 * 0.5 / np.sqrt(5000)).all()
    with pytest.raises(TypeError, match="a label has no interval"):
        prediction.interval()
    with pytest.raises(ValueError, match=r"labels 0 to"):
        prediction.log_prob(np.full(7, classes))


def test_bernoulli_and_two_logits_agree():
    logits = outputs(1)
    one = Prediction.of(models.Bernoulli(), logits, {})
    two = Prediction.of(models.Categorical(2), np.concatenate([0 * logits, logits], axis=-1), {})
    np.testing.assert_allclose(one.probs, two.probs)
    np.testing.assert_allclose(one.epistemic, two.epistemic)


def test_extreme_logits_stay_finite():
    outputs = np.array([-1e4, 1e4], np.float32).reshape(1, 1, 2, 1)
    prediction = Prediction.of(models.Bernoulli(), outputs, {})
    assert np.isfinite(prediction.log_prob(np.array([1, 0]))).all()
    assert prediction.log_prob(np.array([1, 0])).tolist() == [-1e4, -1e4]
    assert (prediction.total == 0).all()
