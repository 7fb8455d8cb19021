"""Laplace's approximation where the answer is known: linear models, and networks linearised by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.stats
from numpyro import handlers
from numpyro.distributions.transforms import biject_to

import data
import inference
import models
from diagnostics import convergence
from tests.helpers.small_network import small

Z = 5.0


TEMPERATURES = pytest.mark.parametrize(
    ("temperature", "tempering"), [(1.0, "posterior"), (0.4, "posterior"), (2.5, "likelihood")]
)


def check_normal(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """z-tests of independent draws: means, and the entries of the covariance by Wishart's errors."""
    n, deviation = len(draws), np.sqrt(np.diag(covariance))
    z = (draws.mean(axis=0) - mean) / deviation * np.sqrt(n)
    assert np.abs(z).max() < Z, f"means: {np.round(z, 1)}"
    error = np.sqrt((covariance**2 + np.outer(np.diag(covariance), np.diag(covariance))) / n)
    z = (np.cov(draws.T) - covariance) / error
    assert np.abs(z).max() < Z, f"covariances: {np.round(z, 1)}"


def log_evidence(conjugate, factor: float = 1.0) -> float:
    gram = conjugate.design @ conjugate.design.T
    covariance = conjugate.noise**2 * np.eye(len(conjugate.y)) + (factor * conjugate.prior) ** 2 * gram
    return scipy.stats.multivariate_normal(np.zeros(len(conjugate.y)), covariance).logpdf(conjugate.y)


def test_evidence_and_importance_weights_of_a_linear_model(conjugate):
    posterior = conjugate.run(method="laplace", draws=200)
    statistics = {name: values[0].astype(float) for name, values in posterior.statistics.items()}
    expected = log_evidence(conjugate)
    np.testing.assert_allclose(statistics["log_evidence"], expected, atol=1e-4)
    # The normal is the posterior, so every draw's weight is the evidence.
    np.testing.assert_allclose(statistics["lp"] - statistics["guide_log_density"], expected, atol=2e-4)


def test_a_tempered_posterior_has_no_evidence(conjugate):
    posterior = conjugate.run(method="laplace", draws=5, temperature=2.0)
    assert np.isnan(posterior.statistics["log_evidence"]).all()


@pytest.mark.parametrize("batch_size", [None, 20])
def test_a_mode_that_the_optimiser_does_not_reach_is_reached(batch_size):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 2)).astype(np.float32)
    y = (150 + 20 * x[:, 0] + 10 * generator.normal(size=200)).astype(np.float32)
    model = models.linear(models.Normal(100.0), models.Gaussian(10.0))
    run = partial(inference.run, model, x, y, method="laplace", draws=5, batch_size=batch_size, progress=False)
    posterior = run()
    design = np.column_stack([np.ones(200), x]).astype(float)
    precision = design.T @ design / 100 + np.eye(3) / 1e4
    mean = np.linalg.solve(precision, design.T @ y.astype(float) / 100)
    ours = np.append(posterior.guide["output.bias.mean"], posterior.guide["output.weight.mean"])
    assert np.sqrt((ours - mean) @ precision @ (ours - mean)) < 1e-3
    covariance = 100 * np.eye(200) + 1e4 * design @ design.T
    exact = scipy.stats.multivariate_normal(np.zeros(200), covariance).logpdf(y)
    np.testing.assert_allclose(posterior.statistics["log_evidence"][0, 0], exact, atol=2e-3)
    assert posterior.statistics["newton_decrement"].max() < 1e-3
    with pytest.warns(UserWarning, match="standard deviations from the mode, which was not reached"):
        posterior = run(structure="diagonal")
    ours = np.append(posterior.guide["output.bias.mean"], posterior.guide["output.weight.mean"])
    left = precision @ (ours - mean)
    expected = np.sqrt(left @ (left / np.diag(precision)))
    np.testing.assert_allclose(posterior.statistics["newton_decrement"][0, 0], expected, rtol=1e-3)


@pytest.mark.parametrize(
    ("likelihood", "scale"),
    [
        (models.Gaussian(), None),
        (models.HeteroscedasticGaussian(), None),
        (models.Categorical(3), dist.HalfNormal(1.0)),
        (models.Gaussian(0.5), dist.Uniform(0.1, 3.0)),
        (models.Gaussian(0.5), dist.Pareto(1.5, 3.0)),
    ],
    ids=["gaussian", "heteroscedastic", "categorical, half normal", "uniform", "pareto"],
)
def test_predictions_are_those_of_the_network_linearised_at_the_mode(likelihood, scale, tmp_path):
    model, x, y = small(likelihood, models.Hierarchical(scale) if scale else None)
    posterior = inference.run(model, x, y, method="laplace", steps=300, draws=7, progress=False)
    new = np.random.default_rng(1).normal(size=(5, 2)).astype(np.float32)
    sites = [name for name in posterior.draws if name not in posterior.deterministic and name != "noise"]
    own = {name: biject_to(scale.support if name.endswith(".scale") else dist.constraints.real) for name in sites}

    def heads(position):
        values = {name: own[name](u) for name, u in position.items()}
        return handlers.substitute(model.heads, data=values)(new)

    mode = {name: jnp.asarray(posterior.guide[f"{name}.mean"]) for name in sites}
    for i in range(7):
        drawn = {name: posterior.draws[name][0, i] for name in sites}
        away = {name: own[name].inv(drawn[name]) - mode[name] for name in sites}
        value, slope = jax.jvp(heads, (mode,), (away,))
        expected = likelihood.link(value + slope)
        np.testing.assert_allclose(posterior.predict(new).outputs[0, i], expected, rtol=2e-4, atol=2e-4)
    posterior.save(tmp_path / "p.npz")
    loaded = inference.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(loaded.predict(new).outputs, posterior.predict(new).outputs)


