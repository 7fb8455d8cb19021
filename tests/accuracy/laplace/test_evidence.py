"""Scales by the evidence where it is known: linear models, whose marginal likelihood has a closed form."""

from __future__ import annotations

import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.optimize
import scipy.stats

import data
import inference
import models
from inference.runs.execution import plan
from tests.accuracy.laplace.test_approximation import check_normal, log_evidence
from tests.helpers.small_network import small

PRIOR = 0.5


def test_prior_scale_by_the_evidence_is_that_of_the_closed_form(conjugate):
    best = scipy.optimize.minimize_scalar(lambda log: -log_evidence(conjugate, np.exp(log)), bounds=(-3, 3))
    posterior = conjugate.run(method="laplace", hyperparameters="evidence", draws=20_000)
    factor = float(posterior.guide["prior_scale_factor"])
    np.testing.assert_allclose(factor, np.exp(best.x), rtol=1e-3)
    np.testing.assert_allclose(posterior.statistics["log_evidence"][0, 0], -best.fun, atol=1e-4)
    prior_precision = np.eye(4) / (factor * conjugate.prior) ** 2
    precision = conjugate.design.T @ conjugate.design / conjugate.noise**2 + prior_precision
    mean = np.linalg.solve(precision, conjugate.design.T @ conjugate.y.astype(float) / conjugate.noise**2)
    check_normal(conjugate.stacked(posterior)[0], mean, np.linalg.inv(precision))


def test_noise_by_the_evidence_counts_the_fitted_weights(conjugate):
    model = models.linear(models.Normal(10.0), models.Gaussian(prior=dist.HalfNormal(100.0)))  # both all but flat
    noise, spread = {}, {}
    for how in ("given", "evidence"):
        posterior = inference.run(
            model, conjugate.x, conjugate.y, method="laplace", hyperparameters=how, draws=20_000, progress=False
        )
        noise[how], spread[how] = np.exp(posterior.guide["noise.mean"]), np.log(posterior.draws["noise"]).std()
    residual = conjugate.y - conjugate.design @ np.linalg.lstsq(conjugate.design, conjugate.y, rcond=None)[0]
    squares, rows = (residual**2).sum(), len(residual)
    # With the log-Jacobian, log s: n - 1 at the mode, and n - 1 - g with the g = 4 weights that are fitted.
    np.testing.assert_allclose(noise["given"], np.sqrt(squares / (rows - 1)), rtol=2e-3)
    np.testing.assert_allclose(noise["evidence"], np.sqrt(squares / (rows - 1 - 4)), rtol=5e-3)
    # The curvature of log s is 2 n, of which the evidence counts n - g; 20,000 draws have 0.5 % of error.
    np.testing.assert_allclose(spread["given"], 1 / np.sqrt(2 * rows), rtol=0.02)
    np.testing.assert_allclose(spread["evidence"], 1 / np.sqrt(2 * (rows - 4)), rtol=0.02)


def _data(noise):
    generator = np.random.default_rng(2)
    x = generator.normal(size=(25, 12)).astype(np.float32)
    design = np.column_stack([np.ones(25), x]).astype(float)
    weights = PRIOR * generator.normal(size=(13, len(noise)))
    return x, design, (design @ weights + noise * generator.normal(size=(25, len(noise)))).astype(np.float32)


def _best(design, y, log_jacobian, start):
    """The factor and the noise of each output at the maximum of the marginal likelihood in the coordinates used."""
    gram = design @ design.T

    def minus(t):
        with np.errstate(over="ignore"):
            factor, noise = np.exp(t[0]), np.exp(t[1:])
        covariances = [s**2 * np.eye(len(y)) + (PRIOR * factor) ** 2 * gram for s in noise]
        fits = [
            scipy.stats.multivariate_normal(np.zeros(len(y)), c).logpdf(k)
            for c, k in zip(covariances, y.T, strict=True)
        ]
        return -sum(fits) - log_jacobian(noise)

    options = {"maxiter": 4000, "xatol": 1e-7, "fatol": 1e-9}
    return np.exp(scipy.optimize.minimize(minus, start, method="Nelder-Mead", options=options).x)


def test_each_output_has_its_own_noise_by_the_weights_that_it_determines():
    x, design, y = _data(np.array([0.1, 5.0]))
    model = models.linear(models.Normal(PRIOR), models.Gaussian(outputs=2, prior=dist.HalfNormal(100.0)))
    posterior = inference.run(model, x, y, method="laplace", hyperparameters="evidence", draws=10, progress=False)
    exact = _best(design, y, lambda noise: np.log(noise).sum(), [0, -1, 1])
    ours = np.append(posterior.guide["prior_scale_factor"], np.exp(posterior.guide["noise.mean"]))
    np.testing.assert_allclose(ours, exact, rtol=2e-3)


