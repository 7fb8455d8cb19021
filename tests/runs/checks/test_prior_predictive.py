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
    assert check.numbers["function_spread"] == pytest.approx(np.median(np.sqrt(variance)), rel=0.05)
    assert "spreads by" in str(check)


def test_a_wider_prior_has_larger_and_wilder_functions():
    narrow, wide = (
        diagnostics.prior_check(models.mlp((50,), "relu", models.Normal(s, fan_in=True)), X) for s in (0.5, 3.0)
    )
    assert wide.numbers["function_spread"] > 5 * narrow.numbers["function_spread"]
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


def test_pairs_constant_targets_and_several_outputs():
    model = models.linear(likelihood=models.Gaussian(scale=0.5))
    assert "ratio" not in diagnostics.prior_check(model, (X, np.ones(9))).numbers
    two = models.linear(likelihood=models.Gaussian(scale=0.5, outputs=2))
    y = np.column_stack([X[:, 0], 1000 + X[:, 0]])
    ratio = diagnostics.prior_check(two, X, y).numbers["ratio"]
    assert 0.5 < ratio < 3  # per output: the columns are far apart, and each is narrow
    two_figure = diagnostics.prior_check(two, np.zeros((4, 3)), draws=50).figure()
    assert two_figure.axes[0].get_legend_handles_labels()[1] == ["y", "f(x)"]


def test_heavy_tails_have_a_spread_where_they_have_no_variance():
    spreads = [
        diagnostics.prior_check(models.linear(likelihood=models.StudentTNoise(df=1.0, scale=1.0)), X, seed=s).numbers
        for s in range(3)
    ]
    values = [numbers["target_spread"] for numbers in spreads]
    assert max(values) < 1.3 * min(values)
    with pytest.raises(ValueError, match="overflow float32"):
        diagnostics.prior_check(models.mlp((20, 20, 20), prior=dist.StudentT(0.1)), X)


def test_many_rows_are_thinned():
    check = diagnostics.prior_check(models.linear(), np.linspace(0, 1, 5000).reshape(-1, 1), draws=3)
    assert check.functions.shape == (3, 2000, 1)


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
