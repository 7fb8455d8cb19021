"""The evidence lower bound where the evidence is known: the conjugate model, tempered or not, and a positive site."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.special
import scipy.stats
from scipy.integrate import quad

import inference
import models
from diagnostics.information import Elbo, elbo

X = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
Y = X.sum(axis=1)
TEMPERATURES = [(1.0, "posterior"), (0.3, "posterior"), (2.5, "likelihood")]
ROUNDING = 1e-5  # of a log density of about 100 in float32


def _log_joint(conjugate, weights):
    """Log-likelihood and log prior at some weights."""
    residual = conjugate.y.astype(np.float64) - conjugate.design @ weights
    return (
        scipy.stats.norm(0, conjugate.noise).logpdf(residual).sum(),
        scipy.stats.norm(0, conjugate.prior).logpdf(weights).sum(),
    )


def _log_normaliser(conjugate, temperature, tempering):
    """Log Z: at temperature 1 the log evidence, by Laplace's method, which is exact here."""
    mean, precision = conjugate.posterior(temperature, tempering)
    log_likelihood, log_prior = _log_joint(conjugate, mean)
    log_density = log_likelihood / temperature + log_prior / (temperature if tempering == "posterior" else 1.0)
    return log_density + 0.5 * len(mean) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]


def _guide(posterior):
    """Mean and standard deviations, the bias first."""
    sites = ("output.bias", "output.weight")
    parts = ("mean", "std")
    return [np.concatenate([posterior.guide[f"{s}.{p}"].ravel() for s in sites]).astype(np.float64) for p in parts]


def _kl_of_normals(mean, scale, other_mean, other_precision):
    """KL(N(mean, diag(scale^2)) || N(other))."""
    away = mean - other_mean
    trace = np.diag(other_precision) @ scale**2
    log_determinants = -np.linalg.slogdet(other_precision)[1] - 2 * np.log(scale).sum()
    return 0.5 * (trace + away @ other_precision @ away - len(mean) + log_determinants)


def test_the_log_evidence_of_the_conjugate_model(conjugate):
    """Of the tests' own formula: log N(y; 0, noise^2 I + prior^2 X X^T)."""
    covariance = (
        conjugate.noise**2 * np.eye(len(conjugate.y)) + conjugate.prior**2 * conjugate.design @ conjugate.design.T
    )
    expected = scipy.stats.multivariate_normal(np.zeros(len(conjugate.y)), covariance).logpdf(conjugate.y)
    assert _log_normaliser(conjugate, 1.0, "posterior") == pytest.approx(expected)


@pytest.mark.parametrize(("temperature", "tempering"), TEMPERATURES)
def test_the_evidence_is_the_bound_and_the_divergence(conjugate, temperature, tempering):
    posterior = conjugate.run(method="svi", start="random", steps=200, temperature=temperature, tempering=tempering)
    bound = elbo(posterior)
    gap = _kl_of_normals(*_guide(posterior), *conjugate.posterior(temperature, tempering))
    assert gap > 20 * bound.error  # the steps were too few to bring the guide to the posterior
    assert bound.error < 1
    assert abs(bound + gap - _log_normaliser(conjugate, temperature, tempering)) < 5 * bound.error


@pytest.mark.parametrize(("temperature", "tempering"), TEMPERATURES)
def test_the_bound_of_the_posterior_itself_is_the_evidence(conjugate, temperature, tempering):
    posterior = conjugate.run(method="laplace", temperature=temperature, tempering=tempering, draws=200)
    bound = elbo(posterior)
    assert bound.error < ROUNDING  # log p(D, w) - log q(w) is the same everywhere
    assert bound == pytest.approx(_log_normaliser(conjugate, temperature, tempering), abs=10 * ROUNDING)


@pytest.mark.parametrize(("temperature", "tempering"), TEMPERATURES)
def test_the_pieces_are_those_of_the_untempered_model(conjugate, temperature, tempering):
    posterior = conjugate.run(method="svi", steps=200, temperature=temperature, tempering=tempering)
    bound = elbo(posterior)
    mean, scale = _guide(posterior)
    log_likelihood, log_prior = _log_joint(conjugate, mean)
    expected = {
        "expected_log_likelihood": log_likelihood - 0.5 * np.sum((conjugate.design * scale) ** 2) / conjugate.noise**2,
        "expected_log_prior": log_prior - 0.5 * np.sum(scale**2) / conjugate.prior**2,
        "entropy": np.sum(np.log(scale)) + 0.5 * len(scale) * np.log(2 * np.pi * np.e),
        "kl": _kl_of_normals(mean, scale, np.zeros(4), np.eye(4) / conjugate.prior**2),
    }
    for name, value in expected.items():
        piece = getattr(bound, name)
        assert 0 < piece.error < 0.3, name
        assert abs(piece - value) < 5 * piece.error, name
    prior_temperature = temperature if tempering == "posterior" else 1.0
    together = (
        bound.expected_log_likelihood / temperature + bound.expected_log_prior / prior_temperature + bound.entropy
    )
    assert bound == pytest.approx(together, abs=10 * ROUNDING)
    assert bound.kl == pytest.approx(-bound.expected_log_prior - bound.entropy, abs=ROUNDING)


