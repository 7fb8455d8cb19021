"""Networks as NumPyro models: sites, priors, effects, equality and recipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer import MCMC, NUTS, Predictive
from numpyro.primitives import Messenger

import models
from models.priors import Site
from tests.helpers.traces import traced

X = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)


def test_sites_and_shapes():
    trace = traced(models.mlp(hidden=(5, 4)), X)
    shapes = {name: site["value"].shape for name, site in trace.items() if site["type"] == "sample"}
    assert shapes == {
        "hidden0.weight": (3, 5), "hidden0.bias": (5,), "hidden1.weight": (5, 4), "hidden1.bias": (4,),
        "output.weight": (4, 1), "output.bias": (1,), "noise": (), "y": (9,),
    }  # fmt: skip
    assert trace["y"]["fn"].batch_shape == (9,)
    assert [frame.name for frame in trace["y"]["cond_indep_stack"]] == ["data"]


@pytest.mark.parametrize(
    ("likelihood", "batch", "outputs"),
    [
        (models.Gaussian(), (9,), 1),
        (models.Gaussian(outputs=2), (9, 2), 2),
        (models.Gaussian(scale=0.1), (9,), 1),
        (models.Categorical(4), (9,), 4),
        (models.Bernoulli(), (9,), 1),
    ],
)
def test_the_likelihood_sets_outputs_and_batch_shape(likelihood, batch, outputs):
    trace = traced(models.mlp(hidden=(5,), likelihood=likelihood), X)
    assert trace["output.weight"]["value"].shape == (5, outputs)
    assert trace["y"]["fn"].batch_shape == batch
    assert trace["y"]["value"].shape == batch
    assert ("noise" in trace) == (isinstance(likelihood, models.Gaussian) and likelihood.scale is None)


def test_priors_by_layer_kind_and_fan_in():
    prior = {
        "default": models.Normal(2.0, fan_in=True),
        "output": dist.Laplace(0.0, 0.5),
        "bias": 3.0,
        "hidden1.bias": models.Normal(7.0),
    }
    trace = traced(models.mlp(hidden=(5, 4), prior=prior), X)
    scales = {name: np.unique(site["fn"].variance) ** 0.5 for name, site in trace.items() if "." in name}
    expected = {
        "hidden0.weight": 2 / np.sqrt(3), "hidden0.bias": 3.0, "hidden1.weight": 2 / np.sqrt(5), "hidden1.bias": 7.0,
        "output.weight": 0.5 * np.sqrt(2), "output.bias": 0.5 * np.sqrt(2),
    }  # fmt: skip
    assert {name: pytest.approx(value, rel=1e-6) for name, value in expected.items()} == {
        name: float(value[0]) for name, value in scales.items()
    }


def test_fan_in_leaves_biases_alone():
    prior = models.Normal(2.0, fan_in=True)
    assert prior.scale_of(Site("hidden0", "weight", 16)) == 0.5
    assert prior.scale_of(Site("hidden0", "bias", 16)) == 2.0


def test_a_prior_knows_its_scale():
    site = Site("hidden0", "weight", 4)
    assert models.Univariate.of(dist.Laplace(0.0, 0.5)).scale_of(site) == pytest.approx(0.5 * np.sqrt(2))
    assert models.Univariate.of(dist.StudentT(3.0, 0.0, 2.0)).scale_of(site) == pytest.approx(2 * np.sqrt(3))
    assert models.Univariate.of(dist.Cauchy(0.0, 2.0)).scale_of(site) == 2.0  # infinite variance: its scale


def test_prior_of_the_weights_has_the_stated_moments():
    # 20,000 draws of a prior function at one input: E f = 0 and Var f = sum of the layers' variances, in closed form.
    model = models.linear(models.Normal(0.7), models.Gaussian(scale=1.0))
    draws = Predictive(model.outputs, num_samples=20_000)(jax.random.key(0), X[:1])
    functions = draws["output.weight"][:, :, 0] @ X[0] + draws["output.bias"][:, 0]
    variance = 0.49 * (1 + (X[0] ** 2).sum())
    assert abs(functions.mean()) < 5 * np.sqrt(variance / 20_000)
    assert abs(functions.var() / variance - 1) < 5 * np.sqrt(2 / 20_000)


class _Double(Messenger):
    """Answers the layer named "hidden0" with twice its value."""

    def process_message(self, msg):
        if msg["type"] == "layer" and msg["name"] == "hidden0":
            msg["value"] = 2 * msg["fn"](*msg["args"])


def test_layers_are_effects_that_a_handler_can_answer():
    model = models.mlp(hidden=(5,), activation="relu")
    generator = np.random.default_rng(1)
    weights = {name: jnp.asarray(generator.normal(size=shape), "float32") for name, shape in model.weights(X).items()}
    plain = np.asarray(jax.jit(handlers.substitute(model.outputs, data=weights))(X))
    with _Double():
        doubled = np.asarray(jax.jit(handlers.substitute(model.outputs, data=weights))(X))
    bias = weights["output.bias"]
    np.testing.assert_allclose(doubled - bias, 2 * (plain - bias), rtol=1e-5)
    hidden = np.maximum(X @ weights["hidden0.weight"] + weights["hidden0.bias"], 0)
    np.testing.assert_allclose(plain, hidden @ weights["output.weight"] + bias, rtol=1e-5, atol=1e-6)


def test_numpyros_own_inference_runs_it_as_it_is():
    model = models.mlp(hidden=(3,))
    y = X[:, 0]
    mcmc = MCMC(NUTS(model, max_tree_depth=3), num_warmup=5, num_samples=5, progress_bar=False)
    mcmc.run(jax.random.key(0), X, y)
    assert Predictive(model, mcmc.get_samples())(jax.random.key(1), X)["y"].shape == (5, 9)


MODELS = [
    models.linear(),
    models.logistic(),
    models.logistic(3, prior=dist.Laplace(0.0, 0.1)),
    models.mlp((5, 4), "silu", models.Normal(0.5, fan_in=True), models.Gaussian(scale=0.1)),
    models.mlp(prior={"default": 1.0, "output": dist.StudentT(3.0)}, likelihood=models.Categorical(3)),
    models.mlp(likelihood=models.Gaussian(prior=dist.LogNormal(-1.0, 0.5), outputs=2)),
]


def test_equal_by_value_and_hashable():
    again = [
        models.linear(),
        models.logistic(),
        models.logistic(3, prior=dist.Laplace(0.0, 0.1)),
        models.mlp([5, 4], "silu", models.Normal(0.5, fan_in=True), models.Gaussian(scale=0.1)),
        models.mlp(prior={"default": 1.0, "output": dist.StudentT(3.0)}, likelihood=models.Categorical(3)),
        models.mlp(likelihood=models.Gaussian(prior=dist.LogNormal(-1.0, 0.5), outputs=2)),
    ]
    assert MODELS == again
    assert [hash(model) for model in MODELS] == [hash(model) for model in again]
    assert len(set(MODELS)) == len(MODELS)
    with pytest.raises(AttributeError):
        MODELS[0].prior = models.Normal(2.0)


@pytest.mark.parametrize("model", MODELS)
def test_recipe_through_json(model):
    assert models.from_recipe(json.loads(json.dumps(models.to_recipe(model)))) == model


def test_recipes_make_nothing_but_models():
    with pytest.raises(ValueError, match=r"a recipe must name one of Network.*got 'system'"):
        models.from_recipe({"record": "system", "command": "true"})
    with pytest.raises(ValueError, match=r"name of a distribution"):
        models.from_recipe({"record": "Univariate", "family": "biject_to", "parameters": []})
    with pytest.raises(ValueError, match=r"Normal: scale must be"):
        models.from_recipe({"record": "Normal", "scale": -1.0})
    own = models.to_recipe(models.mlp(activation=lambda x: x))
    assert not models.has_recipe(models.mlp(activation=lambda x: x))
    assert models.has_recipe(models.mlp())
    assert own != models.to_recipe(models.mlp(activation=lambda x: 2 * x))  # the code is compared
    with pytest.raises(ValueError, match=r"needs your own function '.*<lambda>'"):
        models.from_recipe(own)
    with pytest.raises(TypeError, match=r"has no recipe"):
        models.to_recipe(object())


def test_any_function_can_be_the_activation():
    double = handlers.trace(handlers.seed(models.mlp(hidden=(5,), activation=lambda x: 0 * x), 0)).get_trace(X)
    np.testing.assert_allclose(double["output"]["value"], np.broadcast_to(double["output.bias"]["value"], (9, 1)))


def test_the_recipe_of_a_function_is_the_same_in_every_process():
    code = (
        "from models import to_recipe\n"
        "def f(kind):\n"
        "    return kind in {'a', 'b', 'c', 'd', 'e', 'f'}\n"
        "print(to_recipe(f)['code'])"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, timeout=120,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[3])},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(hashes) == 1
