"""Information theory of tables: the textbook's identities, brute force, SciPy and scikit-learn."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats
import sklearn.metrics

from diagnostics import information

GENERATOR = np.random.default_rng(0)
P, Q = GENERATOR.dirichlet(np.full(4, 0.5), (2, 20))
SPARSE = np.where(P < 0.1, 0.0, P) / np.where(P < 0.1, 0.0, P).sum(axis=-1, keepdims=True)
SURE, COIN = [1.0, 0.0], [0.5, 0.5]


def test_self_information_of_independent_events_adds_up():
    first, second = GENERATOR.random((2, 50))
    both = information.self_information(first * second)
    np.testing.assert_allclose(both, information.self_information(first) + information.self_information(second))
    np.testing.assert_array_equal(information.self_information([1.0, 0.0]), [0.0, np.inf])
    np.testing.assert_allclose(information.self_information([0.5, 0.125], unit="bits"), [1.0, 3.0])
    assert not np.signbit(information.self_information(1.0).value)


def test_entropy_is_that_of_scipy_in_both_units():
    np.testing.assert_allclose(information.entropy(SPARSE), scipy.stats.entropy(SPARSE, axis=-1))
    np.testing.assert_allclose(information.entropy(SPARSE, "bits"), scipy.stats.entropy(SPARSE, axis=-1, base=2))
    assert information.entropy(COIN, unit="bits") == 1.0
    assert information.entropy(SURE) == 0.0
    assert information.entropy(SPARSE).error.shape == (20,)
    assert not information.entropy(SPARSE).error.any()


def test_the_uniform_has_the_largest_entropy():
    uniform = np.full(4, 0.25)
    assert information.entropy(uniform) == pytest.approx(np.log(4))
    assert (information.entropy(P) < information.entropy(uniform)).all()
    np.testing.assert_allclose(np.log(4) - information.entropy(P), information.kl(P, uniform))


def test_entropy_of_independent_variables_adds_up():
    joint = (P[:, :, None] * Q[:, None, :]).reshape(20, 16)
    np.testing.assert_allclose(information.entropy(joint), information.entropy(P) + information.entropy(Q))


def test_cross_entropy_is_entropy_and_divergence():
    assert (SPARSE == 0).any()
    np.testing.assert_allclose(information.cross_entropy(SPARSE, Q), -(SPARSE * np.log(Q)).sum(axis=-1))
    np.testing.assert_allclose(
        information.cross_entropy(SPARSE, Q), information.entropy(SPARSE) + information.kl(SPARSE, Q)
    )
    np.testing.assert_allclose(information.cross_entropy(P, P), information.entropy(P))


def test_kl_is_that_of_scipy_and_not_symmetric():
    np.testing.assert_allclose(information.kl(SPARSE, Q), scipy.special.rel_entr(SPARSE, Q).sum(axis=-1))
    p, q = [0.36, 0.48, 0.16], [1 / 3, 1 / 3, 1 / 3]  # Binomial(2, 0.4) and the uniform
    assert information.kl(p, q) == pytest.approx(0.0852996, abs=1e-7)
    assert information.kl(q, p) == pytest.approx(0.0974550, abs=1e-7)
    assert information.kl([0.75, 0.25], COIN, unit="bits") == pytest.approx(1 - 0.8112781, abs=1e-7)
    assert (information.kl(P, Q) > 0).all()
    np.testing.assert_array_equal(information.kl(SPARSE, SPARSE), np.zeros(20))


def test_divergences_are_infinite_unless_p_is_possible_under_q():
    for divergence in (information.kl, information.chi_squared, information.cross_entropy):
        assert divergence(COIN, SURE) == np.inf
        assert np.isfinite(divergence(SURE, COIN))
    assert information.kl(SURE, COIN) == pytest.approx(np.log(2))
    assert information.kl(SURE, SURE) == information.cross_entropy(SURE, SURE) == 0
    assert information.chi_squared(SURE, SURE) == 0
    assert information.total_variation(SURE, [0.0, 1.0]) == 1


def test_total_variation_is_the_largest_difference_of_an_event():
    events = np.array(list(product([0, 1], repeat=4)))
    np.testing.assert_allclose(information.total_variation(P, Q), np.abs((P - Q) @ events.T).max(axis=-1))


def test_chi_squared_is_the_variance_of_the_ratio():
    expected = (Q * (SPARSE / Q - 1) ** 2).sum(axis=-1)
    np.testing.assert_allclose(information.chi_squared(SPARSE, Q), expected)
    close = np.array([0.5 + 1e-9, 0.5 - 1e-9])
    assert information.chi_squared(close, COIN) == pytest.approx(4e-18, rel=1e-6)


def test_the_inequalities_of_pinsker_and_of_jensen():
    assert (information.total_variation(P, Q) ** 2 <= information.kl(P, Q) / 2).all()
    assert (np.exp(information.kl(P, Q)) - 1 <= information.chi_squared(P, Q)).all()


def test_mutual_information_is_that_of_scikit_learn():
    counts = GENERATOR.integers(0, 5, (3, 4))
    joint = counts / counts.sum()
    expected = sklearn.metrics.mutual_info_score(None, None, contingency=counts)
    assert information.mutual_information(joint) == pytest.approx(expected)
    assert information.mutual_information(joint, "bits") == pytest.approx(expected / np.log(2))
    parts = information.entropy(joint.sum(axis=0)) + information.entropy(joint.sum(axis=1))
    assert information.mutual_information(joint) == pytest.approx(parts - information.entropy(joint.ravel()))


def test_mutual_information_of_the_independent_and_of_the_same():
    independent = P[:, :, None] * Q[:, None, :]
    np.testing.assert_allclose(information.mutual_information(independent), np.zeros(20), atol=1e-15)
    assert (information.mutual_information(independent) >= 0).all()
    same = np.stack([np.diag(row) for row in P])
    np.testing.assert_allclose(information.mutual_information(same), information.entropy(P))


def test_leading_axes_broadcast():
    assert information.kl(P, Q[0]).value.shape == (20,)
    assert information.total_variation(P[:, None], Q).value.shape == (20, 20)
    np.testing.assert_allclose(information.chi_squared(P[:, None], Q).value[3, 5], information.chi_squared(P[3], Q[5]))


def test_probabilities_in_float32_are_fine():
    logits = 5 * GENERATOR.normal(size=(50, 1000)).astype(np.float32)
    rounded = scipy.special.softmax(logits, axis=-1)
    exact = scipy.special.softmax(logits.astype(np.float64), axis=-1)
    assert rounded.dtype == np.float32
    np.testing.assert_allclose(information.entropy(rounded), scipy.stats.entropy(exact, axis=-1), rtol=1e-5)
    np.testing.assert_allclose(information.kl(rounded, exact), np.zeros(50), atol=1e-10)


BAD = {
    "a number": (
        lambda: information.entropy(0.5),
        ValueError,
        r"p must hold .* got shape \(\); those of a coin are \[1",
    ),
    "a sum": (
        lambda: information.entropy([0.5, 0.6]),
        ValueError,
        "p must sum to 1 over its last axis, got 1.1; divide",
    ),
    "one of many": (lambda: information.kl(P, Q * [[1.0]] * 2), ValueError, "q must sum to 1|q must be probabilities"),
    "negative": (
        lambda: information.entropy([1.5, -0.5]),
        ValueError,
        "p must be probabilities, 0 to 1, .* -0.5 to 1.5",
    ),
    "above 1": (lambda: information.self_information(1.5), ValueError, "p must be probabilities, 0 to 1, got .* 1.5"),
    "NaN": (lambda: information.entropy([np.nan, 1.0]), ValueError, "p must be finite, got NaN"),
    "text": (lambda: information.entropy(["a", "b"]), TypeError, "p must hold real numbers"),
    "outcomes": (lambda: information.kl(COIN, [1 / 3] * 3), ValueError, "must have the same outcomes, got 2 and 3"),
    "batches": (lambda: information.kl(P, Q[:3]), ValueError, r"batches that broadcast, got shapes \(20,\) and \(3,\)"),
    "unit": (lambda: information.entropy(COIN, "bit"), ValueError, "unit must be one of 'nats', 'bits'.*mean 'bits'"),
    "draws": (lambda: information.entropy(COIN, draws=10), ValueError, "draws must be at least 100"),
    "pairs": (lambda: information.mutual_information(COIN), ValueError, r"joint must be a table .* got shape \(2,\)"),
    "pairs' sum": (lambda: information.mutual_information([COIN, COIN]), ValueError, "joint must sum to 1"),
    "two kinds": (
        lambda: information.kl(COIN, dist.Bernoulli(0.5)),
        TypeError,
        "must both be .* list and BernoulliProbs",
    ),
    "outcome": (lambda: information.self_information(0.5, outcome=1), ValueError, "outcome is for a distribution"),
    "no outcome": (lambda: information.self_information(dist.Normal()), ValueError, "give outcome="),
    "masked": (lambda: information.entropy(dist.Normal().mask(np.array(True))), TypeError, "masked.*p.base_dist"),
    "improper": (
        lambda: information.kl(dist.Normal(), dist.ImproperUniform(dist.constraints.real, (), ())),
        TypeError,
        "q is a ImproperUniform, which is improper",
    ),
    "spaces": (
        lambda: information.kl(dist.Normal(), dist.Normal().expand([3]).to_event(1)),
        ValueError,
        r"over the same space, got event shapes \(\) and \(3,\); to_event",
    ),
    "distributions' batches": (
        lambda: information.kl(dist.Normal().expand([2]), dist.Normal().expand([3])),
        ValueError,
        r"batches that broadcast, got shapes \(2,\) and \(3,\)",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_can_not_be_measured_is_refused_by_name(case):
    call, error, message = BAD[case]
    with pytest.raises(error, match=message):
        call()