def test_bounded_noise_is_found_in_its_own_coordinate():
    x, design, y = _data(np.array([0.6]))
    low, high = 0.3, 0.8
    model = models.linear(models.Normal(PRIOR), models.Gaussian(prior=dist.Uniform(low, high)))
    posterior = inference.run(model, x, y[:, 0], method="laplace", hyperparameters="evidence", draws=10, progress=False)

    def log_jacobian(noise):  # of the logit between the bounds
        inside = ((noise > low) & (noise < high)).all()
        return np.log((noise - low) * (high - noise)).sum() if inside else -np.inf

    exact = _best(design, y, log_jacobian, [0, np.log(0.55)])
    noise = low + (high - low) / (1 + np.exp(-posterior.guide["noise.mean"]))
    np.testing.assert_allclose([posterior.guide["prior_scale_factor"], noise], exact, rtol=2e-3)


@pytest.mark.parametrize("structure", ["diagonal", "last_layer"])
def test_an_evidence_that_is_not_the_networks_comes_with_a_warning(structure):
    model, x, y = small()
    options = {"method": "laplace", "structure": structure, "draws": 2, "progress": False}
    with pytest.warns(UserWarning, match=f'evidence with structure="{structure}"'):
        chosen = inference.run(model, x, y, hyperparameters="evidence", **options)
    assert chosen.guide["prior_scale_factor"] != 1
    assert "prior_scale_factor" not in inference.run(model, x, y, **options).guide  # and no warning, which is an error


def test_evidence_leaves_the_priors_of_layers_that_are_held():
    x, y = small()[1:]
    model = models.mlp((3,), "tanh", {"default": 1.0, "hidden0": dist.Laplace(0.0, 1.0)}, models.Gaussian(0.5))
    with pytest.warns(UserWarning, match="evidence with structure"):
        posterior = inference.run(
            model, x, y, method="laplace", structure="last_layer", hyperparameters="evidence", draws=2, progress=False
        )
    assert posterior.guide["prior_scale_factor"] > 0


def test_patience_would_stop_before_the_updates():
    with pytest.raises(ValueError, match="patience=20 would stop before"):
        inference.Laplace(hyperparameters="evidence", patience=20)


def test_evidence_needs_normal_weights_of_a_network():
    model, x, y = small(prior=dist.Laplace(0.0, 1.0))
    with pytest.raises(ValueError, match="scales normal priors around 0, and that of 'hidden0"):
        inference.run(model, x, y, method="laplace", hyperparameters="evidence", progress=False)


@pytest.mark.validation
def test_the_evidence_never_ends_below_that_of_the_given_prior():
    """On the wines MacKay's updates end at -32.9, the given prior at -31.3, twice its scale at -29.2."""
    train, _ = data.load("wine_cultivars").split(seed=0, test=0.2)
    model = models.mlp((20,), "tanh", likelihood=models.Categorical(3))
    options = dict(method="laplace", steps=1000, progress=False)
    given = inference.run(model, train, hyperparameters="given", **options).statistics["log_evidence"][0, 0]
    found = inference.run(model, train, hyperparameters="evidence", **options)
    assert found.statistics["log_evidence"][0, 0] > given + 1
    twice = inference.run(
        models.mlp((20,), "tanh", models.Normal(2.0), models.Categorical(3)),
        train,
        hyperparameters="given",
        **options,
    )
    assert found.statistics["log_evidence"][0, 0] > twice.statistics["log_evidence"][0, 0] - 0.5


def test_the_evidence_chooses_by_default_where_the_noise_is_inferred(conjugate):
    def way(model=None, **options):
        model = model or models.mlp((2,), "tanh")
        temperature = options.pop("temperature", 1.0)
        laplace = inference.Laplace(**options)
        planned = plan(model, (conjugate.x, conjugate.y), laplace, 0, temperature, "posterior", None)
        return planned.method.hyperparameters

    assert way() == "evidence"
    assert way(temperature=0.5) == "given"
    assert way(patience=20) == "given"
    assert way(structure="last_layer") == "given"
    assert way(models.mlp((2,), "tanh", likelihood=models.Gaussian(scale=0.5))) == "given"
    assert way(models.mlp((2,), "tanh", models.Hierarchical())) == "given"
