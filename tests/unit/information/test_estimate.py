"""Averages with an error: is it the right one, and is it missing where there is none?"""

from __future__ import annotations

import numpy as np
import pytest

from diagnostics.information.estimate import Estimate, average

GENERATOR = np.random.default_rng(0)
N = 10_000


def test_an_estimate_works_as_its_value():
    estimate = Estimate(np.array([1.0, 4.0]), np.array([0.1, 0.2]))
    np.testing.assert_array_equal(estimate + estimate, [2.0, 8.0])
    np.testing.assert_array_equal(2 * estimate - 1, [1.0, 7.0])
    np.testing.assert_array_equal(np.sqrt(estimate), [1.0, 2.0])
    np.testing.assert_array_equal(estimate > 2, [False, True])
    assert type(estimate + 1) is np.ndarray  # the errors of two estimates may depend on each other
    number = Estimate.exact(0.5)
    assert float(number) == 0.5 == number
    assert number == pytest.approx(0.5)
    assert f"{number:.3f}" == "0.500"
    assert f"{number}" == str(number) == repr(number)
    doubled = Estimate(3.0, 0.5).times(2.0)
    assert (doubled.value, doubled.error) == (6.0, 1.0)


def test_the_error_is_how_far_averages_are_off():
    # 400 averages of 1,000 terms: their squared z-scores have mean 1 and standard error sqrt(2 / 400).
    estimate = average(GENERATOR.exponential(2.0, (1000, 400)))
    scores = (estimate.value - 2.0) / estimate.error
    assert np.mean(scores**2) == pytest.approx(1.0, abs=5 * np.sqrt(2 / 400))


HEAVY = {
    "Cauchy": GENERATOR.standard_cauchy(N),
    "squares of Cauchy": GENERATOR.standard_cauchy(N) ** 2,
    "minus those": -(GENERATOR.standard_cauchy(N) ** 2),
    "squares of Student-t with 3 degrees": GENERATOR.standard_t(3, N) ** 2,
    "Zipf": GENERATOR.zipf(1.8, N),
    "one for all": np.exp(np.where(np.arange(N) == 7, 800.0, 0.0) - 100.0),
}
LIGHT = {
    "normal": GENERATOR.normal(size=N),
    "squares of normals": GENERATOR.normal(size=N) ** 2,
    "log-normal": np.exp(GENERATOR.normal(size=N)),
    "two values": (GENERATOR.random(N) < 0.01).astype(float),
    "few counts": GENERATOR.poisson(0.02, N),
    "eight of many": (np.arange(N) < 8).astype(float),
    "counts": GENERATOR.poisson(3.0, N),
    "bounded, often at the bound": np.minimum(GENERATOR.random(N), 0.6),
    "a pile and a few beyond it": np.where(np.arange(N) % 100, -(GENERATOR.normal(size=N) ** 2), GENERATOR.random(N)),
}


@pytest.mark.parametrize("case", HEAVY)
def test_terms_without_a_variance_have_no_error(case):
    estimate = average(HEAVY[case])
    assert estimate.error == np.inf
    assert np.isfinite(estimate.value)


@pytest.mark.parametrize("case", LIGHT)
def test_terms_with_a_variance_have_one(case):
    estimate = average(LIGHT[case])
    assert estimate.error == pytest.approx(np.std(LIGHT[case], ddof=1) / np.sqrt(N))


def test_columns_are_judged_alone():
    terms = np.stack([HEAVY["Cauchy"], LIGHT["normal"], np.full(N, 3.0), LIGHT["counts"]], axis=1).reshape(N, 2, 2)
    estimate = average(terms)
    np.testing.assert_array_equal(np.isinf(estimate.error), [[True, False], [False, False]])
    assert estimate.error[1, 0] == 0


def test_what_is_the_same_but_for_rounding_has_no_tail():
    terms = np.full(N, np.log(3.0))
    terms[0] = np.nextafter(terms[0], 4)
    assert average(terms).error < 1e-15


def test_bounded_terms_have_a_variance_in_any_case():
    terms = np.append(GENERATOR.random(999) * 1e-6, 1.0)
    assert average(terms).error == np.inf
    assert average(terms, bounded=True).error == pytest.approx(1e-3, rel=0.01)


def test_one_infinite_term_is_enough():
    terms = np.stack([np.where(np.arange(N) == 5, np.inf, 1.0), np.ones(N)], axis=1)
    estimate = average(terms)
    np.testing.assert_array_equal(estimate.value, [np.inf, 1.0])
    np.testing.assert_array_equal(estimate.error, [0.0, 0.0])


def test_terms_that_are_too_large_are_not_known_to_be_infinite():
    estimate = average(np.where(np.arange(N) % 2, 1.5e308, 1e308))
    assert (estimate.value, estimate.error) == (np.inf, np.inf)


def test_a_term_that_is_no_number_is_an_error():
    with pytest.raises(FloatingPointError, match=r"0\.1% of the draws have no log density"):
        average(np.where(np.arange(1000) == 3, np.nan, 1.0))
