"""Curvature where it is known: information by its definition, by rows and by events; Hessians; factors of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.linalg
from jax.flatten_util import ravel_pytree
from numpyro import handlers

import models
from inference.laplace.evidence import Scales
from inference.laplace.gauss_newton import determined, gauss_newton, prior_curvature, residuals, separable
from inference.laplace.mode import Mode, Surface
from inference.laplace.precision_factor import Factor
from inference.target.binding import bind


def _information(make, parameters: np.ndarray) -> np.ndarray:
    """J'J of the residuals of one observation, in its parameters."""

    def model(y=None):
        a = numpyro.sample("a", dist.Normal(0, 1).expand([len(parameters)]).to_event(1))
        numpyro.sample("y", make(a), obs=y)

    discrete = make(jnp.asarray(parameters)).support.is_discrete
    bound = bind(model, (np.int32(1) if discrete else np.float32(1.0),), 1.0, "posterior")
    position = {"a": jnp.asarray(parameters, jnp.float32)}
    jacobian = jax.jit(jax.jacobian(lambda p: residuals(bound.target, p, bound.data)))(position)["a"]
    return np.asarray(jacobian).T @ np.asarray(jacobian)


def _scores_squared(make, parameters: np.ndarray, values: np.ndarray, width: float) -> np.ndarray:
    """The definition: the expectation of the outer product of the score, by a sum over outcomes."""

    def log_prob(a, y):
        return make(a).log_prob(y)

    @jax.jit
    def expected(a, y):
        scores = jax.vmap(jax.grad(log_prob), (None, 0))(a, y)
        weights = jnp.exp(jax.vmap(log_prob, (None, 0))(a, y)) * width
        return jnp.einsum("n,ni,nj->ij", weights, scores, scores)

    with jax.enable_x64(True):
        return np.asarray(expected(np.asarray(parameters, np.float64), values))


FINE = np.linspace(-400, 400, 800_001)
POSITIVE = np.linspace(1e-6, 60, 600_001)


@pytest.mark.parametrize(
    ("make", "parameters", "values", "width"),
    [
        (lambda a: dist.Normal(a[0], jnp.exp(0.5 * a[1])), [0.3, -0.4], FINE, 1e-3),
        (lambda a: dist.StudentT(4.0, a[0], jnp.exp(a[1])), [0.3, -0.4], FINE, 1e-3),
        (lambda a: dist.LogNormal(a[0], jnp.exp(a[1])), [-0.3, -0.7], POSITIVE, 1e-4),
        (lambda a: dist.Exponential(jnp.exp(a[0])), [0.2], POSITIVE, 1e-4),
        (lambda a: dist.Poisson(jnp.exp(a[0] + 2 * a[1])), [0.5, 0.3], np.arange(60), 1.0),
        (lambda a: dist.Categorical(logits=a), [0.5, -0.3, 1.0], np.arange(3), 1.0),
        (lambda a: dist.Categorical(probs=jax.nn.softmax(a)), [0.5, -0.3, 1.0], np.arange(3), 1.0),
        (lambda a: dist.Bernoulli(logits=3 * a[0]), [0.4], np.arange(2), 1.0),
        (lambda a: dist.Binomial(7, logits=3 * a[0]), [0.4], np.arange(8), 1.0),
        (lambda a: dist.Binomial(7, probs=jax.nn.sigmoid(a[0] - a[1])), [0.4, 0.2], np.arange(8), 1.0),
    ],
    ids=[
        "normal",
        "student",
        "lognormal",
        "exponential",
        "poisson",
        "logits",
        "probs",
        "bernoulli",
        "binomial logits",
        "binomial",
    ],
)
def test_information_is_that_of_the_scores(make, parameters, values, width):
    ours, exact = _information(make, parameters), _scores_squared(make, parameters, values, width)
    np.testing.assert_allclose(ours, exact, rtol=2e-4, atol=1e-5)


def test_heteroscedastic_information_is_that_of_mean_and_log_variance():
    ours = _information(lambda a: dist.Normal(a[0], jnp.exp(0.5 * a[1])), [0.3, -0.4])
    np.testing.assert_allclose(ours, np.diag([np.exp(0.4), 0.5]), rtol=1e-5, atol=1e-6)


