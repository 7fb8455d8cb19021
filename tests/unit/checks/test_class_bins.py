"""Bins, calibration errors and the parts of the Brier score, against exact sums and other libraries."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from diagnostics.checks.class_bins import BINS, Bins, Brier, CalibrationErrors, equal_mass
from inference.results.scores import calibration_error

SIMULATIONS = 1000  # behind every floor and p-value


def _probabilities(n: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and labels that follow others."""
    generator = np.random.default_rng(seed)
    probs = generator.dirichlet(np.full(classes, 0.7), size=n)
    truth = 0.6 * probs + 0.4 * generator.dirichlet(np.ones(classes), size=n)
    return probs, np.array([generator.choice(classes, p=row) for row in truth])


def _two_groups(first: int, second: int, sizes: tuple[int, int] = (40, 25)) -> tuple[np.ndarray, np.ndarray]:
    """Confidence 0.6 in 40 rows and 0.9 in 25, or in other numbers of them, of which so many are right."""
    probs = np.repeat([[0.4, 0.6], [0.1, 0.9]], sizes, axis=0)
    return probs, np.concatenate([np.arange(sizes[0]) < first, np.arange(sizes[1]) < second]).astype(int)


def test_equal_width_is_the_score():
    probs, labels = _probabilities(400, 3)
    assert CalibrationErrors.of(probs, labels).equal_width == pytest.approx(calibration_error(probs, labels))


def test_equal_mass_by_brute_force():
    probs, labels = _probabilities(150, 4)
    confidence, hit = probs.max(axis=1), probs.argmax(axis=1) == labels
    order = np.argsort(confidence)
    expected = sum(abs((hit - confidence)[some].sum()) for some in np.split(order, BINS)) / 150
    assert CalibrationErrors.of(probs, labels).equal_mass == pytest.approx(expected)


def test_equal_mass_keeps_equal_values_together():
    assert equal_mass(np.repeat([0.9, 0.5, 0.7], [3, 3, 6]), 4).tolist() == [3] * 3 + [0] * 3 + [1] * 6
    assert np.bincount(equal_mass(np.arange(1, 31) / 30, 15)).tolist() == [2] * 15
    probs, labels = _probabilities(101, 3)
    shuffled = np.random.default_rng(0).permutation(101)
    rounded = probs.round(1)
    mixed = CalibrationErrors.of(rounded[shuffled], labels[shuffled]).equal_mass
    assert mixed == pytest.approx(CalibrationErrors.of(rounded, labels).equal_mass)


@pytest.mark.parametrize(("hits", "sizes"), [((29, 20), (40, 25)), ((2, 2), (3, 2))])
def test_floor_and_p_value_are_those_of_two_binomials(hits, sizes):
    found = CalibrationErrors.of(*_two_groups(*hits, sizes))

    def total(a: int, b: int) -> float:
        return (abs(a - 0.6 * sizes[0]) + abs(b - 0.9 * sizes[1])) / sum(sizes)

    observed = total(*hits)
    assert found.equal_width == pytest.approx(observed)
    mean = square = tail = 0.0
    for a, b in product(*(range(size + 1) for size in sizes)):
        weight = scipy.stats.binom.pmf(a, sizes[0], 0.6) * scipy.stats.binom.pmf(b, sizes[1], 0.9)
        error = total(a, b)
        mean, square = mean + weight * error, square + weight * error**2
        tail += weight * (error >= observed - 1e-9)
    spread = 5 * np.sqrt((square - mean**2) / SIMULATIONS)
    assert found.floor == pytest.approx(mean, abs=spread)
    assert found.floor_equal_mass == pytest.approx(mean, abs=spread)  # two values make two bins of either kind
    assert found.p_value == pytest.approx(tail, abs=5 * np.sqrt(tail * (1 - tail) / SIMULATIONS) + 1e-3)


def test_many_rows_are_simulated_in_blocks(monkeypatch):
    monkeypatch.setattr("diagnostics.checks.class_bins._BLOCK", 65 * 7)  # 7 sets at a time, and 6 at the end
    found = CalibrationErrors.of(*_two_groups(29, 20))
    monkeypatch.undo()
    assert found == CalibrationErrors.of(*_two_groups(29, 20))


def test_bins_have_counts_means_and_wilson_intervals():
    bins = Bins.of(*_two_groups(first=29, second=25))
    assert bins.count.tolist() == [40, 25]
    np.testing.assert_allclose(bins.confidence, [0.6, 0.9])
    np.testing.assert_allclose(bins.accuracy, [29 / 40, 1.0])
    for i, (hits, count) in enumerate(((29, 40), (25, 25))):
        interval = scipy.stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
        assert (bins.lower[i], bins.upper[i]) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_brier_parts_add_up_and_are_those_of_their_definitions(classes):
    probs, labels = _probabilities(300, classes)
    parts = Brier.of(probs, labels)
    assert parts.score == pytest.approx(parts.reliability - parts.resolution + parts.uncertainty + parts.within)
    if classes == 2:
        assert parts.score == pytest.approx(2 * sklearn.metrics.brier_score_loss(labels, probs[:, 1]))
    reliability = resolution = uncertainty = 0.0
    for k in range(classes):
        happened = labels == k
        uncertainty += happened.var()
        for lower in range(BINS):
            some = (probs[:, k] > lower / BINS) & (probs[:, k] <= (lower + 1) / BINS)
            if some.any():
                reliability += some.mean() * (probs[some, k].mean() - happened[some].mean()) ** 2
                resolution += some.mean() * (happened[some].mean() - happened.mean()) ** 2
    assert parts.reliability == pytest.approx(reliability)
    assert parts.resolution == pytest.approx(resolution)
    assert parts.uncertainty == pytest.approx(uncertainty)


def test_brier_is_murphys_where_a_bin_holds_one_probability():
    parts = Brier.of(*_two_groups(first=29, second=20))
    assert parts.within == pytest.approx(0, abs=1e-15)
    rate = 49 / 65
    assert parts.reliability == pytest.approx(2 * (40 * (0.6 - 29 / 40) ** 2 + 25 * (0.9 - 0.8) ** 2) / 65)
    assert parts.resolution == pytest.approx(2 * (40 * (29 / 40 - rate) ** 2 + 25 * (0.8 - rate) ** 2) / 65)
    assert parts.uncertainty == pytest.approx(2 * rate * (1 - rate))


def test_brier_of_the_base_rates_is_the_uncertainty():
    labels = np.repeat([0, 1, 2], [10, 30, 60])
    parts = Brier.of(np.tile([0.1, 0.3, 0.6], (100, 1)), labels)
    assert parts.score == pytest.approx(parts.uncertainty)
    assert (parts.reliability, parts.resolution, parts.within) == pytest.approx((0, 0, 0), abs=1e-15)
