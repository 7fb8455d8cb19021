"""Information theory of NumPyro distributions by draws: against quadrature, with the errors that are given."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro.distributions.kl import kl_divergence
from scipy.integrate import quad

from diagnostics import information
from inference.variational.masked_matrix import MaskedMatrix
from tests.helpers.scipy_densities import DRAWS, by_scipy, integral

MIXTURE = dist.MixtureSameFamily(dist.Categorical(jnp.array([0.992, 0.008])), dist.Normal(jnp.array([0.0, 8.0]), 1.05))

MONTE_CARLO = {
    "normal, Laplace": (dist.Normal(0.5, 1.0), dist.Laplace(0.0, 1.0)),
    "Laplace, Student-t": (dist.Laplace(0.0, 1.0), dist.StudentT(5.0, 0.5, 1.0)),
}


@pytest.mark.parametrize("case", MONTE_CARLO)
def test_draws_come_to_the_integral(case):
    p, q = MONTE_CARLO[case]
    ours, theirs = by_scipy(p), by_scipy(q)
    for measure, term in (
        (information.kl, scipy.special.rel_entr),
        (information.cross_entropy, lambda p, q: -scipy.special.xlogy(p, q)),
        (information.total_variation, lambda p, q: abs(p - q) / 2),
        (information.chi_squared, lambda p, q: (p - q) ** 2 / q),
    ):
        estimate = measure(p, q, draws=DRAWS)
        assert 0 < estimate.error < 0.1
        assert abs(estimate - integral(ours, theirs, term)) < 5 * estimate.error, measure.__name__


def test_the_error_of_draws_is_right():
    # 300 independent estimates of KL(Laplace(0, 1) || N(0, 2^2)) = log(2 sqrt(2 pi) / 2) - 1 + 1/4.
    p, q = dist.Laplace(0.0, 1.0), dist.Normal(0.0, 2.0).expand([300])
    expected = 0.5 * np.log(2 * np.pi) - 0.75
    estimate = information.kl(p, q, draws=DRAWS)
    scores = (estimate - expected) / estimate.error
    assert np.mean(scores**2) == pytest.approx(1.0, abs=5 * np.sqrt(2 / 300))
    assert len(np.unique(estimate)) == 300
    # The same as one event: the sum, and its error.
    joint = information.kl(p.expand([300]).to_event(1), q.to_event(1), draws=DRAWS)
    assert joint.error == pytest.approx(np.sqrt(np.sum(estimate.error**2)), rel=0.05)
    assert abs(joint - 300 * expected) < 5 * joint.error


def test_the_error_of_draws_from_both_is_right():
    # N(0, 1) and N(1, 1): TV = 2 Phi(1/2) - 1.
    p, q = dist.Normal(), dist.Normal(1.0, 1.0).expand([300])
    estimate = information.total_variation(p, q, draws=DRAWS)
    scores = (estimate - (2 * scipy.stats.norm.cdf(0.5) - 1)) / estimate.error
    assert np.mean(scores**2) == pytest.approx(1.0, abs=5 * np.sqrt(2 / 300))


def test_a_rare_difference_has_an_error():
    # Eight draws of Q in a thousand are where P is not: the terms, at most 1, have a variance however few they are.
    expected = quad(
        lambda x: abs(
            scipy.stats.norm.pdf(x)
            - 0.992 * scipy.stats.norm.pdf(x, 0, 1.05)
            - 0.008 * scipy.stats.norm.pdf(x, 8, 1.05)
        ) / 2,
        -10, 20, points=[-1, 0, 1, 4, 8], limit=200,
    )[0]  # fmt: skip
    estimate = information.total_variation(dist.Normal(), MIXTURE, draws=DRAWS)
    assert 0 < estimate.error < 0.01
    assert abs(estimate - expected) < 5 * estimate.error


def test_total_variation_of_products():
    # N(0, I) and N(m, I): TV = 2 Phi(|m| / 2) - 1, whatever the direction.
    p, q = dist.Normal(jnp.zeros(4), 1.0).to_event(1), dist.Normal(jnp.full(4, 0.5), 1.0).to_event(1)
    estimate = information.total_variation(p, q, draws=DRAWS)
    assert 0 < estimate.error < 0.02
    assert abs(estimate - (2 * scipy.stats.norm.cdf(0.5) - 1)) < 5 * estimate.error


def test_chi_squared_of_products():
    p, q = dist.Normal(jnp.zeros(2), 1.0), dist.Laplace(jnp.array([0.0, 0.5]), 1.0)
    one = information.chi_squared(p, q, draws=DRAWS)
    joint = information.chi_squared(p.to_event(1), q.to_event(1), draws=DRAWS)
    assert joint == pytest.approx(np.prod(1 + one) - 1)
    assert joint.error == pytest.approx((1 + joint) * np.hypot(*(one.error / (1 + one))))


def test_the_series_that_numpyro_cuts_off_is_not_used():
    # Kumaraswamy(1/2, 1/2) is the square of Beta(1, 1/2): by its quantiles, at 200,000 midpoints.
    p, q = dist.Kumaraswamy(0.5, 0.5), dist.Beta(1.0, 3.0)
    root = scipy.stats.beta(1.0, 0.5).ppf((np.arange(200_000) + 0.5) / 200_000)
    log_p = scipy.stats.beta(1.0, 0.5).logpdf(root) - np.log(2 * root)
    expected = np.mean(log_p - scipy.stats.beta(1.0, 3.0).logpdf(root**2))
    estimate = information.kl(p, q, draws=DRAWS)
    assert abs(estimate - expected) < 5 * estimate.error
    assert expected - float(kl_divergence(p, q)) > 0.5


def test_divergences_that_draws_can_not_tell_have_no_error():
    assert information.kl(dist.Cauchy(0.0, 1.0), dist.Normal(), draws=DRAWS).error == np.inf
    # Infinite, which no draw can show.
    assert information.chi_squared(dist.Laplace(0.0, 3.0), dist.Normal(), draws=DRAWS).error == np.inf


def test_draws_that_are_rounded_to_the_edge_of_the_support_are_an_error():
    for q in (dist.HalfNormal(1.0), dist.Normal()):
        with pytest.raises(FloatingPointError, match="edge of their support"):
            information.kl(dist.Gamma(5e-4, 1.0), q, draws=DRAWS)
    with pytest.raises(FloatingPointError, match="no density at all"):
        information.entropy(MaskedMatrix(jnp.ones((2, 3)), 0.8), draws=DRAWS)


def test_a_seed_decides_the_draws():
    p, q = dist.Laplace(0.0, 1.0), dist.Normal()
    first, again, key = (information.kl(p, q, draws=DRAWS, seed=seed) for seed in (1, 1, jax.random.key(1)))
    assert first.value == again.value == key.value
    assert first != information.kl(p, q, draws=DRAWS, seed=2)
    assert jax.dtypes.canonicalize_dtype(np.float64) == np.float32  # float64 inside, and nothing of it outside
