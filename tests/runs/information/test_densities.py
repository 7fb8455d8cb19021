"""Information theory of NumPyro distributions: closed forms, sums and supports against quadrature and SciPy."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro.distributions import transforms
from numpyro.distributions.kl import kl_divergence

from diagnostics import information
from inference.variational.masked_matrix import MaskedMatrix
from tests.helpers.scipy_densities import DRAWS, by_scipy, integral

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
    assert estimate == pytest.approx(float(by_scipy(p).entropy()), rel=1e-6)


KLS = [
    (dist.Normal(0.0, 1.0), dist.Normal(1.0, 2.0)), (dist.Beta(2.0, 3.0), dist.Beta(1.0, 4.0)),
    (dist.Gamma(2.0, 3.0), dist.Gamma(3.0, 1.0)), (dist.Weibull(2.0, 1.5), dist.Gamma(3.0, 1.0)),
    (dist.LogNormal(0.0, 0.5), dist.LogNormal(0.5, 0.7)),
]  # fmt: skip


@pytest.mark.parametrize(("p", "q"), KLS, ids=lambda p: type(p).__name__)
def test_divergences_in_closed_form_are_the_integral(p, q):
    estimate = information.kl(p, q)
    assert estimate.error == 0
    expected = integral(by_scipy(p), by_scipy(q), scipy.special.rel_entr)
    assert estimate == pytest.approx(expected, rel=1e-6)
    both = information.cross_entropy(p, q)
    assert both.error == 0
    assert both == pytest.approx(float(by_scipy(p).entropy()) + expected, rel=1e-6)


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
        integral(scipy.stats.norm(m, s), scipy.stats.norm(0, t), lambda p, q: (p - q) ** 2 / q)
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


def test_self_information_of_an_outcome():
    np.testing.assert_allclose(
        information.self_information(dist.Normal(0.0, 2.0), outcome=[0.0, 1.0]), -scipy.stats.norm(0, 2).logpdf([0, 1])
    )
    assert information.self_information(dist.Uniform(0.0, 1.0), outcome=3.0) == np.inf
    assert information.self_information(dist.Bernoulli(0.25), "bits", outcome=1) == pytest.approx(2.0)
