"""Laplace's approximation where the answer is known: linear models, closed-form information, brute-force Hessians."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.stats
from jax.flatten_util import ravel_pytree
from numpyro import handlers

import data
import inference
import models
from inference.binding import bind
from inference.curvature import gauss_newton, prior_curvature, residuals

Z = 5.0
TEMPERATURES = pytest.mark.parametrize(
    ("temperature", "tempering"), [(1.0, "posterior"), (0.4, "posterior"), (2.5, "likelihood")]
)


def _check_normal(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """z-tests of independent draws: means, and the entries of the covariance by Wishart's errors."""
    n, deviation = len(draws), np.sqrt(np.diag(covariance))
    z = (draws.mean(axis=0) - mean) / deviation * np.sqrt(n)
    assert np.abs(z).max() < Z, f"means: {np.round(z, 1)}"
    error = np.sqrt((covariance**2 + np.outer(np.diag(covariance), np.diag(covariance))) / n)
    z = (np.cov(draws.T) - covariance) / error
    assert np.abs(z).max() < Z, f"covariances: {np.round(z, 1)}"


def _log_evidence(conjugate, factor: float = 1.0) -> float:
    gram = conjugate.design @ conjugate.design.T
    covariance = conjugate.noise**2 * np.eye(len(conjugate.y)) + (factor * conjugate.prior) ** 2 * gram
    return scipy.stats.multivariate_normal(np.zeros(len(conjugate.y)), covariance).logpdf(conjugate.y)


def test_evidence_and_importance_weights_of_a_linear_model(conjugate):
    posterior = conjugate.run(method="laplace", draws=200)
    statistics = {name: values[0].astype(float) for name, values in posterior.statistics.items()}
    expected = _log_evidence(conjugate)
    np.testing.assert_allclose(statistics["log_evidence"], expected, atol=1e-4)
    # The normal is the posterior, so every draw's weight is the evidence.
    np.testing.assert_allclose(statistics["lp"] - statistics["guide_log_density"], expected, atol=2e-4)


def _small(likelihood=None, prior=None, rows=23):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 2)).astype(np.float32)
    model = models.mlp((3,), "tanh", prior=prior or models.Normal(1.0), likelihood=likelihood or models.Gaussian(0.5))
    y = generator.integers(0, 3, rows) if model.likelihood.classes else np.sin(x[:, 0]).astype(np.float32)
    return model, x, y


@pytest.mark.parametrize(
    "likelihood",
    [models.Gaussian(), models.HeteroscedasticGaussian(), models.Categorical(3)],
    ids=["gaussian", "heteroscedastic", "categorical"],
)
@pytest.mark.parametrize("prior", [models.Normal(1.0), models.Hierarchical()], ids=["normal", "hierarchical"])
def test_predictions_are_those_of_the_network_linearised_at_the_mode(likelihood, prior, tmp_path):
    model, x, y = _small(likelihood, prior)
    posterior = inference.run(model, x, y, method="laplace", steps=300, draws=7, progress=False)
    new = np.random.default_rng(1).normal(size=(5, 2)).astype(np.float32)
    sites = [name for name in posterior.draws if name not in posterior.deterministic and name != "noise"]
    positive = [name for name in sites if name.endswith(".scale")]  # coordinates of these are logarithms

    def heads(position):
        values = {name: jnp.exp(u) if name in positive else u for name, u in position.items()}
        return handlers.substitute(model.heads, data=values)(new)

    mode = {name: jnp.asarray(posterior.guide[f"{name}.mean"]) for name in sites}
    for i in range(7):
        drawn = {name: posterior.draws[name][0, i] for name in sites}
        away = {name: (np.log(drawn[name]) if name in positive else drawn[name]) - mode[name] for name in sites}
        value, slope = jax.jvp(heads, (mode,), (away,))
        expected = likelihood.link(value + slope)
        np.testing.assert_allclose(posterior.predict(new).outputs[0, i], expected, rtol=2e-4, atol=2e-4)
    posterior.save(tmp_path / "p.npz")
    loaded = inference.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(loaded.predict(new).outputs, posterior.predict(new).outputs)


def test_the_last_layer_is_linear_and_the_others_stay_at_the_mode():
    model, x, y = _small(models.Gaussian())
    runs = [
        inference.run(
            model, x, y, method="laplace", structure="last_layer", steps=300, draws=5, linearised=how, progress=False
        )
        for how in (None, False)
    ]
    np.testing.assert_allclose(*(run.predict(x).outputs for run in runs), rtol=1e-4, atol=1e-5)
    assert runs[0].predict(x).epistemic.min() > 0
    for name, values in runs[0].draws.items():
        assert (np.ptp(values, axis=1) == 0).all() == name.startswith("hidden0.")
    assert "guide_log_density" not in runs[0].statistics  # a draw has no density over all weights


