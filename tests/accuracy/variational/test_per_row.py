"""The estimators of a Gaussian guide: one expectation, different noise; and the free energy they estimate."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import handlers

import inference
import models
from inference.target.binding import bind
from inference.target.minibatches import Minibatch
from inference.variational.dropout import Dropout, Matrices
from inference.variational.gaussian import Gaussian, MeanField
from inference.variational.per_row import check_layers
from models.layers import affine

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(30, 3)).astype(np.float32)
MODEL = models.mlp((6,), "tanh", likelihood=models.Gaussian(scale=0.5))
BOUND = bind(MODEL, (X, np.sin(X[:, 0])), 1.0, "posterior", None)


def _parameters() -> MeanField:
    shapes = BOUND.target.position(BOUND.data)
    location = {name: jnp.asarray(GENERATOR.normal(size=leaf.shape), jnp.float32) for name, leaf in shapes.items()}
    return MeanField(location, {name: jnp.full(leaf.shape, -0.5) for name, leaf in shapes.items()})


PARAMETERS = _parameters()


def _gradients(estimator: str, draws: int) -> np.ndarray:
    method = inference.SVI(estimator=estimator)

    def gradient(key: jax.Array) -> jax.Array:
        def loss(parameters: MeanField) -> jax.Array:
            return method.objective().loss(BOUND.target, BOUND.data, Minibatch(None, 0, 1), parameters, key)[0]

        value, gradient = jax.value_and_grad(loss)(PARAMETERS)
        return jnp.concatenate([value[None], jax.flatten_util.ravel_pytree(gradient)[0]])

    return np.asarray(jax.jit(jax.vmap(gradient))(jax.random.split(jax.random.key(1), draws)), np.float64)


def test_all_have_the_same_expectation_and_the_variance_falls():
    # Value and gradient in every parameter, 20,000 draws each; right code fails one of 124 with probability 1e-4.
    every = {name: _gradients(name, 20_000) for name in ("weights", "local", "flipout")}
    errors = {name: values.std(axis=0) / np.sqrt(len(values)) for name, values in every.items()}
    for name in ("local", "flipout"):
        gap = every[name].mean(axis=0) - every["weights"].mean(axis=0)
        z = gap / np.hypot(errors[name], errors["weights"])
        assert np.abs(z).max() < 5, f"{name}: {np.abs(z).max()}"
    variance = {name: values[:, 1:].var(axis=0).sum() for name, values in every.items()}
    assert variance["local"] < variance["flipout"] < 0.5 * variance["weights"]


@pytest.mark.parametrize("estimator", ["local", "flipout"])
def test_each_rows_outputs_have_the_moments_of_random_weights_and_rows_are_uncorrelated(estimator):
    guide = Gaussian(estimator=estimator)
    layer = {name: PARAMETERS.location[name] for name in ("hidden0.weight", "hidden0.bias")}

    def outputs(key: jax.Array) -> jax.Array:
        with guide.layers(PARAMETERS, key)(None):
            return models.apply("hidden0", affine, X, *layer.values())

    draws = np.asarray(jax.jit(jax.vmap(outputs))(jax.random.split(jax.random.key(0), 20_000)), np.float64)
    scale = PARAMETERS.scale
    mean = X @ layer["hidden0.weight"] + layer["hidden0.bias"]
    variance = X**2 @ scale["hidden0.weight"] ** 2 + scale["hidden0.bias"] ** 2
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.abs((draws.mean(axis=0) - mean) / error).max() < 5
    squares = (draws - np.asarray(mean)) ** 2
    assert np.abs((squares.mean(axis=0) - variance) / (squares.std(axis=0) / np.sqrt(len(draws)))).max() < 5
    correlation = np.corrcoef(draws[:, 0, 0], draws[:, 1, 0])[0, 1]
    assert abs(correlation) < 5 / np.sqrt(len(draws))


def test_the_model_is_left_as_it_is():
    weights = {name: leaf for name, leaf in PARAMETERS.location.items()}
    plain = handlers.substitute(MODEL.outputs, data=weights)(X)
    _gradients("local", 2)
    np.testing.assert_array_equal(handlers.substitute(MODEL.outputs, data=weights)(X), plain)


def _in_time(x, y=None):
    """A layer that is used at every time, x being (row, time, input)."""
    import numpyro
    import numpyro.distributions as dist

    weight = numpyro.sample("recurrent.weight", dist.Normal(0, 1).expand((3, 1)).to_event(2))
    bias = numpyro.sample("recurrent.bias", dist.Normal(0, 1).expand((1,)).to_event(1))
    outputs = models.apply("recurrent", affine, x, weight, bias)
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(outputs.sum(axis=(1, 2)), 1.0), obs=y)


def test_weights_shared_over_time_are_refused_by_local_and_right_with_flipout():
    x = GENERATOR.normal(size=(8, 4, 3)).astype(np.float32)
    y = x.sum(axis=(1, 2))
    with pytest.raises(ValueError, match=r"'recurrent' uses its own at many positions"):
        inference.run(_in_time, x, y, method="svi", estimator="local", progress=False)
    bound = bind(_in_time, (x, y), 1.0, "posterior", None)
    check_layers("flipout", bound.target, bound.data)
    location = {"recurrent.weight": jnp.ones((3, 1)), "recurrent.bias": jnp.zeros(1)}
    scale = {"recurrent.weight": jnp.full((3, 1), 0.5), "recurrent.bias": jnp.full(1, 0.5)}
    parameters = MeanField(location, jax.tree.map(lambda leaf: jnp.log(jnp.expm1(leaf)), scale))

    def total(key: jax.Array) -> jax.Array:
        with Gaussian(estimator="flipout").layers(parameters, key)(None):
            return models.apply("recurrent", affine, x, *location.values()).sum(axis=(1, 2))

    draws = np.asarray(jax.jit(jax.vmap(total))(jax.random.split(jax.random.key(0), 20_000)), np.float64)
    sums = x.sum(axis=1)  # one weight acts on the sum over time: its variance, not the sum of variances
    variance = 0.25 * (sums**2).sum(axis=1) + 0.25 * 4**2
    squares = (draws - draws.mean(axis=0)) ** 2
    assert np.abs((squares.mean(axis=0) - variance) / (squares.std(axis=0) / np.sqrt(len(draws)))).max() < 5


def _three_times(x, y=None, loop=False):
    """A layer that is called three times, each time on its own columns of x, (row, 3 * 2)."""
    import numpyro
    import numpyro.distributions as dist

    weight = numpyro.sample("cell.weight", dist.Normal(0, 1).expand((2, 1)).to_event(2))
    bias = numpyro.sample("cell.bias", dist.Normal(0, 1).expand((1,)).to_event(1))
    parts = jnp.stack(jnp.split(jnp.asarray(x), 3, axis=1))
    if loop:
        total = jax.lax.map(lambda part: models.apply("cell", affine, part, weight, bias), parts).sum(axis=0)
    else:
        total = sum(models.apply("cell", affine, part, weight, bias) for part in parts)
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(numpyro.deterministic("total", total[:, 0]), 1.0), obs=y)


def _in_a_loop(x, y=None):
    _three_times(x, y, loop=True)


RECURRENT = {
    "flipout": (Gaussian(estimator="flipout"), 0.25, 0.25),
    "mask per unit": (Dropout(rate=0.3, masks="example"), 0.3 * 0.7, 0.0),
    "mask per weight": (Dropout(rate=0.3, masks="example", per="weight"), 0.3 * 0.7, 0.0),
}


@pytest.mark.parametrize("model", [_three_times, _in_a_loop])
@pytest.mark.parametrize("case", RECURRENT)
def test_a_layer_that_is_called_many_times_has_one_draw_per_row(case, model):
    # Weights of 1 act on the sum of the three inputs: its square times a weight's variance, not a sum of squares.
    guide, of_weight, of_bias = RECURRENT[case]
    x = GENERATOR.normal(size=(5, 6)).astype(np.float32)
    location = {"cell.weight": jnp.ones((2, 1)), "cell.bias": jnp.zeros(1)}
    parameters = (
        MeanField(location, jax.tree.map(lambda leaf: jnp.full_like(leaf, np.log(np.expm1(0.5))), location))
        if isinstance(guide, Gaussian)
        else Matrices({"cell.weight": location["cell.weight"]}, {}, {"cell.bias": location["cell.bias"]})
    )

    def total(key: jax.Array) -> jax.Array:
        substituted = handlers.substitute(guide.layers(parameters, key)(model), data=location)
        return handlers.trace(substituted).get_trace(x, jnp.zeros(5))["total"]["value"]

    draws = np.asarray(jax.jit(jax.vmap(total))(jax.random.split(jax.random.key(0), 10_000)), np.float64)
    sums = x.reshape(5, 3, 2).sum(axis=1)
    variance = of_weight * (sums**2).sum(axis=1) + of_bias * 3**2
    squares = (draws - draws.mean(axis=0)) ** 2
    assert np.abs((squares.mean(axis=0) - variance) / (squares.std(axis=0) / 100)).max() < 5
    assert abs(np.corrcoef(draws[:, 0], draws[:, 1])[0, 1]) < 5 / 100  # each row has its own


@pytest.mark.parametrize("model", [_three_times, _in_a_loop])
def test_outputs_that_are_drawn_by_themselves_are_refused_where_a_layer_is_called_many_times(model):
    x = GENERATOR.normal(size=(5, 6)).astype(np.float32)
    run = dict(method="svi", progress=False)
    with pytest.raises(ValueError, match=r"'cell' uses its own at many positions or times; use estimator=.flipout"):
        inference.run(model, x, x[:, 0], estimator="local", **run)
    with pytest.raises(ValueError, match=r"'cell' uses its own at many positions or times; use sigma=0 or masks"):
        inference.run(model, x, x[:, 0], guide="dropout", sigma=0.1, **run)
    bound = bind(model, (x, x[:, 0]), 1.0, "posterior", None)
    Dropout(sigma=0.1, masks="shared").check(bound.target, bound.data)


def test_a_model_without_layers_is_refused(conjugate):
    import numpyro
    import numpyro.distributions as dist

    def model(y=None):
        numpyro.sample("y", dist.Normal(numpyro.sample("mean", dist.Normal(0, 1)), 1), obs=y)

    with pytest.raises(ValueError, match=r"estimator=.local. needs a model with the layers of models"):
        inference.run(model, np.zeros(3), method="svi", estimator="local")