def _counts(y: np.ndarray) -> None:
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    with numpyro.plate("data", len(y)):
        numpyro.sample("y", dist.Poisson(rate), obs=y)


def test_a_positive_site_has_the_density_of_its_own_values():
    y = np.array([3, 1, 4, 2, 5])
    posterior = inference.run(_counts, y, method="svi", steps=100, draws=2000, progress=False)
    bound = elbo(posterior, y)
    mean, scale = float(posterior.guide["rate.mean"]), float(posterior.guide["rate.std"])
    guide = scipy.stats.lognorm(scale, scale=np.exp(mean))  # of the rate, whose logarithm is normal
    prior = scipy.stats.gamma(2.0)
    after = scipy.stats.gamma(2.0 + y.sum(), scale=1 / (1.0 + len(y)))
    log_evidence = float(prior.logpdf(1.0) + scipy.stats.poisson(1.0).logpmf(y).sum() - after.logpdf(1.0))

    def expected(function):
        lower, upper = guide.ppf(1e-12), guide.isf(1e-12)
        return quad(lambda w: guide.pdf(w) * function(w), lower, upper, points=[guide.median()], limit=200)[0]

    values = {
        "expected_log_likelihood": expected(lambda w: scipy.stats.poisson(w).logpmf(y).sum()),
        "expected_log_prior": expected(prior.logpdf),
        "entropy": float(guide.entropy()),
        "kl": expected(lambda w: guide.logpdf(w) - prior.logpdf(w)),
    }
    for name, value in values.items():
        piece = getattr(bound, name)
        assert abs(piece - value) < 5 * piece.error, name
        assert piece.error < 0.1
    gap = expected(lambda w: guide.logpdf(w) - after.logpdf(w))
    assert gap > 10 * bound.error
    assert abs(bound + gap - log_evidence) < 5 * bound.error


def test_inferred_noise_and_scales_need_no_arguments():
    # The bound is minus the loss, which is a noisy estimate of it at the last steps, all near the same guide.
    model = models.mlp((3,), "tanh", prior=models.Hierarchical(), likelihood=models.Gaussian())
    posterior = inference.run(model, X, Y, method="svi", steps=300, draws=500, progress=False)
    bound = elbo(posterior)
    loss = posterior.curves["loss"][0, -100:]
    assert abs(bound + loss.mean()) < 5 * np.hypot(bound.error, loss.std() / 10)
    assert bound == pytest.approx(bound.expected_log_likelihood - bound.kl, abs=1e-3)
    with_data = elbo(posterior, X, Y)
    assert with_data.kl == pytest.approx(bound.kl.value, abs=1e-6)


def test_the_record_is_an_estimate():
    posterior = inference.run(models.linear(), X, Y + X[:, 0] ** 2, method="svi", steps=50, draws=200, progress=False)
    bound = elbo(posterior)
    assert isinstance(bound, Elbo)
    assert float(bound) == bound.value
    assert f"{bound:.2f}" == f"{bound.value:.2f}"
    with pytest.raises(AttributeError):
        bound.kl = 0.0
    assert jax.dtypes.canonicalize_dtype(np.float64) == np.float32


def test_what_has_no_bound_is_refused(conjugate):
    y = np.array([3, 1, 4, 2, 5])
    posterior = conjugate.run(method="svi", steps=200)
    statistics = posterior.statistics
    changed = {
        'method="map" gives a posterior of kind "point"; run method="svi"': replace(posterior, method=inference.MAP()),
        'method="nuts" gives a posterior of kind "chains"': replace(posterior, method=inference.NUTS()),
        "this one is singular: .* dropout with sigma above 0": conjugate.run(
            method="svi", guide="dropout", steps=20, draws=30
        ),
        'singular: .* "diagonal" for laplace': replace(posterior, statistics={"lp": statistics["lp"]}),
        'hyperparameters="evidence" has multiplied its standard deviations by 0': conjugate.run(
            method="laplace", steps=20, draws=30, hyperparameters="evidence"
        ),
        "lost when they were changed, as by pruning": inference.prune(posterior, 0.5),
        "at least 2 of them, got 1": replace(
            posterior,
            draws={name: values[:, :1] for name, values in posterior.draws.items()},
            statistics={name: values[:, :1] for name, values in statistics.items()},
        ),
        "needs the arguments of a model that is not a network": inference.run(
            _counts, y, method="svi", steps=100, draws=2000, progress=False
        ),
    }
    for message, refused in changed.items():
        with pytest.raises(ValueError, match=message):
            elbo(refused)
