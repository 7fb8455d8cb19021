"""Data that lose digits, have no noise, or have another scale than the priors: said before anything compiles."""

from __future__ import annotations

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import Predictive

import inference
import models
from inference.target.data_remarks import _growth, explosion

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(40, 2))
Y = X[:, 0] + 0.3 * GENERATOR.normal(size=40)
TIMES = 1.7e9 + 10.0 * np.arange(100)[:, None]
KNOWN = models.Gaussian(scale=1.0)
FEW = {"method": "map", "steps": 5, "progress": False}


def test_a_column_that_loses_distinct_values_is_named():
    with pytest.warns(UserWarning, match=r".") as said:
        posterior = inference.run(models.linear(likelihood=KNOWN), TIMES, np.arange(100.0), **FEW)
    assert "column 0 of x loses digits in float32: of 100 distinct values 9 are left" in str(said[0].message)
    assert posterior.notes[0] == str(said[0].message)
    with pytest.warns(UserWarning, match="^y loses digits"):
        inference.run(models.linear(likelihood=KNOWN), X, 1e8 + Y, **FEW)


def test_float64_keeps_what_float32_loses():
    model = models.linear(models.Normal(1e9), KNOWN)
    with pytest.warns(UserWarning, match="x has size"):  # that alone
        posterior = inference.run(model, TIMES, 1e8 + np.arange(100.0), precision="float64", **FEW)
    assert len(np.unique(posterior.observed["y"])) == 100
    assert posterior.probes.dtype == np.float64
    outputs = posterior.predict(TIMES).outputs
    assert outputs.dtype == np.float64
    weight, bias = posterior.draws["output.weight"][0, 0], posterior.draws["output.bias"][0, 0]
    np.testing.assert_allclose(outputs[0, 0], TIMES @ weight + bias, rtol=1e-12)


def test_the_posterior_of_large_numbers_is_exact_in_float64():
    y = 1e8 + np.arange(5.0)

    def model(y=None):
        level = numpyro.sample("level", dist.Normal(1e8, 10.0))
        with numpyro.plate("rows", 5):
            numpyro.sample("y", dist.Normal(level, 1.0), obs=y)

    with pytest.warns(UserWarning, match="an argument of the model loses digits"):
        inference.run(model, y, **FEW)
    posterior = inference.run(model, y, method="laplace", precision="float64", steps=500, progress=False)
    assert posterior.guide["level.mean"] == pytest.approx(1e8 + 2 * 500 / 501, abs=1e-3)


def test_arguments_of_any_form_are_looked_at():
    def model(scale, words, nothing, y=None):
        numpyro.sample("y", dist.Normal(numpyro.sample("w", dist.Normal(0, 1)), scale), obs=y)

    words, nothing = np.array([2**32 - 1], np.uint32), np.zeros(0)
    few = dict(method="hmc", draws=2, warmup=0, chains=1, progress=False)
    assert inference.run(model, np.array(2.0), words, nothing, Y, **few).notes == ()


