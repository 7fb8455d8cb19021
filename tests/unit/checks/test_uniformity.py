"""The test of uniformity against exact probabilities."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from diagnostics.checks.uniformity import LEVELS, Uniformity, ecdf_band, shares_below

SIMULATIONS = 10_000  # behind every p-value and band


def _probability_inside(size: int) -> float:
    """That all counts are inside the band, exactly: from percentile to percentile as a Markov chain."""
    lower, upper = (np.rint(size * edge) for edge in ecdf_band(size))
    counts = np.arange(size + 1)
    reached, before = np.eye(1, size + 1)[0], 0.0
    for level, low, high in zip(LEVELS, lower, upper, strict=True):
        chance = (level - before) / (1 - before)
        step = scipy.stats.binom.pmf(counts[None] - counts[:, None], size - counts[:, None], chance)
        reached = (reached @ step) * ((low <= counts) & (counts <= high))
        before = level
    return float(reached.sum())


@pytest.mark.parametrize("size", [3, 30, 100])
def test_the_band_holds_95_percent_of_uniform_sets(size):
    tolerance = 5 * np.sqrt(0.05 * 0.95 / SIMULATIONS)
    outside = 1 - _probability_inside(size)
    assert outside < 0.05 + tolerance
    if size >= 30:  # fewer numbers have too few curves to come near 5 %
        assert outside > 0.05 - tolerance


@pytest.mark.parametrize("shape", [(1.0, 1.0), (1.4, 1.0), (0.7, 0.7), (1.5, 1.5)])
def test_a_curve_leaves_the_band_where_the_p_value_is_at_most_5_percent(shape):
    generator = np.random.default_rng(0)
    lower, upper = ecdf_band(60)
    left = []
    for values in generator.beta(*shape, size=(300, 60)):
        shares = shares_below(values)
        outside = bool(((shares < lower - 1e-12) | (shares > upper + 1e-12)).any())
        assert outside == (Uniformity.of(values).p_value <= 0.05)
        left.append(outside)
    assert 0 < np.mean(left) < 0.95
    assert np.mean(left) > 0.2 or shape == (1.0, 1.0)  # it has the power to see what is not uniform


def test_p_values_of_uniform_sets_are_uniform():
    sets = np.random.default_rng(1).random((2000, 80))
    p_values = np.array([Uniformity.of(values).p_value for values in sets])
    for level in (0.05, 0.5):
        error = np.sqrt(level * (1 - level) * (1 / len(sets) + 1 / SIMULATIONS))
        assert np.mean(p_values <= level) == pytest.approx(level, abs=5 * error)


def test_what_is_at_a_percentile_is_below_it():
    shares = shares_below(np.array([0.7, 0.5, 0.5]))
    np.testing.assert_allclose(shares[[48, 49, 68, 69]], [0, 2 / 3, 2 / 3, 1])


def test_distance_and_its_floor():
    assert Uniformity.of(np.zeros(50)).distance == pytest.approx(0.5)
    assert Uniformity.of(np.ones(50)).distance == pytest.approx(0.5)
    assert Uniformity.of(np.full(50, 0.5)).distance == pytest.approx((2 * sum(range(1, 50)) + 50) / 9900)
    assert Uniformity.of((np.arange(1000) + 0.5) / 1000).distance < 1e-3
    for size in (7, 90):
        counts = np.arange(size + 1)[:, None]
        deviation = (np.abs(counts / size - LEVELS) * scipy.stats.binom.pmf(counts, size, LEVELS)).sum(axis=0)
        floor = Uniformity.of(np.full(size, 0.3)).floor
        assert floor == pytest.approx(deviation.mean(), rel=5 * 0.7 / np.sqrt(SIMULATIONS))


def test_the_p_value_is_the_smallest_tail_among_simulated_ones():
    # One number: it is conspicuous by its nearer end alone, so p = 2 min(u, 1 - u) on the grid of percentiles.
    for value, expected in ((0.005, 0.02), (0.105, 0.22), (0.905, 0.2)):
        found = Uniformity.of(np.array([value])).p_value
        assert found == pytest.approx(expected, abs=5 * np.sqrt(expected / SIMULATIONS) + 1e-4)
