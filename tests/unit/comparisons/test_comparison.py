"""Comparison: scores with errors, paired differences, and distances beside the noise floor."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import diagnostics
from diagnostics.comparisons.distances import _halves, agreement, total_variation, wasserstein
from inference.results.scores import _calibration_gaps, calibration_error


def test_wasserstein_distance_is_that_of_scipy():
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(100, 2)), generator.normal(1, 2, size=(50, 2))
    expected = [scipy.stats.wasserstein_distance(a[:, j], b[:, j]) for j in range(2)]
    np.testing.assert_allclose(wasserstein(a, b), expected)
    np.testing.assert_allclose(wasserstein(b + 3, b, power=2), 3.0)
    for sizes in ((5, 3), (7, 5), (100, 120)):  # of which neither divides the other
        a, b = (generator.normal(size=size) for size in sizes)
        assert wasserstein(a[:, None], b[:, None])[0] == pytest.approx(scipy.stats.wasserstein_distance(a, b))
    # Between normal distributions W2 is in closed form; quantiles of many draws come close to it.
    many = generator.normal(size=(20_000, 1)), generator.normal(0.7, 1.5, size=(20_000, 1))
    np.testing.assert_allclose(wasserstein(*many, power=2), np.hypot(0.7, 0.5), atol=0.03)


def test_total_variation_and_agreement():
    p, q = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]), np.array([[0.4, 0.6, 0.0], [0.1, 0.1, 0.8]])
    np.testing.assert_allclose(total_variation(p, q), [0.1, 0.3])
    np.testing.assert_array_equal(agreement(p, q), [0.0, 1.0])


def test_the_error_of_the_calibration_error_is_that_of_resampled_rows():
    generator = np.random.default_rng(0)
    probs = np.column_stack([p := generator.uniform(0.1, 0.9, 4000), 1 - p])
    labels = (generator.uniform(size=4000) > 0.5 + 0.5 * (probs[:, 0] - 0.5)).astype(np.int64)  # far too sure
    gaps = _calibration_gaps(probs, labels, 15)
    assert gaps.mean() == pytest.approx(calibration_error(probs, labels))
    resampled = [calibration_error(probs[some], labels[some]) for some in generator.integers(0, 4000, (300, 4000))]
    assert gaps.std() / np.sqrt(4000) == pytest.approx(np.std(resampled), rel=0.2)


@pytest.mark.parametrize(
    ("name", "value", "near"),
    [("w1", 0.05, True), ("w1", 0.12, True), ("w1", 0.15, False), ("agreement", 0.99, True), ("agreement", 0.8, False)],
)
def test_near_is_no_farther_than_the_floor_and_its_spreads(name, value, near):
    """Small distances are near, and small agreements far."""
    floor, spread = {"w1": 0.1, "agreement": 0.95}, {"w1": 0.008, "agreement": 0.008}
    row = {"method": "a", name: value, f"{name}_spread": 0.008}
    assert diagnostics.Comparison((row,), "hmc", floor, spread).near(row, name) == near


@pytest.mark.parametrize(("chains", "ways"), [(1, 0), (2, 2), (3, 3), (4, 6), (8, 70), (16, 70), (40, 70)])
def test_chains_are_halved_in_a_bounded_number_of_ways(chains, ways):
    halves = _halves(chains)
    assert len(halves) == len({tuple(half) for half in halves}) == ways
    assert all(len(half) == chains // 2 for half in halves)
    if chains == 16:
        assert len({half[0] for half in halves}) > 3  # not all of them begin alike