def test_gauss_newton_is_the_hessian_of_logistic_regression_and_blocks_change_nothing(monkeypatch):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(23, 2)).astype(np.float32), generator.integers(0, 3, 23)
    bound = bind(models.logistic(3), (x, y), 1.0, "posterior")
    position = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.1), bound.target.position(bound.data))
    flat, unravel = ravel_pytree(position)
    hessian = jax.hessian(lambda flat: bound.target.terms(unravel(flat), bound.data).log_likelihood)
    exact = -np.asarray(jax.jit(hessian)(flat))

    def compiled(diagonal):
        return jax.jit(lambda p: gauss_newton(bound.target, bound.data, p, {}, diagonal=diagonal))(position)

    ours = compiled(False)
    np.testing.assert_allclose(ours, exact, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(compiled(True), np.diag(exact), rtol=1e-4, atol=1e-4)
    monkeypatch.setattr("inference.laplace.gauss_newton._BLOCK", 10 * flat.size)  # 3 rows at a time, then 2
    np.testing.assert_allclose(compiled(False), ours, rtol=1e-6)


ROWS, WIDTH = 4, 3
LOGITS = np.array([0.5, -0.3, 1.0])
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum()
OF_CLASS = np.diag(PROBS) - np.outer(PROBS, PROBS)  # the information of one observation
OF_COIN = PROBS[0] * (1 - PROBS[0]) * np.diag([1.0, 0, 0])
COIN = np.log(PROBS[0] / (1 - PROBS[0])) - LOGITS[0]
WEIGHTS, MASK = np.array([4.0, 3.0, 2.0, 1.0], np.float32), np.array([True, False, True, True])


def _rows(rows, distribution):
    """Rows that share parameters, whose distribution may have events."""
    with numpyro.plate("rows", rows):
        return numpyro.sample("y", distribution, obs=jnp.zeros((rows, *distribution.event_shape), _kind(distribution)))


def _kind(distribution):
    return jnp.int32 if distribution.support.is_discrete else jnp.float32


def _bare(rows, distribution):
    """Rows without a plate: what is observed has more of them than the distribution's batch."""
    shape = (rows, *distribution.batch_shape, *distribution.event_shape)
    numpyro.sample("y", distribution, obs=jnp.zeros(shape, _kind(distribution)))


def _normals(a):
    return dist.Normal(a, 0.5).to_event(1)


CASES = {
    "coins": (lambda a: _rows(5, dist.Bernoulli(logits=a[0] + COIN)), 5 * OF_COIN),
    "as many coins as sides": (lambda a: _rows(2, dist.Bernoulli(logits=a[0] + COIN)), 2 * OF_COIN),
    "classes": (lambda a: _rows(6, dist.Categorical(logits=a)), 6 * OF_CLASS),
    "as many rows as classes": (lambda a: _rows(3, dist.Categorical(logits=a)), 3 * OF_CLASS),
    "vectors": (lambda a: _rows(5, _normals(a)), 5 * np.eye(3) / 0.25),
    "as many vectors as entries": (lambda a: _rows(3, _normals(a)), 3 * np.eye(3) / 0.25),
    "rates": (lambda a: _rows(5, dist.Poisson(jnp.exp(a[0]))), 5 * np.exp(0.5) * np.diag([1.0, 0, 0])),
    "masked vectors": (lambda a: handlers.mask(_rows, MASK)(4, _normals(a)), 3 * np.eye(3) / 0.25),
    "masked square": (lambda a: handlers.mask(_rows, MASK[:3])(3, _normals(a)), 2 * np.eye(3) / 0.25),
    "masked classes": (lambda a: handlers.mask(_rows, MASK[:3])(3, dist.Categorical(logits=a)), 2 * OF_CLASS),
    "weighted vectors": (lambda a: handlers.scale(_rows, WEIGHTS)(4, _normals(a)), 10 * np.eye(3) / 0.25),
    "weighted square": (lambda a: handlers.scale(_rows, WEIGHTS[:3])(3, _normals(a)), 9 * np.eye(3) / 0.25),
    "unequal counts": (lambda a: _rows(3, dist.Binomial(np.array([10, 20, 30]), logits=a[0] + COIN)), 60 * OF_COIN),
    "coins without a plate": (lambda a: _bare(5, dist.Bernoulli(logits=a[0] + COIN)), 5 * OF_COIN),
    "classes without a plate": (lambda a: _bare(6, dist.Categorical(logits=a)), 6 * OF_CLASS),
    "a batch without a plate": (lambda a: _bare(5, dist.Normal(a, 0.5)), 5 * np.eye(3) / 0.25),
    "vectors without a plate": (lambda a: _bare(3, _normals(a)), 3 * np.eye(3) / 0.25),
    "rates without a plate": (lambda a: _bare(5, dist.Poisson(jnp.exp(a[0]))), 5 * np.exp(0.5) * np.diag([1.0, 0, 0])),
    "masked without a plate": (lambda a: handlers.mask(_bare, MASK)(4, _normals(a)), 3 * np.eye(3) / 0.25),
    "weighted without a plate": (lambda a: handlers.scale(_bare, WEIGHTS)(4, _normals(a)), 10 * np.eye(3) / 0.25),
    "a class that can't be": (
        lambda a: _rows(3, dist.Categorical(logits=jnp.concatenate([a, jnp.full(1, -jnp.inf)]))),
        3 * OF_CLASS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_rows_that_share_parameters_add_up(case):
    observe, exact = CASES[case]

    def model(unused):
        observe(numpyro.sample("a", dist.Normal(0, 1).expand([3]).to_event(1)))

    position = {"a": jnp.asarray(LOGITS, jnp.float32)}
    with numpyro.validation_enabled(False):  # which has no infinite logits
        bound = bind(model, (np.float32(0),), 1.0, "posterior")
        ours = jax.jit(lambda position: gauss_newton(bound.target, bound.data, position, {}, diagonal=False))(position)
    np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=1e-5)


def _coupled(tight: float):
    """mu ~ N(0, 1), theta ~ N(mu, 0.5), beside a site that has nothing to do with them, as the last or the first."""

    def model(y=None):
        mu = numpyro.sample("b", dist.Normal(0.0, 1.0))
        theta = numpyro.sample("c", dist.Normal(mu, 0.5))
        for name in "ad":
            numpyro.sample(name, dist.Normal(0.0, tight))
        with numpyro.plate("rows", 4):
            numpyro.sample("y", dist.Normal(theta, 1.0), obs=y)

    return model, np.array([[5.0, -4.0], [-4.0, 4.0 + 4.0]])


@pytest.mark.parametrize("tight", [1.0, 1e-3])
@pytest.mark.parametrize("structure", ["full", "diagonal"])
def test_sites_that_depend_on_each_other_are_coupled_whatever_the_scale_of_others(structure, tight):
    model, two = _coupled(tight)
    bound = bind(model, (np.ones(4, np.float32),), 1.0, "posterior")
    position = {name: jnp.float32(0.3) for name in "abcd"}
    surface = Surface(bound.target, bound.data, structure, by_evidence=False)
    ours = jax.jit(surface.precision)(Mode(position, Scales.as_given(position)))
    exact = scipy.linalg.block_diag(tight**-2, two, tight**-2)
    np.testing.assert_allclose(ours, exact if structure == "full" else np.diag(exact), rtol=1e-5)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("partner", [1, 2])
def test_prior_curvature_is_the_hessian_of_coupled_coordinates(diagonal, partner):
    flat = jnp.array([0.3, -1.2, 0.7])
    entangled = lambda w: -jnp.square(w[0]) * jnp.exp(w[partner]) - jnp.square(w[3 - partner])  # noqa: E731
    exact = -np.asarray(jax.jit(jax.hessian(entangled))(flat))
    ours = jax.jit(lambda flat: prior_curvature(entangled, flat, diagonal, separable=False))(flat)
    np.testing.assert_allclose(ours, np.diag(exact) if diagonal else exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("diagonal", [True, False])
def test_the_tails_of_a_separable_prior_have_no_curvature(diagonal):
    flat = jnp.array([0.3, -1.2, 0.7])
    tails = lambda w: jnp.sum(dist.StudentT(3.0, 0.0, 0.5).log_prob(w))  # noqa: E731
    exact = -np.diag(jax.jit(jax.hessian(tails))(flat))
    assert exact.min() < 0 < exact.max()
    expected = np.maximum(exact, 0)
    ours = jax.jit(lambda flat: prior_curvature(tails, flat, diagonal, separable=True))(flat)
    np.testing.assert_allclose(ours, expected if diagonal else np.diag(expected), rtol=1e-5, atol=1e-6)


def _funnel():
    return numpyro.sample("w", dist.Normal(0.0, numpyro.sample("s", dist.HalfNormal(1.0))))


def _constants():
    return numpyro.sample("w", dist.StudentT(3.0, jnp.zeros(2), jnp.exp(jnp.ones(2))))


def _vector():
    return numpyro.sample("w", dist.MultivariateNormal(jnp.zeros(2), jnp.array([[2.0, 1.0], [1.0, 2.0]])))


@pytest.mark.parametrize(("sites", "expected"), [(_funnel, False), (_constants, True), (_vector, False)])
def test_a_prior_is_separable_by_its_structure(sites, expected):
    def model(y=None):
        numpyro.sample("y", dist.Normal(jnp.sum(sites()), 1.0), obs=y)

    bound = bind(model, (np.float32(1.0),), 1.0, "posterior")
    assert separable(bound.target, bound.data, bound.target.position(bound.data)) is expected


@pytest.mark.parametrize(
    "prior",
    [models.Normal(), models.Hierarchical(), models.ScaleMixture(0.5, 1.0, 0.1), models.Flat(), dist.StudentT(3.0)],
)
def test_priors_of_networks_are_separable(prior):
    bound = bind(models.mlp((3,), prior=prior), (np.zeros((4, 2)), np.zeros(4)), 1.0, "posterior")
    assert separable(bound.target, bound.data, bound.target.position(bound.data))


def test_what_a_residual_determines_is_its_share_of_the_trace(monkeypatch):
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(7, 2)).astype(np.float32), generator.normal(size=(7, 2)).astype(np.float32)
    bound = bind(models.linear(models.Normal(), models.Gaussian(outputs=2)), (x, y), 1.0, "posterior")
    position = {name: jnp.full(leaf.shape, 0.1) for name, leaf in bound.target.position(bound.data).items()}
    monkeypatch.setattr("inference.laplace.gauss_newton._BLOCK", 3 * 4 * 8)  # 3 rows at a time, then 1
    compiled = jax.jit(lambda wide: determined(bound.target, bound.data, position, {}, wide))
    design = np.column_stack([np.ones(7), x]) / np.exp(0.1)
    covariance = np.cov(generator.normal(size=(8, 20)))
    # In the order of the coordinates: noise, bias, weight.
    jacobian = np.zeros((4, 7, 8))
    for output in (0, 1):
        jacobian[output][:, [2 + output, 4 + output, 6 + output]] = design
        jacobian[2 + output][:, output] = np.sqrt(2)
    expected = np.einsum("kni,ij,knj->k", jacobian, covariance, jacobian)
    with jax.enable_x64(True):
        wide = jnp.asarray(covariance)
    np.testing.assert_allclose(compiled(wide), expected, rtol=1e-5)
    with jax.enable_x64(True):
        wide = jnp.diagonal(wide)
    expected = np.einsum("kni,i,kni->k", jacobian, np.diag(covariance), jacobian)
    np.testing.assert_allclose(compiled(wide), expected, rtol=1e-5)


def test_factors_of_a_matrix_in_any_units():
    generator = np.random.default_rng(0)
    units = 10.0 ** np.array([-8, -3, 0, 4, 8])
    precision = np.cov(generator.normal(size=(5, 30))) * np.outer(units, units)
    vector = generator.normal(size=5).astype(np.float32)
    with jax.enable_x64(True):
        both = Factor.of(jnp.asarray(precision)), Factor.of(jnp.asarray(np.diag(precision)))
    for factor, matrix in zip(both, (precision, np.diag(np.diag(precision))), strict=True):
        np.testing.assert_allclose(factor.half_log_determinant, 0.5 * np.linalg.slogdet(matrix)[1], rtol=1e-10)
        solved = factor.spread(factor.whitened(jnp.asarray(vector)))
        np.testing.assert_allclose(solved * units, np.linalg.solve(matrix, vector) * units, rtol=1e-4)
        square = jnp.sum(jnp.square(factor.spread(jnp.asarray(vector)) * units))
        root = np.linalg.cholesky(matrix)  # P = R R', so that R'^-1 z is a draw
        np.testing.assert_allclose(square, np.sum((np.linalg.solve(root.T, vector) * units) ** 2), rtol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_what_only_rounding_determines_is_not_determined(seed):
    generator = np.random.default_rng(seed)
    columns = generator.normal(size=(50, 3)).astype(np.float32)
    mixed = (columns @ generator.normal(size=3).astype(np.float32))[:, None]  # exact up to float32
    jacobian = np.column_stack([columns, mixed]).astype(np.float64)
    with jax.enable_x64(True):
        assert np.isnan(Factor.of(jnp.asarray(jacobian.T @ jacobian)).half_log_determinant)
        little = jnp.asarray(jacobian.T @ jacobian + 1e-6 * np.eye(4))  # a prior that says something
        assert np.isfinite(Factor.of(little).half_log_determinant)
        assert np.isnan(Factor.of(jnp.array([1.0, 0.0])).half_log_determinant)
