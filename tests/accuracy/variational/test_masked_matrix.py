"""Dropout's distribution of a weight matrix: moments, density, entropy and KL divergence."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.integrate
import scipy.stats
from numpyro.distributions.kl import kl_divergence

from inference.variational.masked_matrix import MaskedMatrix, mask_entropy, mask_information

KEEP, SIGMA = 0.7, 0.4
MATRIX = np.array([[0.5, -1.0, 0.2], [0.1, 0.0, -0.1], [2.0, 1.5, -3.0]])
PRIOR = dist.Normal(0.0, 1.5).expand((3, 3)).to_event(2)


def _matrix(per: str) -> MaskedMatrix:
    return MaskedMatrix(jnp.asarray(MATRIX), KEEP, SIGMA, per)


def _information(distance: float) -> float:
    """I(z; w) by SciPy's quadrature of h(t) - h(t | z), a formula other than the one in the code."""

    def density(t: float) -> float:
        return KEEP * scipy.stats.norm.pdf(t - distance) + (1 - KEEP) * scipy.stats.norm.pdf(t)

    entropy = scipy.integrate.quad(lambda t: -density(t) * np.log(density(t)), -12, distance + 12, limit=500)[0]
    return entropy - 0.5 * np.log(2 * np.pi * np.e)


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("per", ["unit", "weight"])
def test_draws_have_the_mean_and_the_variance(per):
    matrix = _matrix(per)
    draws = np.asarray(matrix.sample(jax.random.key(0), (40_000,)))
    z = (draws.mean(axis=0) - matrix.mean) / (draws.std(axis=0) / 200)
    assert np.abs(z).max() < 5
    squares = (draws - np.asarray(matrix.mean)) ** 2
    z = (squares.mean(axis=0) - matrix.variance) / (squares.std(axis=0) / 200)
    assert np.abs(z).max() < 5
    together = np.corrcoef(draws[:, 2, 0], draws[:, 2, 1])[0, 1]  # one mask for a unit's weights, or one for each
    assert together > 0.5 if per == "unit" else abs(together) < 5 / 200


@pytest.mark.parametrize("per", ["unit", "weight"])
def test_density_is_that_of_a_mixture(per):
    matrix, value = _matrix(per), MATRIX + 0.3
    kept = scipy.stats.norm(MATRIX, SIGMA).logpdf(value)
    dropped = scipy.stats.norm(0, SIGMA).logpdf(value)
    if per == "unit":
        kept, dropped = kept.sum(axis=1), dropped.sum(axis=1)
    expected = np.logaddexp(np.log(KEEP) + kept, np.log(1 - KEEP) + dropped).sum()
    np.testing.assert_allclose(matrix.log_prob(value), expected, rtol=1e-12)


@pytest.mark.parametrize("per", ["unit", "weight"])
def test_entropy_and_divergence_are_those_of_draws(per):
    matrix = _matrix(per)
    draws = matrix.sample(jax.random.key(1), (40_000,))
    log_density = jax.vmap(matrix.log_prob)(draws)
    z = (matrix.entropy() + log_density.mean()) / (log_density.std() / 200)
    assert abs(z) < 5
    gap = log_density - PRIOR.log_prob(draws)
    z = (kl_divergence(matrix, PRIOR) - gap.mean()) / (gap.std() / 200)
    assert abs(z) < 5


@pytest.mark.parametrize("distance", [0.0, 0.01, 0.5, 1.0, 3.0, 6.0, 12.0])
def test_what_a_row_tells_of_its_mask(distance):
    assert abs(float(mask_information(jnp.array(distance), KEEP)) - _information(distance)) < 1e-9


def test_the_papers_approximation_errs_by_what_overlapping_normals_hide():
    # The gap falls from H(keep), where the mask leaves no trace, to 0, where it can be read off.
    distances = jnp.array([1e-6, 0.3, 1.0, 2.0, 4.0, 8.0, 20.0])
    gaps = mask_entropy(KEEP) - mask_information(distances, KEEP)
    assert (np.diff(gaps) < 0).all()
    np.testing.assert_allclose(gaps[0], mask_entropy(KEEP), rtol=1e-9)
    assert gaps[-1] < 1e-12
    rows = MaskedMatrix(jnp.stack([distances * SIGMA, 0 * distances], axis=1), KEEP, SIGMA)
    np.testing.assert_allclose(rows.entropy(exact=False) - rows.entropy(), gaps.sum(), rtol=1e-6)


