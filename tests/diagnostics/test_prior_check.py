"""The prior in function space, against closed forms."""

from __future__ import annotations

import numpy as np
import numpyro.distributions as dist
import pytest

import data
import diagnostics
import models

X = np.linspace(-2, 2, 9).reshape(-1, 1)


def test_linear_model_has_its_variance_in_closed_form():
    model = models.linear(models.Normal(0.7), models.Gaussian(scale=0.5))
    check = diagnostics.prior_check(model, X, draws=20_000)
    variance = 0.49 * (1 + X[:, 0] ** 2)
    assert check.functions.shape == (20_000, 9, 1)
    np.testing.assert_allclose(check.functions[..., 0].var(axis=0), variance, rtol=5 * np.sqrt(2 / 20_000))
    np.testing.assert_allclose(check.targets.var(axis=0), variance + 0.25, rtol=5 * np.sqrt(2 / 20_000))
    np.testing.assert_allclose(check.envelope[2, :, 0], 1.645 * np.sqrt(variance), rtol=0.05)
    assert check.numbers["function_sd"] == pytest.approx(np.median(np.sqrt(variance)), rel=0.05)
    assert "standard deviation" in str(check)


def test_a_wider_prior_has_larger_and_wilder_functions():
    narrow, wide = (
        diagnostics.prior_check(models.mlp((50,), "relu", models.Normal(s, fan_in=True)), X) for s in (0.5, 3.0)
    )
    assert wide.numbers["function_sd"] > 5 * narrow.numbers["function_sd"]
    assert wide.numbers["wiggle"] > narrow.numbers["wiggle"]
    assert wide.numbers["reach"] > narrow.numbers["reach"]


def test_classifier_is_certain_under_a_wide_prior_and_not_under_a_narrow_one():
    train, _ = data.load("wine_cultivars").split()
    wide = diagnostics.prior_check(models.mlp((50,), likelihood=models.Categorical(3)), train)
    narrow = diagnostics.prior_check(
        models.mlp((50,), prior=models.Normal(0.3, fan_in=True), likelihood=models.Categorical(3)), train
    )
    assert wide.numbers["certain"] > 0.5
    assert narrow.numbers["certain"] < 0.01
    assert narrow.numbers["entropy"] == pytest.approx(np.log(3), rel=0.1)
    assert wide.entropy.shape == (1000, len(train))
    np.testing.assert_allclose(wide.functions.sum(axis=-1), 1, rtol=1e-6)
    assert "99 % sure" in str(wide)


def test_observed_targets_are_held_against_the_prior():
    model = models.linear(models.Normal(1.0), models.Gaussian(scale=0.5))
    assert diagnostics.prior_check(model, X, X[:, 0]).numbers["inside"] == 1.0
    far = diagnostics.prior_check(model, X, X[:, 0] + 1000)
    assert far.numbers["inside"] == 0.0
    assert "hold 0% of the observed" in str(far)


@pytest.mark.parametrize(
    ("model", "x", "title"),
    [
        (models.mlp((5,)), X, "90 % band"),
        (models.mlp((5,), likelihood=models.HeteroscedasticGaussian()), np.zeros((4, 3)) + X[:4], "over all inputs"),
        (models.mlp((5,), likelihood=models.Bernoulli()), X, "How unsure"),
    ],
)
def test_figure(model, x, title):
    figure = diagnostics.prior_check(model, x, draws=50).figure()
    assert title in figure.axes[0].get_title(loc="left")


@pytest.mark.parametrize("prior", [models.Hierarchical(), models.ScaleMixture(0.5, 1.0, 0.1), dist.StudentT(3.0)])
def test_other_priors(prior):
    check = diagnostics.prior_check(models.mlp((5,), prior=prior), X, draws=100)
    assert np.isfinite(check.functions).all()


def test_same_seed_same_functions():
    first, again, other = (diagnostics.prior_check(models.mlp((5,)), X, draws=20, seed=s).functions for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_what_can_not_be_drawn():
    with pytest.raises(ValueError, match="a flat prior has no draws"):
        diagnostics.prior_check(models.mlp((5,), prior=models.Flat()), X)
    with pytest.raises(TypeError, match="needs a network of models, got function"):
        diagnostics.prior_check(lambda x: None, X)
    with pytest.raises(ValueError, match="draws must be at least 1"):
        diagnostics.prior_check(models.mlp(), X, draws=0)
