"""Predictive checks against closed forms and brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

import data
import inference
import models
from diagnostics.checks.posterior_predictive import predictive_check


def test_the_mean_has_its_p_value_in_closed_form(conjugate):
    mean, precision = conjugate.posterior()
    row = conjugate.design.mean(axis=0)
    spread = np.sqrt(row @ np.linalg.solve(precision, row) + conjugate.noise**2 / len(conjugate.y))
    for shift in (0.0, 0.1, -0.15):
        y = conjugate.y + shift
        expected = scipy.stats.norm(row @ mean, spread).sf(y.mean())
        check = predictive_check(conjugate.exact(), conjugate.x, y, statistic=np.mean)
        assert list(check.p_values) == ["mean"]
        assert check.observed["mean"] == pytest.approx(y.mean(), abs=1e-6)
        assert check.replicates["mean"].shape == (1, 4000)
        assert check.errors["mean"] == pytest.approx(np.sqrt(expected * (1 - expected) / 4000), rel=0.15)
        assert abs(check.p_value - expected) < 5 * check.errors["mean"], (check.p_value, expected)


def test_any_statistic_by_brute_force(conjugate):
    generator = np.random.default_rng(7)
    mean, precision = conjugate.posterior()
    draws = generator.multivariate_normal(mean, np.linalg.inv(precision), size=20_000)
    sets = draws @ conjugate.design.T + conjugate.noise * generator.normal(size=(20_000, 40))
    statistics = {"largest": np.max, "range": np.ptp, "sign changes": lambda y: (y[1:] * y[:-1] < 0).sum()}
    check = predictive_check(conjugate.exact(), conjugate.x, conjugate.y, statistics)
    assert list(check.observed) == list(check.replicates) == list(check.p_values) == list(check.errors)
    for name, function in statistics.items():
        values, observed = np.array([function(y) for y in sets]), function(conjugate.y.astype(np.float64))
        expected = (values > observed).mean() + (values == observed).mean() / 2
        error = np.hypot(check.errors[name], np.sqrt(expected * (1 - expected) / len(sets)))
        assert abs(check.p_values[name] - expected) < 5 * error, (name, check.p_values[name], expected)
    with pytest.raises(ValueError, match="3 statistics; use p_values"):
        _ = check.p_value


def test_ties_count_half(conjugate):
    """Labels of three rows by fixed probabilities: how many are 1 is a sum of coins, which often ties."""
    logits = np.array([0.3, -1.0, 2.0])
    sure = 1 / (1 + np.exp(-logits))
    pmf = np.array([1.0])
    for p in sure:
        pmf = np.convolve(pmf, [1 - p, p])
    posterior = conjugate.of(
        np.zeros((2, 2000, 4)),
        model=models.linear(likelihood=models.Bernoulli()),
        draws={"output.bias": np.zeros((2, 2000, 1)), "output.weight": np.ones((2, 2000, 1, 1))},
    )
    for labels in ([0, 0, 1], [1, 1, 1], [0, 0, 0]):
        count = sum(labels)
        expected = pmf[count + 1 :].sum() + pmf[count] / 2
        check = predictive_check(posterior, logits[:, None], np.array(labels), statistic=np.sum)
        assert abs(check.p_value - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000), (check.p_value, expected)


def test_the_error_counts_effective_draws(conjugate):
    """Sticky chains: the p-values of many posteriors scatter by the stated error, not by that of as many draws."""
    generator = np.random.default_rng(0)
    model = models.linear(likelihood=models.Gaussian(scale=1e-3))
    p_values, errors = [], []
    for _ in range(60):
        bias = np.empty((2, 400))
        bias[:, 0] = generator.normal(size=2)
        for t in range(1, 400):
            bias[:, t] = 0.9 * bias[:, t - 1] + np.sqrt(1 - 0.81) * generator.normal(size=2)
        draws = {"output.bias": bias[..., None], "output.weight": np.zeros((2, 400, 1, 1))}
        posterior = conjugate.of(np.zeros((2, 400, 4)), model=model, draws=draws)
        check = predictive_check(posterior, np.zeros((3, 1)), np.full(3, 0.3), statistic=np.mean)
        p_values.append(check.p_value)
        errors.append(check.errors["mean"])
    expected = scipy.stats.norm.sf(0.3)
    scatter, stated, naive = np.std(p_values), np.mean(errors), np.sqrt(expected * (1 - expected) / 800)
    # The scatter of 60 is known to a tenth. That of an indicator is a little below that of the statistic itself.
    assert 0.5 < scatter / stated < 1.4
    assert scatter > 2 * naive
    assert abs(np.mean(p_values) - expected) < 5 * scatter / np.sqrt(60)


def test_what_never_happens_has_an_error_too(conjugate):
    posterior = conjugate.exact(draws=500)
    check = predictive_check(posterior, conjugate.x, conjugate.y + 100, statistic=np.min)
    assert check.p_value == 0
    assert 1 / 600 < check.errors["min"] < 1 / 300  # about 1 / E, the standard deviation of Beta(1, 1 + E)
    assert check.extreme == ("min",)
    assert "p = 0.000 ± 0.00" in str(check)
    assert str(check).endswith("not reproduced")
    frozen = {name: np.repeat(values[:, :1], 500, axis=1) for name, values in posterior.draws.items()}
    stuck = predictive_check(replace(posterior, draws=frozen), conjugate.x, conjugate.y, statistic=lambda y: 1.0)
    assert stuck.errors["statistic"] == pytest.approx(np.sqrt(1 / 12))  # ESS 0: nothing is known


def test_each_chain_has_its_own_noise(conjugate):
    noise = np.repeat([[0.1], [3.0]], 200, axis=1)
    posterior = conjugate.of(np.zeros((2, 200, 4)), model=models.linear(likelihood=models.Gaussian()))
    posterior = replace(posterior, draws=posterior.draws | {"noise": noise})
    check = predictive_check(posterior, conjugate.x, conjugate.y, statistic=np.std)
    spread = check.replicates["std"].mean(axis=1)
    np.testing.assert_allclose(spread, [0.1, 3.0], rtol=0.05)  # 40 rows: 1 % bias, 1 % error


@pytest.mark.parametrize(("chains", "replicates"), [(1, 1000), (3, 334)])
def test_points_make_many_replicates(conjugate, chains, replicates):
    """A fixed mean and variance, so the p-value is a normal's."""
    method = inference.MAP() if chains == 1 else inference.Ensemble(chains=3)
    posterior = conjugate.of(np.zeros((chains, 1, 4)), method=method)
    check = predictive_check(posterior, conjugate.x, np.full(40, 0.1), statistic=np.mean)
    assert check.replicates["mean"].shape == (chains, replicates)
    assert len(np.unique(check.replicates["mean"])) == chains * replicates
    expected = scipy.stats.norm.sf(0.1 / (conjugate.noise / np.sqrt(40)))
    assert abs(check.p_value - expected) < 5 * check.errors["mean"]
    assert check.errors["mean"] == pytest.approx(np.sqrt(expected * (1 - expected) / 1000), rel=0.15)