def test_divergence_from_a_unit_normal_is_the_papers_where_the_mask_shows():
    # keep/2 |m|^2 + K/2 (sigma^2 - 1 - log sigma^2) - H(keep), row by row.
    sigma, matrix = 1e-3, np.array([[0.5, -1.0], [0.7, 0.2]])
    rows = KEEP / 2 * (matrix**2).sum(axis=1) + 2 / 2 * (sigma**2 - 1 - np.log(sigma**2)) - float(mask_entropy(KEEP))
    unit = dist.Normal(0.0, 1.0).expand((2, 2)).to_event(2)
    np.testing.assert_allclose(kl_divergence(MaskedMatrix(jnp.asarray(matrix), KEEP, sigma), unit), rows.sum())


def test_other_priors_are_averaged_over_the_mask():
    laplace = dist.Laplace(0.0, 0.5).expand((3, 3)).to_event(2)
    one = scipy.stats.laplace(0, 0.5)
    expected = (KEEP * one.logpdf(MATRIX) + (1 - KEEP) * one.logpdf(0)).sum()
    np.testing.assert_allclose(MaskedMatrix(jnp.asarray(MATRIX), KEEP).expected_log_prob(laplace), expected)
    assert _matrix("unit").expected_log_prob(laplace) is None
    with pytest.raises(NotImplementedError, match="Laplace"):
        kl_divergence(_matrix("unit"), laplace)


@pytest.mark.parametrize("per", ["unit", "weight"])
@pytest.mark.parametrize("keep", [1.0, jnp.float32(1.0)])
def test_a_mask_that_drops_nothing_leaves_a_normal_matrix(per, keep):
    def divergence(matrix: jax.Array) -> jax.Array:
        return kl_divergence(MaskedMatrix(matrix, keep, SIGMA, per), PRIOR)

    def normal(matrix: jax.Array) -> jax.Array:
        return kl_divergence(dist.Normal(matrix, SIGMA).to_event(2), PRIOR)

    matrix = jnp.asarray(MATRIX)
    np.testing.assert_allclose(divergence(matrix), normal(matrix), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(divergence)(matrix), jax.grad(normal)(matrix), rtol=1e-6)
    density = jax.grad(lambda m: MaskedMatrix(m, keep, SIGMA, per).log_prob(1.1 * m + 0.1))(matrix)
    expected = jax.grad(lambda m: dist.Normal(m, SIGMA).log_prob(1.1 * m + 0.1).sum())(matrix)
    np.testing.assert_allclose(density, expected, rtol=1e-6, atol=1e-6)


def test_a_rate_that_falls_to_nothing_has_a_gradient():
    # A learned rate is the sigmoid of a logit, which is 0 to rounding far below 0.
    entropy = jax.grad(lambda logit: mask_entropy(jax.nn.sigmoid(-logit)))(jnp.float32(-200.0))
    assert entropy == 0
    information = jax.grad(lambda logit: mask_information(jnp.array(1.0), jax.nn.sigmoid(-logit)))(jnp.float32(-200.0))
    assert information == 0


def test_the_weights_of_a_channel_share_a_mask():
    """A kernel (places, channels, filters) is the matrix whose rows are its channels' weights."""
    generator = np.random.default_rng(5)
    kernel, value = (jnp.asarray(generator.normal(size=(3, 4, 2)), jnp.float32) for _ in range(2))
    as_rows = lambda array: jnp.moveaxis(array, 1, 0).reshape(4, 6)  # noqa: E731
    ours, rows = MaskedMatrix(kernel, 0.7, 0.4), MaskedMatrix(as_rows(kernel), 0.7, 0.4)
    assert ours.mask_shape == (1, 4, 1)
    np.testing.assert_allclose(ours.log_prob(value), rows.log_prob(as_rows(value)), rtol=1e-5)
    np.testing.assert_allclose(ours.entropy(), rows.entropy(), rtol=1e-5)
    prior = dist.Normal(0.0, 1.5)
    np.testing.assert_allclose(
        kl_divergence(ours, prior.expand((3, 4, 2)).to_event(3)),
        kl_divergence(rows, prior.expand((4, 6)).to_event(2)),
        rtol=1e-5,
    )
