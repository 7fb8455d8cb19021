"""The study of three kinds of uncertainty, small: its closed forms, and the direction of all that it shows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from experiments import uncertainty_cases


def test_the_exact_line_is_a_sum_over_a_grid_of_all_three_unknowns():
    # So few and so noisy that the mean of the coefficients depends on s.
    x, y = uncertainty_cases.observed(lambda x: 0.5 + 0.8 * x, 10, 1.5, seed=3)
    at = np.array([[-3.0], [0.0], [1.5]])
    bias, weight, log_s = np.linspace(-2.5, 3.0, 81), np.linspace(-1.5, 3.0, 81), np.linspace(-0.8, 1.7, 81)
    grid = np.stack(np.meshgrid(bias, weight, log_s, indexing="ij"), axis=-1).reshape(-1, 3)
    s = np.exp(grid[:, 2])
    normal = scipy.stats.norm
    logs = normal.logpdf(grid[:, :2]).sum(axis=1) + scipy.stats.halfnorm.logpdf(s) + grid[:, 2]  # the grid is of log s
    for place, target in zip(x[:, 0], y, strict=True):
        logs += normal.logpdf(target, grid[:, 0] + grid[:, 1] * place, s)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    functions = grid[:, 0] + grid[:, 1] * at
    epistemic = [np.cov(values, aweights=weights, ddof=0) for values in functions]
    found = uncertainty_cases.exact_line(x, y, at)
    assert found[0] == pytest.approx(weights @ s**2, rel=1e-3)
    np.testing.assert_allclose(found[1], epistemic, rtol=2e-3)


def test_data_sets_differ_by_their_size_alone():
    for n in (30, 200):
        _, y = uncertainty_cases.observed(np.sin, n, 0.3, seed=0)
        noise = y - np.sin(np.linspace(-2, 2, n))
        assert (noise.mean(), noise.std()) == pytest.approx((0, 0.3), abs=1e-12)


def test_means_over_data_sets():
    one, two = (uncertainty_cases.Level(50, 0.2, value, 0.3, 2 * value, 0.4) for value in (1.0, 3.0))
    mean = uncertainty_cases.mean_level([one, two])
    assert mean[:6] == pytest.approx((50, 0.2, 2.0, 0.3 / np.sqrt(2), 4.0, 0.4 / np.sqrt(2)))
    assert np.isnan(mean.exact_epistemic)