def test_sampled_weights_go_through_the_network_itself():
    model, x, y = _small()
    posterior = inference.run(model, x, y, method="laplace", steps=300, draws=4, linearised=False, progress=False)
    draw = {name: jnp.asarray(values[0, 2]) for name, values in posterior.draws.items()}
    expected = handlers.substitute(model.outputs, data=draw)(x)
    np.testing.assert_allclose(posterior.predict(x).outputs[0, 2], expected, rtol=1e-5, atol=1e-6)


@TEMPERATURES
def test_a_transformed_site_has_the_mode_and_curvature_of_its_coordinate(temperature, tempering):
    y = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 0.9])

    def model(y=None):
        sigma = numpyro.sample("sigma", dist.Gamma(2.0, 1.0))
        with numpyro.plate("rows", 6):
            numpyro.sample("y", dist.Normal(0.0, sigma), obs=y)

    def minus_log_prior(u):
        return -scipy.stats.gamma(2.0).logpdf(np.exp(u)) / (temperature if tempering == "posterior" else 1) - u

    def minus_log_density(u):
        return minus_log_prior(u) - scipy.stats.norm(0, np.exp(u)).logpdf(y).sum() / temperature

    mode = scipy.optimize.minimize_scalar(minus_log_density, bounds=(-3, 3), options={"xatol": 1e-10}).x
    bend = (minus_log_prior(mode + 1e-3) - 2 * minus_log_prior(mode) + minus_log_prior(mode - 1e-3)) / 1e-6
    precision = 2 * len(y) / temperature + bend
    posterior = inference.run(
        model, y, method="laplace", draws=20_000, temperature=temperature, tempering=tempering, progress=False
    )
    _check_normal(np.log(posterior.draws["sigma"][0].astype(float))[:, None], np.array([mode]), np.eye(1) / precision)


@pytest.mark.validate
def test_evidence_is_as_good_as_hmc_where_the_plain_mode_overfits():
    train, test = data.load("diabetes").split(seed=0)
    model = models.mlp((20,), "tanh")
    score = {}
    for how in ({"hyperparameters": "given"}, {"hyperparameters": "evidence"}, {}):
        method = "laplace" if how else "hmc"
        prediction = inference.run(model, train, method=method, progress=False, **how).predict(test)
        score[how.get("hyperparameters", "hmc")] = prediction.log_prob(test.y).mean()
    print(score)
    assert score["given"] < score["hmc"] - 1
    assert abs(score["evidence"] - score["hmc"]) < 0.05


BAD = {
    "structure": ({"structure": "kron"}, "structure must be one of"),
    "draws": ({"draws": 0}, "draws must be"),
    "hyperparameters": ({"hyperparameters": "best"}, "hyperparameters must be one of"),
    "hot evidence": ({"hyperparameters": "evidence", "temperature": 2.0}, "needs temperature=1"),
    "batch": ({"batch_size": 1000}, "at most the number of rows"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options(case):
    options, message = BAD[case]
    model, x, y = _small()
    with pytest.raises(ValueError, match=message):
        inference.run(model, x, y, method="laplace", progress=False, **options)


def test_a_matrix_that_does_not_fit_is_refused_with_its_size():
    wide = models.mlp((500, 500), "tanh")
    with pytest.raises(ValueError, match=r"over 252,502 weights is a matrix of 510\.\d GB.*diagonal"):
        inference.run(wide, np.zeros((4, 2)), np.zeros(4), method="laplace", progress=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": "last_layer"}, "needs a network of models"),
        ({"linearised": True}, "needs a network of models"),
        ({"hyperparameters": "evidence"}, "needs a network of models"),
        ({}, "'y' is a Gamma, whose Fisher information is not known"),
    ],
)
def test_models_of_the_users_that_can_not_be_done(options, message):
    def model(y=None):
        rate = numpyro.sample("rate", dist.LogNormal(0, 1))
        numpyro.sample("y", dist.Gamma(2.0, rate) if not options else dist.Normal(rate, 1.0), obs=y)

    with pytest.raises(ValueError, match=message):
        inference.run(model, np.float32(1.0), method="laplace", progress=False, **options)


def test_a_weight_that_nothing_determines_is_an_error():
    model, x, y = _small(prior=models.Flat())
    with pytest.raises(FloatingPointError, match="not positive definite"):
        inference.run(model, np.zeros_like(x), y, method="laplace", steps=20, draws=5, progress=False)