def test_predictions_of_a_users_model_keep_float64():
    def model(t, y=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        numpyro.deterministic("m", slope + t)
        with numpyro.plate("rows", len(t)):
            numpyro.sample("y", dist.Normal(slope * (t - 1.7e9), 1e3), obs=y)

    posterior = inference.run(model, TIMES[:, 0], np.arange(100.0), precision="float64", **FEW)
    assert len(np.unique(posterior.predict(TIMES[:, 0])["m"])) == 100


@pytest.mark.parametrize(
    "model", [models.linear(), models.mlp((10,)), models.linear(likelihood=models.StudentTNoise())]
)
def test_constant_targets_have_no_posterior_if_the_noise_is_inferred(model):
    with pytest.raises(ValueError, match=r"y has one value, 2, in all 40 rows.*likelihood=models\.\w+\(scale="):
        inference.run(model, X, np.full(40, 2.0), **FEW)


def test_noise_free_linear_targets_have_no_posterior_under_a_linear_model():
    with pytest.raises(ValueError, match="y is an exact linear function of x"):
        inference.run(models.linear(), X, X @ [1.0, 2.0] - 3, **FEW)
    with pytest.warns(UserWarning, match="y is an exact linear function of x, which rectifiers can meet"):
        inference.run(
            models.mlp((10, 10)), X, X @ [1.0, 2.0] - 3, method="svi", start="random", steps=5, progress=False
        )
    inference.run(models.mlp((10, 10)), X, X @ [1.0, 2.0] - 3, **FEW)  # a point may be there all the same
    inference.run(models.linear(likelihood=KNOWN), X, X @ [1.0, 2.0], **FEW)
    inference.run(models.mlp((10,), "tanh"), X, X @ [1.0, 2.0], **FEW)  # which only comes close to a line


def test_a_prior_that_vanishes_at_0_keeps_the_posterior_proper():
    for prior in (dist.InverseGamma(3.0, 1.0), dist.InverseGamma(1.0, 1.0), dist.Uniform(0.1, 2.0)):
        model = models.linear(likelihood=models.Gaussian(prior=prior))
        assert inference.run(model, X, np.full(40, 0.5), **FEW).notes == ()


def test_few_rows_may_be_alike():
    assert inference.run(models.mlp((10,)), X[:1], Y[:1], **FEW).notes == ()
    assert inference.run(models.mlp((10,)), X[:5], np.ones(5), **FEW).notes == ()


@pytest.mark.parametrize(("scale", "message"), [(1e3, "standardise y"), (1e-4, "standardise y")])
def test_targets_far_from_the_scale_of_the_noise_prior_are_said(scale, message):
    with pytest.warns(UserWarning, match=message):
        inference.run(models.mlp((4,)), X, scale * Y, **FEW)
    for likelihood in (models.Gaussian(prior=dist.HalfNormal(scale)), models.Gaussian(scale=scale)):
        assert inference.run(models.mlp((4,), likelihood=likelihood), X, scale * Y, **FEW).notes == ()


def test_a_prior_under_which_functions_explode_is_said_with_its_remedy():
    (said,) = explosion(models.mlp((100,) * 5), X)
    assert "2,401 times those of the first" in said
    assert "prior=models.Normal(1.0, fan_in=True)" in said
    assert explosion(models.mlp((100,) * 5, prior=models.Normal(1.0, fan_in=True)), X) == ()
    assert explosion(models.mlp((100,) * 5, "tanh"), X) == ()  # whose units are bounded
    assert explosion(models.mlp((50, 50)), X) == ()
    assert explosion(lambda: None, X) == ()
    deep = models.mlp((20,) * 5, prior=models.Normal(2.0))
    with pytest.warns(UserWarning, match="fan_in=True"):
        posterior = inference.run(
            deep, X, Y, method="hmc", draws=1, warmup=0, chains=1, step_size=1e-4, trajectory_length=1e-4,
            start="random", progress=False,
        )  # fmt: skip
    assert "fan_in=True" in posterior.notes[0]
    inference.run(deep, X, Y, **FEW)  # an optimiser starts at another scale, and moves


def test_the_growth_of_units_is_that_of_prior_draws():
    x = np.random.default_rng(0).normal(size=(200, 4))

    def size(layers):
        model = models.mlp((100,) * layers, likelihood=KNOWN)
        sites = Predictive(lambda x: numpyro.deterministic("f", model.outputs(x)), num_samples=200)
        return float(np.asarray(sites(jax.random.key(0), x)["f"]).std())

    assert _growth(models.mlp((100,) * 4), x) == pytest.approx(size(4) / size(1), rel=0.3)


def test_integers_that_32_bits_do_not_hold_are_refused():
    def model(when, y=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(slope * when, 1.0), obs=y)

    with pytest.raises(ValueError, match="which 32 bits don't hold"):
        inference.run(model, np.arange(3) + 2**40, np.zeros(3), **FEW)


def test_digits_that_are_lost_are_told_from_constant_targets():
    with pytest.raises(ValueError, match=r"^y loses digits in float32: of 40 distinct values 1 are left"):
        inference.run(models.linear(), X, 1e8 + Y, **FEW)