def test_the_last_layer_is_linear_and_the_others_stay_at_the_mode():
    model, x, y = small(models.Gaussian())
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
    settled = replace(runs[0], curves={name: np.ones((1, 2000)) for name in runs[0].curves}, draws=_many(runs[0].draws))
    assert "it holds hidden0.bias, for instance, at one value" in str(convergence(settled))


def _many(draws):
    return {name: np.repeat(values, 50, axis=1) for name, values in draws.items()}


def test_sampled_weights_go_through_the_network_itself():
    model, x, y = small()
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
    check_normal(np.log(posterior.draws["sigma"][0].astype(float))[:, None], np.array([mode]), np.eye(1) / precision)


@pytest.mark.validation
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


def test_a_matrix_that_does_not_fit_is_refused_with_its_size():
    wide = models.mlp((500, 500), "tanh")
    with pytest.raises(ValueError, match=r"over 252,502 weights is a matrix of 510\.\d GB.*diagonal"):
        inference.run(wide, np.zeros((4, 2)), np.zeros(4), method="laplace", progress=False)


def test_a_factor_is_called_so():
    def model(y=None):
        numpyro.factor("penalty", -(numpyro.sample("m", dist.Normal(0, 1)) ** 2))

    with pytest.raises(ValueError, match=r"'penalty' is a numpyro\.factor, whose Fisher"):
        inference.run(model, np.float32(1.0), method="laplace", progress=False)


def test_a_weight_that_nothing_determines_is_an_error_also_when_it_is_looked_at(tmp_path):
    model, x, y = small(prior=models.Flat())
    run = partial(inference.run, model, np.zeros_like(x), y, method="laplace", steps=20, draws=5, progress=False)
    with pytest.raises(FloatingPointError, match="not positive definite"):
        run(directory=tmp_path / "run")
    with pytest.raises(FloatingPointError, match="not positive definite"):
        inference.load(tmp_path / "run")


def test_a_prior_that_says_next_to_nothing_does_not_pass_by_rounding():
    model, x, y = small(prior=models.Normal(1e8))
    with pytest.raises(FloatingPointError, match="a normal prior of about the size of the weights"):
        inference.run(model, np.zeros_like(x), y, method="laplace", steps=20, draws=5, progress=False)


def test_double_exponential_priors_are_refused_behind_hidden_layers(conjugate):
    model, x, y = small(prior=dist.Laplace(0.0, 1.0))
    for structure in ("full", "diagonal", "last_layer"):
        with pytest.raises(ValueError, match=r"\.bias' has a double exponential prior, which has no curvature"):
            inference.run(model, x, y, method="laplace", structure=structure, progress=False)
    linear = models.linear(dist.Laplace(0.0, 1.0), models.Gaussian(conjugate.noise))
    posterior = inference.run(linear, conjugate.x, conjugate.y, method="laplace", draws=20_000, progress=False)
    covariance = np.linalg.inv(conjugate.design.T @ conjugate.design / conjugate.noise**2)
    mode = np.append(posterior.guide["output.bias.mean"], posterior.guide["output.weight.mean"])
    check_normal(conjugate.stacked(posterior)[0], mode, covariance)


def test_observations_without_a_plate_all_count():
    y = np.random.default_rng(0).normal(2, 1, 50)

    def model(y=None):
        mu = numpyro.sample("mu", dist.Normal(0, 10))
        numpyro.sample("y", dist.Normal(mu, 1), obs=y)

    posterior = inference.run(model, y, method="laplace", draws=4000, progress=False)
    precision = 50 + 1 / 100
    deviation = posterior.draws["mu"].std()
    assert deviation == pytest.approx(precision**-0.5, rel=5 / np.sqrt(2 * 4000))
    covariance = np.eye(50) + 100 * np.ones((50, 50))
    exact = scipy.stats.multivariate_normal(np.zeros(50), covariance).logpdf(y)
    assert posterior.statistics["log_evidence"][0, 0] == pytest.approx(exact, abs=1e-3)
