"""Information theory of NumPyro distributions: closed forms, sums and draws against quadrature and SciPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro.distributions import transforms
from numpyro.distributions.kl import kl_divergence
from scipy.integrate import quad

from diagnostics import information
from inference.masks import MaskedMatrix

MATRIX = np.array([[1.5, 0.4], [0.4, 0.8]])
PLANE = dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3))
SIMPLEX = dist.Dirichlet(jnp.ones(3))
STRETCHED = dist.TransformedDistribution(  # on (2, 5)
    dist.Uniform(0.0, 1.0, validate_args=False), transforms.AffineTransform(2.0, 3.0), validate_args=False
)
MIXTURE = dist.MixtureSameFamily(dist.Categorical(jnp.array([0.992, 0.008])), dist.Normal(jnp.array([0.0, 8.0]), 1.05))
HALVES = dist.MixtureGeneral(dist.Categorical(jnp.array([0.5, 0.5])), [dist.Uniform(0.0, 1.0), dist.Uniform(1.0, 2.0)])
NOISELESS, PRIOR = MaskedMatrix(jnp.ones((2, 3)), 0.8), dist.Normal().expand([2, 3]).to_event(2)
HALF = np.array([1.0, 1.0]) / 2
DRAWS = 1000  # in all tests: programs are compiled for each number of them


def _scipy(distribution: Any) -> Any:
    """The same by SciPy."""
    made = {
        dist.Normal: lambda d: scipy.stats.norm(d.loc, d.scale),
        dist.Laplace: lambda d: scipy.stats.laplace(d.loc, d.scale),
        dist.Logistic: lambda d: scipy.stats.logistic(d.loc, d.scale),
        dist.Beta: lambda d: scipy.stats.beta(d.concentration1, d.concentration0),
        dist.Gamma: lambda d: scipy.stats.gamma(d.concentration, scale=1 / d.rate),
        dist.InverseGamma: lambda d: scipy.stats.invgamma(d.concentration, scale=d.rate),
        dist.Weibull: lambda d: scipy.stats.weibull_min(d.concentration, scale=d.scale),
        dist.StudentT: lambda d: scipy.stats.t(d.df, d.loc, d.scale),
        dist.LogNormal: lambda d: scipy.stats.lognorm(d.scale, scale=np.exp(d.loc)),
        dist.Uniform: lambda d: scipy.stats.uniform(d.low, d.high - d.low),
        dist.Pareto: lambda d: scipy.stats.pareto(d.alpha, scale=d.scale),
        dist.Levy: lambda d: scipy.stats.levy(d.loc, d.scale),
        dist.GeometricProbs: lambda d: scipy.stats.geom(d.probs, loc=-1),
        dist.Dirichlet: lambda d: scipy.stats.dirichlet(np.asarray(d.concentration)),
        dist.MultivariateNormal: lambda d: scipy.stats.multivariate_normal(d.loc, d.covariance_matrix),
    }
    return made[type(distribution)](distribution)


def _integral(p: Any, q: Any, term: Any) -> float:
    """The integral of a term of two densities, over where either is."""
    lower, upper = min(p.ppf(1e-14), q.ppf(1e-14)), max(p.isf(1e-14), q.isf(1e-14))
    points = [float(d.ppf(level)) for d in (p, q) for level in (0.01, 0.25, 0.5, 0.75, 0.99)]
    return quad(lambda x: term(p.pdf(x), q.pdf(x)), lower, upper, points=sorted(points), limit=400)[0]


ENTROPIES = [
    dist.Normal(1.0, 3.0), dist.Laplace(1.0, 2.0), dist.Logistic(1.0, 2.0), dist.Beta(2.0, 3.0), dist.Gamma(2.0, 3.0),
    dist.InverseGamma(3.0, 2.0), dist.Weibull(2.0, 1.5), dist.StudentT(4.0, 1.0, 2.0), dist.LogNormal(0.3, 0.5),
    dist.Uniform(-1.0, 3.0), dist.Pareto(1.5, 4.0), dist.Levy(0.0, 1.5), dist.GeometricProbs(0.3),
    dist.Dirichlet(jnp.array([1.0, 2.0, 3.0])), dist.MultivariateNormal(jnp.zeros(2), jnp.asarray(MATRIX)),
]  # fmt: skip


@pytest.mark.parametrize("p", ENTROPIES, ids=lambda p: type(p).__name__)
def test_entropies_in_closed_form_are_those_of_scipy(p):
    estimate = information.entropy(p)
    assert estimate.error == 0
    assert estimate == pytest.approx(float(_scipy(p).entropy()), rel=1e-6)


KLS = [
    (dist.Normal(0.0, 1.0), dist.Normal(1.0, 2.0)), (dist.Beta(2.0, 3.0), dist.Beta(1.0, 4.0)),
    (dist.Gamma(2.0, 3.0), dist.Gamma(3.0, 1.0)), (dist.Weibull(2.0, 1.5), dist.Gamma(3.0, 1.0)),
    (dist.LogNormal(0.0, 0.5), dist.LogNormal(0.5, 0.7)),
]  # fmt: skip


@pytest.mark.parametrize(("p", "q"), KLS, ids=lambda p: type(p).__name__)
def test_divergences_in_closed_form_are_the_integral(p, q):
    estimate = information.kl(p, q)
    assert estimate.error == 0
    expected = _integral(_scipy(p), _scipy(q), scipy.special.rel_entr)
    assert estimate == pytest.approx(expected, rel=1e-6)
    both = information.cross_entropy(p, q)
    assert both.error == 0
    assert both == pytest.approx(float(_scipy(p).entropy()) + expected, rel=1e-6)


def test_a_common_transform_changes_no_divergence():
    estimate = information.kl(dist.InverseGamma(2.0, 3.0), dist.InverseGamma(3.0, 1.0))
    assert estimate.error == 0
    assert estimate == information.kl(dist.Gamma(2.0, 3.0), dist.Gamma(3.0, 1.0))
    base = dist.Normal(0.0, 1.0), dist.Normal(1.0, 1.0)
    moved = [dist.TransformedDistribution(one, transforms.AffineTransform(1.0, -2.0)) for one in base]
    assert information.kl(*moved) == 0.5
    other = dist.TransformedDistribution(base[1], transforms.AffineTransform(3.0, -2.0))  # is moved[0]
    estimate = information.kl(moved[0], other, draws=DRAWS)
    assert abs(estimate) < 1e-12


def test_a_divergence_of_large_parameters_is_not_lost_to_rounding():
    p, q = dist.Gamma(1e5, 1.0), dist.Gamma(1e5 + 100.0, 1.0)  # terms of 1e6, in float32 each off by 0.06
    expected = scipy.special.gammaln(1e5 + 100) - scipy.special.gammaln(1e5) - 100 * scipy.special.digamma(1e5)
    assert information.kl(p, q) == pytest.approx(expected, rel=1e-5)
    assert information.kl(p, p) == 0


def test_multivariate_normals_and_products():
    q = dist.MultivariateNormal(jnp.ones(2), 2 * jnp.eye(2))
    p = dist.MultivariateNormal(jnp.zeros(2), jnp.asarray(MATRIX))
    expected = 0.5 * (np.trace(MATRIX) / 2 + 2 / 2 - 2 + np.log(4 / np.linalg.det(MATRIX)))
    assert information.kl(p, q) == pytest.approx(expected, rel=1e-6)
    scales = jnp.array([1.0, 2.0, 3.0])
    first, second = dist.Normal(0.0, scales), dist.Normal(1.0, 1.0).expand([3])
    for measure in (information.kl, information.cross_entropy):
        joint, each = measure(first.to_event(1), second.to_event(1)), measure(first, second)
        assert each.value.shape == (3,)
        assert joint == pytest.approx(each.value.sum())
    assert information.entropy(first.to_event(1), "bits") == pytest.approx(
        information.entropy(first).value.sum() / np.log(2)
    )


def test_batches_broadcast_and_events_are_summed():
    p, q = dist.Normal(jnp.zeros((2, 1, 3)), 1.0).to_event(1), dist.Normal(jnp.ones((4, 3)), 2.0).to_event(1)
    estimate = information.kl(p, q)
    np.testing.assert_allclose(estimate.value, np.full((2, 4), 3 * (np.log(2) + 0.25 - 0.5)), rtol=1e-6)
    assert estimate.error.shape == (2, 4)


def test_chi_squared_of_normals():
    p, q = (
        dist.Normal(jnp.array([0.0, 1.0, 0.0]), jnp.array([1.0, 0.5, 3.0])),
        dist.Normal(0.0, jnp.array([1.0, 0.8, 2.0])),
    )
    expected = [
        _integral(scipy.stats.norm(m, s), scipy.stats.norm(0, t), lambda p, q: (p - q) ** 2 / q)
        for m, s, t in ((0.0, 1.0, 1.0), (1.0, 0.5, 0.8))
    ]
    np.testing.assert_allclose(information.chi_squared(p, q), [*expected, np.inf], rtol=1e-6, atol=1e-12)
    joint = information.chi_squared(
        dist.Normal(jnp.array([0.3, 1.0]), 0.5).to_event(1), dist.Normal(jnp.zeros(2), 0.8).to_event(1)
    )
    one = information.chi_squared(dist.Normal(jnp.array([0.3, 1.0]), 0.5), dist.Normal(0.0, 0.8))
    assert joint == pytest.approx(np.prod(1 + one) - 1)


def test_outcomes_that_can_be_counted_are_a_table():
    probabilities = np.array([[0.1, 0.2, 0.7], [0.3, 0.0, 0.7]])
    p = dist.Categorical(probs=jnp.asarray(probabilities))
    q = dist.Categorical(logits=jnp.log(jnp.array([0.2, 0.5, 0.3])))
    n, coin = 6, dist.Binomial(6, jnp.array([0.3, 0.6]))
    table = scipy.stats.binom(n, np.array([[0.3], [0.6]])).pmf(np.arange(n + 1))
    fair = dist.Binomial(n, 0.5)
    uniform = scipy.stats.binom(n, 0.5).pmf(np.arange(n + 1))
    for measure in (information.kl, information.cross_entropy, information.total_variation, information.chi_squared):
        for pair, tables in (
            ((p, q), (probabilities, [0.2, 0.5, 0.3])),
            ((coin, fair), (table, uniform)),
            ((fair, coin), (uniform, table)),
        ):
            estimate = measure(*pair)
            np.testing.assert_allclose(estimate, measure(*tables), rtol=1e-5)
            assert not estimate.error.any()
    np.testing.assert_allclose(information.entropy(coin), information.entropy(table), rtol=1e-5)
    np.testing.assert_allclose(information.entropy(p, "bits"), information.entropy(probabilities, "bits"), rtol=1e-6)


def test_what_q_can_do_and_p_can_not_counts_too():
    p, q = dist.Bernoulli(0.5), dist.Poisson(1.0)
    mass = scipy.stats.poisson(1.0).pmf([0, 1])
    assert information.total_variation(p, q) == pytest.approx((np.abs(0.5 - mass).sum() + 1 - mass.sum()) / 2)
    assert information.chi_squared(p, q) == pytest.approx((0.25 / mass).sum() - 1)
    assert information.kl(p, q) == pytest.approx(scipy.special.rel_entr(0.5, mass).sum())


def test_a_probability_too_small_for_a_number_is_not_0():
    p, q = dist.Categorical(logits=jnp.array([0.0, -1000.0])), dist.Categorical(logits=jnp.array([-1000.0, 0.0]))
    assert information.kl(p, q) == pytest.approx(1000.0)


def test_events_of_several_outcomes_add_up():
    p, q = dist.Bernoulli(jnp.array([0.2, 0.9])), dist.Bernoulli(0.5).expand([2])
    assert information.kl(p.to_event(1), q.to_event(1)) == pytest.approx(information.kl(p, q).value.sum())
    # Not so the total variation: over the four outcomes of both together.
    joint = np.outer([0.8, 0.2], [0.1, 0.9]).ravel()
    estimate = information.total_variation(p.to_event(1), q.to_event(1), draws=DRAWS)
    assert estimate.error > 0
    assert abs(estimate - information.total_variation(joint, np.full(4, 0.25))) < 5 * estimate.error


# P has mass where Q has none: by how little does not matter, nor whether a draw shows it.
APART = {
    "a point and a density": (dist.Delta(0.3), dist.Normal()),
    "a density and a point": (dist.Normal(), dist.Delta(0.3)),
    "two points": (dist.Delta(0.3), dist.Delta(0.4)),
    "a simplex in space": (SIMPLEX, PLANE),
    "space and a simplex": (PLANE, SIMPLEX),
    "a sphere in space": (dist.ProjectedNormal(jnp.ones(3)), PLANE),
    "masks without noise": (NOISELESS, PRIOR),
    "counts and a density": (dist.Poisson(3.0), dist.Gamma(3.0, 1.0)),
    "no draw is below 0": (dist.Normal(50.0, 1.0), dist.HalfNormal(1.0)),
    "no draw is above 1": (dist.Uniform(0.0, 1.0 + 1e-6), dist.Uniform(0.0, 1.0)),
    "without validation": (dist.Uniform(0.0, 3.0), dist.Uniform(0.0, 1.0, validate_args=False)),
    "a batch": (dist.Normal().expand([2]).to_event(1), dist.HalfNormal(jnp.ones(2)).to_event(1)),
    "never heads": (dist.Bernoulli(0.5), dist.Bernoulli(0.0)),
    "always heads": (dist.Bernoulli(0.5), dist.Bernoulli(1.0)),
    "always three heads": (dist.Binomial(3, 0.5), dist.Binomial(3, 1.0)),
    "a class with probability 0": (dist.Categorical(HALF), dist.Categorical(jnp.array([1.0, 0.0]))),
    "a class too many": (dist.Categorical(jnp.ones(3) / 3), dist.Categorical(HALF)),
    "counts without end": (dist.Poisson(0.01), dist.Binomial(40, 0.5)),
    "several classes": (dist.Multinomial(2, HALF), dist.Multinomial(2, jnp.array([1.0, 0.0]))),
    "draws below 0, without validation": (MIXTURE, dist.Exponential(1.0, validate_args=False)),
    "a stretched interval": (dist.Uniform(2.0, 6.0), STRETCHED),
    "a mixture's other half": (HALVES, dist.Uniform(0.0, 1.0)),
    "beside a mixture": (dist.Uniform(0.0, 3.0), HALVES),
}


@pytest.mark.parametrize("case", APART)
def test_divergences_are_infinite_unless_p_is_possible_under_q(case):
    p, q = APART[case]
    for divergence in (information.kl, information.chi_squared, information.cross_entropy):
        estimate = divergence(p, q, draws=DRAWS)
        assert (estimate.value, estimate.error) == (np.inf, 0.0), divergence.__name__


def test_each_of_a_batch_is_infinite_or_not():
    estimate = information.kl(dist.Uniform(0.0, jnp.array([0.5, 1.0 + 1e-6])), dist.Uniform(0.0, 1.0), draws=DRAWS)
    np.testing.assert_allclose(estimate.value, [np.log(2), np.inf], rtol=1e-7)
    assert (estimate.error < 1e-12).all()


def test_numpyro_itself_would_not_say_so():
    assert np.isfinite(kl_divergence(*APART["a point and a density"]))
    assert np.isfinite(kl_divergence(NOISELESS, PRIOR))
    assert np.isfinite(APART["always heads"][1].log_prob(0))
    assert np.isfinite(APART["without validation"][1].log_prob(2.0))


def test_what_is_apart_has_a_total_variation_of_1():
    for case in ("a point and a density", "a simplex in space", "counts and a density"):
        assert information.total_variation(*APART[case]) == 1
    estimate = information.total_variation(dist.Uniform(0.0, 1.0), dist.Uniform(2.0, 3.0), draws=DRAWS)
    assert (estimate.value, estimate.error) == (1.0, 0.0)


def test_points_are_outcomes():
    assert information.kl(dist.Delta(jnp.array([0.0, 1.0])), dist.Delta(jnp.array([0.0, 1.0]))).value.tolist() == [0, 0]
    assert information.entropy(dist.Delta(jnp.ones(3), event_dim=1)) == 0
    assert information.kl(dist.Delta(1.0), dist.Categorical(jnp.array([0.25, 0.75]))) == pytest.approx(-np.log(0.75))


def test_the_other_way_round_is_finite():
    # log p - log q is the same at every draw, so that their average has no error but rounding.
    for p, q, expected in (
        (dist.HalfNormal(1.0), dist.Normal(), np.log(2)),
        (dist.Uniform(0.0, 1.0), HALVES, np.log(2)),
        (dist.Uniform(0.0, 2.0), HALVES, 0.0),
        (dist.Uniform(2.0, 3.0), STRETCHED, np.log(3)),
        (STRETCHED, dist.Uniform(1.0, 7.0), np.log(2)),
        (dist.Bernoulli(1.0), dist.Bernoulli(0.5), np.log(2)),
    ):
        estimate = information.kl(p, q, draws=DRAWS)
        assert estimate == pytest.approx(expected, rel=1e-7, abs=1e-12)
        assert estimate.error < 1e-12
    assert information.entropy(STRETCHED, "bits", draws=DRAWS) == pytest.approx(np.log2(3))


MONTE_CARLO = {
    "normal, Laplace": (dist.Normal(0.5, 1.0), dist.Laplace(0.0, 1.0)),
    "Laplace, Student-t": (dist.Laplace(0.0, 1.0), dist.StudentT(5.0, 0.5, 1.0)),
}


@pytest.mark.parametrize("case", MONTE_CARLO)
def test_draws_come_to_the_integral(case):
    p, q = MONTE_CARLO[case]
    ours, theirs = _scipy(p), _scipy(q)
    for measure, term in (
        (information.kl, scipy.special.rel_entr),
        (information.cross_entropy, lambda p, q: -scipy.special.xlogy(p, q)),
        (information.total_variation, lambda p, q: abs(p - q) / 2),
        (information.chi_squared, lambda p, q: (p - q) ** 2 / q),
    ):
        estimate = measure(p, q, draws=DRAWS)
        assert 0 < estimate.error < 0.1
        assert abs(estimate - _integral(ours, theirs, term)) < 5 * estimate.error, measure.__name__


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
        information.entropy(NOISELESS, draws=DRAWS)


def test_self_information_of_an_outcome():
    np.testing.assert_allclose(
        information.self_information(dist.Normal(0.0, 2.0), outcome=[0.0, 1.0]), -scipy.stats.norm(0, 2).logpdf([0, 1])
    )
    assert information.self_information(dist.Uniform(0.0, 1.0), outcome=3.0) == np.inf
    assert information.self_information(dist.Bernoulli(0.25), "bits", outcome=1) == pytest.approx(2.0)


def test_a_seed_decides_the_draws():
    p, q = dist.Laplace(0.0, 1.0), dist.Normal()
    first, again, key = (information.kl(p, q, draws=DRAWS, seed=seed) for seed in (1, 1, jax.random.key(1)))
    assert first.value == again.value == key.value
    assert first != information.kl(p, q, draws=DRAWS, seed=2)
    assert jax.dtypes.canonicalize_dtype(np.float64) == np.float32  # float64 inside, and nothing of it outside
