"""Chains that start from weights which the user has."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from flax import nnx

import inference
import models
from tests.helpers.small_run import MODEL, X, Y, crash_after, same

WEIGHTS = {
    name: np.random.default_rng(1).normal(size=shape).astype(np.float32) for name, shape in MODEL.weights(X).items()
}
STILL = dict(chains=2, draws=2, warmup=0, progress=False)


def _first(**options) -> inference.Posterior:
    """The draws of chains whose steps are too small to leave their start."""
    return inference.run(MODEL, X, Y, method="hmc", step_size=1e-9, trajectory_length=1e-9, **STILL, **options)


def test_arrays_are_the_start_of_every_chain():
    posterior = _first(start=WEIGHTS)
    assert posterior.start == "given"
    for name, value in WEIGHTS.items():
        np.testing.assert_allclose(posterior.draws[name], np.broadcast_to(value, (2, 2, *value.shape)), rtol=1e-5)


def test_each_chain_may_have_its_own():
    both = {name: np.stack([value, -value]) for name, value in WEIGHTS.items()}
    posterior = _first(start=both)
    np.testing.assert_allclose(posterior.draws["hidden0.weight"][1], -posterior.draws["hidden0.weight"][0], rtol=1e-5)


METHODS = {
    "mle": dict(steps=1, learning_rate=1e-30),
    "map": dict(steps=1, learning_rate=1e-30),
    "ensemble": dict(steps=1, learning_rate=1e-30, chains=2),
    "nuts": dict(step_size=1e-9, max_tree_depth=1, chains=1, draws=1, warmup=0),
    "mclmc": dict(step_size=1e-9, trajectory_length=1.0, chains=1, draws=1, warmup=0, thin=1),
    "sgld": dict(step_size=1e-20, chains=1, draws=1, warmup=0, thin=1, control_variates=False),
    "svi": dict(steps=1, learning_rate=1e-30, draws=1000),
    "laplace": dict(steps=1, draws=5, hyperparameters="given"),
}


@pytest.mark.filterwarnings("ignore::inference.TouchstoneWarning")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_starts_there(method):
    posterior = inference.run(MODEL, X, Y, method=method, start=WEIGHTS, progress=False, **METHODS[method])
    assert posterior.start == "given"
    if method == "laplace":  # Adam's first loss is that of the start; then it climbs to the mode by itself
        at_start = inference.run(MODEL, X, Y, method="map", start=WEIGHTS, steps=1, progress=False)
        assert posterior.curves["loss"][0, 0] == pytest.approx(at_start.curves["loss"][0, 0], rel=1e-5)
        return
    found = posterior.draws["output.weight"].mean(axis=(0, 1))
    np.testing.assert_allclose(found, WEIGHTS["output.weight"], atol=0.02 if method == "svi" else 1e-4)


def test_a_posterior_gives_each_chain_a_draw():
    members = inference.run(MODEL, X, Y, method="ensemble", chains=3, steps=5, progress=False)
    posterior = _first(start=members)
    for name in WEIGHTS:
        np.testing.assert_allclose(posterior.draws[name][:, 0], members.draws[name][:2, 0], rtol=1e-5)
    point = inference.run(MODEL, X, Y, method="map", steps=5, progress=False)
    np.testing.assert_allclose(
        _first(start=point).draws["output.bias"][:, 0], np.repeat(point.draws["output.bias"][0], 2, axis=0), rtol=1e-5
    )


class Flax(nnx.Module):
    def __init__(self, hidden=3):
        rngs = nnx.Rngs(0)
        self.hidden, self.output = nnx.Linear(2, hidden, rngs=rngs), nnx.Linear(hidden, 1, rngs=rngs)

    def __call__(self, x):
        return self.output(nnx.tanh(self.hidden(x)))


def test_a_trained_module_is_a_start():
    module, noisy = Flax(), models.Gaussian()
    posterior = inference.run(
        models.from_flax(module, likelihood=noisy), X, Y, method="map", steps=1, learning_rate=1e-30, start=module,
        progress=False,
    )  # fmt: skip
    np.testing.assert_allclose(posterior.draws["hidden.weight"][0, 0], module.hidden.kernel[...], rtol=1e-5)
    assert 0.4 < posterior.draws["noise"].item() < 1.0  # near the median of a half normal, 0.67
    perceptron = eqx.nn.MLP(2, 1, 3, 1, key=jax.random.key(0))
    lifted = models.from_equinox(perceptron, likelihood=noisy)
    posterior = inference.run(
        lifted, X, Y, method="map", steps=1, learning_rate=1e-30, start=perceptron, progress=False
    )
    np.testing.assert_allclose(posterior.draws["layers.0.weight"][0, 0], perceptron.layers[0].weight, rtol=1e-5)


def test_it_is_resumed_from_the_same_start(tmp_path):
    options = dict(method="nuts", chains=2, draws=12, warmup=6, max_tree_depth=3, start=WEIGHTS, progress=False)
    plain = inference.run(MODEL, X, Y, **options)
    with crash_after(3):
        inference.run(MODEL, X, Y, directory=tmp_path / "a", save_every=1e-9, **options)
    resumed = inference.resume(tmp_path / "a", progress=False)
    assert same(plain, resumed)
    assert resumed.start == inference.load(tmp_path / "a").start == "given"
    with pytest.raises(ValueError, match="another run"):
        inference.run(MODEL, X, Y, directory=tmp_path / "a", **{**options, "start": "random"})


def test_a_model_whose_random_starts_are_all_infinite_starts_where_it_is_told():
    def model(y=None):
        w = numpyro.sample("w", dist.Normal(0.0, 1e6))
        numpyro.factor("far", jnp.where(jnp.abs(w - 1000.0) < 1.0, 0.0, -jnp.inf))
        numpyro.sample("y", dist.Normal(w, 1.0), obs=y)

    with pytest.raises(ValueError, match="no initial point"):
        inference.run(model, np.float32(1000.0), method="map", steps=1, progress=False)
    found = inference.run(
        model, np.float32(1000.0), method="map", steps=1, learning_rate=1e-6, start={"w": 1000.2}, progress=False
    )
    assert found.draws["w"].item() == pytest.approx(1000.2, abs=0.01)


def test_members_that_would_all_be_the_same_are_told_of():
    with pytest.warns(inference.TouchstoneWarning, match="so they will be the same"):
        inference.run(MODEL, X, Y, method="ensemble", chains=2, steps=2, start=WEIGHTS, progress=False)
    some = {"output.bias": WEIGHTS["output.bias"]}  # then the others are drawn for each
    members = inference.run(MODEL, X, Y, method="ensemble", chains=2, steps=2, start=some, progress=False)
    assert (members.draws["output.weight"][0] != members.draws["output.weight"][1]).all()


def test_a_module_whose_weights_are_made_of_other_sites_is_refused():
    model = models.from_flax(Flax(), models.Hierarchical())
    with pytest.raises(ValueError, match="which is no latent site of the model; it has hidden"):
        inference.run(model, X, Y, method="map", start=Flax(), progress=False)


BAD = {
    "another site": ({"hidden1.weight": np.zeros((2, 4))}, ValueError, "which is no latent site of the model; it has"),
    "another shape": ({"hidden0.weight": np.zeros((3, 4))}, ValueError, r"shape \(3, 4\), and the site has \(2, 4\)"),
    "not a number": ({"output.bias": np.array([np.nan])}, ValueError, "'output.bias' that are not finite"),
    "too large": ({"output.bias": np.array([1e30])}, ValueError, "the log density is .* at the given weights"),
    "nothing": ({}, ValueError, "start has none of the model's sites"),
    "a module that is not the model's": (Flax(), TypeError, "or a module like the one that the model was lifted from"),
    "a number": (3, TypeError, "got int"),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_starts_are_refused(case):
    start, error, message = BAD[case]
    with pytest.raises(error, match=message):
        inference.run(MODEL, X, Y, method="map", steps=1, start=start, progress=False)


def test_another_module_is_refused():
    with pytest.raises(ValueError, match=r"whose 'hidden\.bias' has shape \(5,\), and the network was lifted"):
        inference.run(models.from_flax(Flax()), X, Y, method="map", start=Flax(5), progress=False)