def test_splits_pairs_and_usual_statistics(conjugate):
    train, _ = data.load("diabetes").split(seed=0)
    draws = {"output.bias": np.zeros((1, 50, 1)), "output.weight": np.zeros((1, 50, 10, 1))}
    posterior = conjugate.of(np.zeros((1, 50, 4)), draws=draws)
    check = predictive_check(posterior, train)
    assert list(check.observed) == ["min", "max", "mean", "std"]
    assert check.observed["max"] == train.y.max()  # in the units of the model
    pair = predictive_check(posterior, (train.x, train.y))
    np.testing.assert_array_equal(check.replicates["max"], pair.replicates["max"])
    other = predictive_check(posterior, train, seed=1)
    assert not np.array_equal(check.replicates["max"], other.replicates["max"])
    assert len(str(check).splitlines()) == 4


def test_usual_statistics_of_labels_and_of_several_outputs(conjugate):
    draws = {"output.bias": np.zeros((1, 500, 3)), "output.weight": np.zeros((1, 500, 1, 3))}
    labels = conjugate.of(np.zeros((1, 500, 4)), model=models.linear(likelihood=models.Categorical(3)), draws=draws)
    check = predictive_check(labels, np.zeros((30, 1)), np.repeat([0, 2], 15))
    assert list(check.observed.values()) == [0.5, 0.0, 0.5]
    assert check.p_values["share of class 1"] == 1.0  # it is never absent from 30 rows
    assert "share of class 1" in check.extreme
    np.testing.assert_allclose([v.mean() for v in check.replicates.values()], 1 / 3, atol=5 * 0.086 / np.sqrt(500))
    likelihood = models.Gaussian(scale=1.0, outputs=3)
    several = conjugate.of(np.zeros((1, 500, 4)), model=models.linear(likelihood=likelihood), draws=draws)
    y = np.tile([0.0, 5.0, -5.0], (30, 1))
    check = predictive_check(several, np.zeros((30, 1)), y)
    assert len(check.observed) == 12
    assert check.observed["max of output 1"] == 5.0
    assert check.p_values["max of output 1"] == 0.0
    assert check.p_values["min of output 2"] == 1.0


def test_what_does_not_fit(conjugate):
    posterior, x, y = conjugate.exact(draws=5), conjugate.x, conjugate.y
    with pytest.raises(TypeError, match=r"predictive_check needs inputs and targets: a Split, or a pair"):
        predictive_check(posterior, x)
    with pytest.raises(TypeError, match="predictive_check needs the posterior of a network of models"):
        predictive_check(replace(posterior, model=lambda x: None), x, y)
    with pytest.raises(TypeError, match="predictive_check needs a posterior, got dict"):
        predictive_check({}, x, y)
    with pytest.raises(ValueError, match="as many rows, got 40 in x and 39 in y"):
        predictive_check(posterior, x, y[1:])
    with pytest.raises(ValueError, match=r"'sort' must give one finite number .* got an array of shape \(40,\)"):
        predictive_check(posterior, x, y, statistic=np.sort)
    with pytest.raises(ValueError, match=r"'odd' must give one finite number for targets of shape .* got nan"):
        predictive_check(posterior, x, y, statistic={"odd": lambda y: np.nan})
    for wrong in ("max", {}, {"max": 3}, [np.max]):
        with pytest.raises(TypeError, match="statistic must be a function from targets to a number"):
            predictive_check(posterior, x, y, statistic=wrong)
