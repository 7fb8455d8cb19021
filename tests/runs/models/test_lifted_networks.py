"""Networks of the user's own: they compute what the module computes, and are inferred as built-in ones are."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from flax import nnx
from numpyro.infer.util import log_density

import inference
import models
from models.architectures.lifted import code_of

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(30, 2)).astype(np.float32)
Y = np.sin(X[:, 0]).astype(np.float32)
NOISE = models.Gaussian(scale=0.5)


class Flax(nnx.Module):
    """A perceptron, with a list of layers and a function among its attributes."""

    def __init__(self, hidden=4, outputs=1, rngs=None):
        rngs = rngs or nnx.Rngs(0)
        self.layers = nnx.List([nnx.Linear(2, hidden, rngs=rngs)])
        self.output = nnx.Linear(hidden, outputs, rngs=rngs)
        self.activation = jnp.tanh

    def __call__(self, x):
        for layer in self.layers:
            x = self.activation(layer(x))
        return self.output(x)


class Equinox(eqx.Module):
    """The same perceptron, on one row."""

    layers: list
    output: eqx.nn.Linear

    def __init__(self, hidden=4, outputs=1):
        first, last = jax.random.split(jax.random.key(0))
        self.layers = [eqx.nn.Linear(2, hidden, key=first)]
        self.output = eqx.nn.Linear(hidden, outputs, key=last)

    def __call__(self, x):
        for layer in self.layers:
            x = jnp.tanh(layer(x))
        return self.output(x)


LIFTED = {
    "flax": lambda **parts: models.from_flax(Flax(), **parts),
    "equinox": lambda **parts: models.from_equinox(Equinox(), **parts),
}
both = pytest.mark.parametrize("kind", LIFTED)


def _weights(kind: str) -> tuple[dict, dict]:
    """The same weights for the lifted and for the built-in perceptron."""
    built = {
        name: GENERATOR.normal(size=shape).astype(np.float32) for name, shape in models.mlp((4,)).weights(X).items()
    }
    turn = (lambda value: value.T) if kind == "equinox" else (lambda value: value)
    names = {name: name.replace("hidden0", "layers.0") for name in built}
    return {names[name]: turn(value) for name, value in built.items()}, built


@both
def test_the_density_is_that_of_the_built_in_network(kind):
    prior = {"default": 1.0, "bias": dist.Laplace(0.0, 2.0), "weight": models.Normal(1.0, fan_in=True)}
    lifted, built = LIFTED[kind](prior=prior, likelihood=NOISE), models.mlp((4,), "tanh", prior, NOISE)
    ours, theirs = _weights(kind)
    values = [
        jax.jit(lambda weights, model=model: log_density(model, (X, Y), {}, weights)[0])(weights)
        for model, weights in ((lifted, ours), (built, theirs))
    ]
    np.testing.assert_allclose(*values, rtol=1e-5)


@both
def test_rules_by_path_layer_and_kind(kind):
    priors = {"layers.0.weight": 0.1, "output": 0.2, "bias": 0.3}
    model = LIFTED[kind](prior=priors, likelihood=NOISE)
    scales = {site.name: model.prior.scale_of(site) for site in model.sites(X)}
    assert scales == {"layers.0.bias": 0.3, "layers.0.weight": 0.1, "output.bias": 0.2, "output.weight": 0.2}
    with pytest.raises(ValueError, match=r"prior has a rule for 'layers\.1', which this network does not have"):
        LIFTED[kind](prior={"default": 1.0, "layers.1": 2.0}).validate(X)


def test_a_lifted_line_has_the_draws_of_the_built_in_one(conjugate):
    """Not those of the prior, in particular: the posterior is the conjugate one that accuracy tests check."""

    class Line(nnx.Module):
        def __init__(self):
            self.output = nnx.Linear(3, 1, rngs=nnx.Rngs(0))

        def __call__(self, x):
            return self.output(x)[:, 0]

    module = Line()
    before = np.asarray(module.output.kernel[...])
    model = models.from_flax(module, models.Normal(conjugate.prior), models.Gaussian(scale=conjugate.noise))
    options = dict(method="nuts", chains=2, draws=300, warmup=200, seed=3, progress=False)
    lifted = inference.run(model, conjugate.x, conjugate.y, **options)
    built = conjugate.run(**{key: value for key, value in options.items() if key != "progress"})
    for name, draws in built.draws.items():
        np.testing.assert_allclose(lifted.draws[name], draws, rtol=1e-3, atol=1e-3)
    mean, precision = conjugate.posterior()
    assert (
        np.abs(conjugate.stacked(lifted).mean(axis=(0, 1)) - mean) < 0.2 * np.sqrt(np.diag(np.linalg.inv(precision)))
    ).all()
    np.testing.assert_array_equal(np.asarray(module.output.kernel[...]), before)  # and holds no value of a trace


class Images(nnx.Module):
    """Convolutions of several kinds, a normalisation, and a shape that is not a site."""

    def __init__(self):
        rngs = nnx.Rngs(1)
        self.first = nnx.Conv(1, 3, (3, 3), rngs=rngs)
        self.second = nnx.Conv(3, 4, (3, 3), strides=2, padding="VALID", use_bias=False, rngs=rngs)
        self.dilated = nnx.Conv(4, 4, (2, 2), kernel_dilation=2, rngs=rngs)
        self.normalised = nnx.LayerNorm(4, rngs=rngs)
        self.output = nnx.Linear(4, 3, rngs=rngs)
        self.scale = jnp.array([1.0, 2.0, 3.0])

    def __call__(self, x):
        x = nnx.relu(self.second(nnx.relu(self.first(x))))
        x = self.normalised(self.dilated(x)).mean(axis=(1, 2))
        return self.output(x) * self.scale


def _of_module(module: nnx.Module) -> dict[str, jax.Array]:
    state = nnx.to_flat_state(nnx.state(module, nnx.Param))
    return {".".join(map(str, path)).replace("kernel", "weight"): value[...] for path, value in state}


def test_a_lifted_network_computes_what_the_module_computes():
    module, x = Images(), GENERATOR.normal(size=(5, 8, 8, 1)).astype(np.float32)
    model = models.from_flax(module, likelihood=models.Categorical(3))
    weights = _of_module(module)
    assert set(model.weights(x)) == set(weights)
    outputs = models_outputs(model, weights, x)
    np.testing.assert_allclose(outputs, module(x), rtol=1e-4, atol=1e-5)
    sites = {site.name: site for site in model.sites(x)}
    assert sites["normalised.scale"].start == 1.0
    assert sites["first.weight"].fan_in == 9
    assert sites["second.weight"].fan_in == sites["first.weight"].fan_in * 3


def models_outputs(model, weights, x):
    from numpyro import handlers

    return jax.jit(lambda weights: handlers.substitute(model.heads, data=weights)(x))(weights)


@pytest.mark.parametrize(
    "options", [dict(guide="dropout", rate=0.2), dict(estimator="local"), dict(estimator="flipout")], ids=str
)
def test_guides_know_the_layers_of_flax_and_not_those_of_equinox(options):
    run = dict(method="svi", steps=20, draws=5, progress=False, **options)
    posterior = inference.run(LIFTED["flax"](likelihood=NOISE), X, Y, **run)
    assert posterior.predict(X).mean.shape == (30,)
    if "rate" in options:
        assert (posterior.draws["layers.0.weight"] == 0).any()
    with pytest.raises(ValueError, match=r"this one has none; guide='gaussian' with estimator='weights' serves any"):
        inference.run(LIFTED["equinox"](likelihood=NOISE), X, Y, **run)


def test_a_convolution_uses_its_weights_at_many_places():
    x = GENERATOR.normal(size=(5, 8, 8, 1)).astype(np.float32)
    model = models.from_flax(Images(), likelihood=models.Categorical(3))
    with pytest.raises(ValueError, match="'first' uses its own at many positions"):
        inference.run(model, x, np.arange(5) % 3, method="svi", estimator="local", progress=False)


@both
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_it_is_saved_and_the_module_is_passed_again(tmp_path, kind, precision):
    model = LIFTED[kind](likelihood=NOISE)
    posterior = inference.run(model, X, Y, method="map", steps=5, precision=precision, progress=False)
    posterior.save(tmp_path / "p.npz")
    loaded = inference.load(tmp_path / "p.npz", LIFTED[kind](likelihood=NOISE))
    np.testing.assert_array_equal(loaded.predict(X).mean, posterior.predict(X).mean)
    assert posterior.draws["output.weight"].dtype == precision
    with pytest.raises(ValueError, match="holds draws of your own model"):
        inference.load(tmp_path / "p.npz")
    wider = Flax(hidden=5) if kind == "flax" else Equinox(hidden=5)
    with pytest.raises(ValueError, match="model is not the one in"):
        inference.load(tmp_path / "p.npz", getattr(models, f"from_{kind}")(wider, likelihood=NOISE))


@both
def test_in_words_it_is_its_name_and_its_parameters(kind):
    words = str(LIFTED[kind]().architecture)
    weight = {"flax": "layers.0.weight (2, 4)", "equinox": "layers.0.weight (4, 2)"}[kind]
    assert words.startswith(f"{kind.title()} ({kind}): ")
    assert weight in words
    assert "0x" not in words  # no address, which every process has another of


@both
def test_equal_modules_are_equal_networks(kind):
    assert LIFTED[kind]() == LIFTED[kind]()
    assert hash(LIFTED[kind]()) == hash(LIFTED[kind]())


class Part(nnx.Module):
    """A module around one other part."""

    def __init__(self, part):
        self.part, self.output = part, nnx.Linear(2, 1, rngs=nnx.Rngs(0))

    def __call__(self, x):
        return self.output(x)


class Settings(nnx.Module):
    """A module with a list that is no layer."""

    def __init__(self):
        self.output, self.sizes = nnx.Linear(2, 1, rngs=nnx.Rngs(0)), nnx.static([16, 16])

    def __call__(self, x):
        return self.output(x)


class Count(nnx.Variable):
    """A state that is no parameter."""


def test_other_settings_are_another_network(tmp_path):
    tanh, relu = (
        models.from_equinox(eqx.nn.MLP(2, 1, 3, 1, activation=activation, key=jax.random.key(0)), likelihood=NOISE)
        for activation in (jnp.tanh, jax.nn.relu)
    )
    assert models.to_recipe(tanh) != models.to_recipe(relu)
    inference.run(tanh, X, Y, method="map", steps=2, progress=False).save(tmp_path / "p.npz")
    with pytest.raises(ValueError, match="model is not the one in"):
        inference.load(tmp_path / "p.npz", relu)
    strides = [models.from_flax(Strided(stride), likelihood=models.Categorical(3)) for stride in (1, 2)]
    assert models.to_recipe(strides[0]) != models.to_recipe(strides[1])


class Chain(eqx.Module):
    """Layers and functions in one list, some of them in pairs."""

    layers: list

    def __init__(self, activation):
        first, last = jax.random.split(jax.random.key(0))
        self.layers = [(eqx.nn.Linear(2, 3, key=first), activation), (eqx.nn.Linear(3, 1, key=last), jax.nn.relu)]

    def __call__(self, x):
        (first, activation), (last, _) = self.layers
        return last(activation(first(x)))


def test_functions_inside_containers_are_settings_too():
    recipes = [
        models.to_recipe(models.from_equinox(Chain(activation), likelihood=NOISE))
        for activation in (jnp.tanh, jax.nn.relu, partial(jax.nn.leaky_relu, negative_slope=0.3), jnp.tanh)
    ]
    assert recipes[0] == recipes[3]
    assert recipes[0] != recipes[1] != recipes[2]
    assert "0x" not in code_of([Chain(jax.nn.relu)], [])


def test_a_fingerprint_does_not_depend_on_where_the_class_comes_from(monkeypatch):
    before = models.to_recipe(LIFTED["flax"]())
    elsewhere = ModuleType("elsewhere")
    elsewhere.__file__ = __file__
    monkeypatch.setitem(sys.modules, "elsewhere", elsewhere)
    monkeypatch.setattr(Flax, "__module__", "elsewhere")
    assert models.to_recipe(LIFTED["flax"]()) == before


def test_the_gains_of_a_normalisation_keep_their_prior_under_fan_in():
    class Normed(eqx.Module):
        norm: eqx.nn.LayerNorm
        output: eqx.nn.Linear

        def __init__(self):
            self.norm, self.output = eqx.nn.LayerNorm(2), eqx.nn.Linear(2, 1, key=jax.random.key(0))

        def __call__(self, x):
            return self.output(self.norm(x))

    model = models.from_equinox(Normed(), models.Normal(1.0, fan_in=True), NOISE)
    scales = {site.name: model.prior.scale_of(site) for site in model.sites(X)}
    assert scales["norm.weight"] == 1.0
    assert scales["output.weight"] == pytest.approx(1 / np.sqrt(2))


class Strided(nnx.Module):
    """A convolution with a stride."""

    def __init__(self, stride):
        self.conv = nnx.Conv(1, 3, (3, 3), strides=stride, rngs=nnx.Rngs(0))

    def __call__(self, x):
        return self.conv(x).mean(axis=(1, 2))


def test_layers_that_are_mapped_or_called_on_a_vector_compute_what_flax_computes():
    class Mapped(nnx.Module):
        def __init__(self):
            rngs = nnx.Rngs(3)
            self.inner, self.output = nnx.Linear(2, 4, rngs=rngs), nnx.Linear(4, 1, rngs=rngs)
            self.vector = nnx.Param(jnp.ones(2))

        def __call__(self, x):
            return self.output(jax.vmap(self.inner)(x) + self.inner(self.vector[...]))

    module = Mapped()
    model = models.from_flax(module, likelihood=NOISE)
    weights = _of_module(module)
    weights["module.vector"] = weights.pop("vector")
    np.testing.assert_allclose(models_outputs(model, weights, X), module(X), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="is for the layers of models, which 'inner' is not"):
        inference.run(model, X, Y, method="svi", guide="dropout", progress=False)


@pytest.mark.parametrize(
    "options", [dict(method="laplace", structure="last_layer"), dict(method="hmc", keep="last_layer")]
)
def test_which_layer_is_the_last_is_not_known(options):
    with pytest.raises(ValueError, match="the last layer of a lifted network is not known"):
        inference.run(LIFTED["flax"](likelihood=NOISE), X, Y, progress=False, **options)


def test_attention_of_equinox_has_a_dropout_that_drops_nothing():
    class Attends(eqx.Module):
        attention: eqx.nn.MultiheadAttention

        def __init__(self):
            self.attention = eqx.nn.MultiheadAttention(1, 2, output_size=1, key=jax.random.key(0))

        def __call__(self, x):
            return self.attention(x[None], x[None], x[None])[0]

    assert models.from_equinox(Attends(), likelihood=NOISE).weights(X)


def _stateful():
    layers = lambda: eqx.nn.Sequential([eqx.nn.BatchNorm(2, "rows", mode="batch")])  # noqa: E731
    return eqx.nn.make_with_state(layers)()[0]


RNGS = nnx.Rngs(0)
REFUSED = {
    "flax batch norm": (lambda: models.from_flax(Part(nnx.BatchNorm(2, rngs=RNGS))), "use nnx.LayerNorm"),
    "flax dropout": (lambda: models.from_flax(Part(nnx.Dropout(0.1, rngs=RNGS))), 'guide="dropout"'),
    "flax state": (lambda: models.from_flax(Part(Count(jnp.zeros(())))), "keeps state at part, a Count"),
    "equinox batch norm": (lambda: models.from_equinox(_stateful()), "use eqx.nn.LayerNorm"),
    "equinox dropout": (
        lambda: models.from_equinox(eqx.nn.Sequential([eqx.nn.Dropout(0.5)])),
        'guide="dropout"',
    ),
    "no parameters": (lambda: models.from_equinox(eqx.nn.Identity()), "has no parameters"),
    "not flax": (lambda: models.from_flax(Equinox()), "for equinox use from_equinox"),
    "not equinox": (lambda: models.from_equinox(Flax()), "for flax use from_flax"),
    "a list of settings": (lambda: models.from_flax(Settings()), "make lists of settings tuples"),
    "whole images": (
        lambda: models.from_flax(Images(), likelihood=models.Categorical(3)).validate(np.zeros((2, 8, 8, 1), np.uint8)),
        "scale them first",
    ),
    "wrong width": (
        lambda: LIFTED["flax"](likelihood=models.Categorical(3)).validate(X),
        r"Flax gives outputs of shape \(1, 1\) for 1 rows, and the likelihood needs \(1, 3\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_posterior_is_refused(case):
    make, message = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_tokens_outside_the_table_are_refused():
    class Words(nnx.Module):
        def __init__(self):
            rngs = nnx.Rngs(0)
            self.table, self.output = nnx.Embed(7, 3, rngs=rngs), nnx.Linear(3, 2, rngs=rngs)

        def __call__(self, x):
            return self.output(self.table(x).mean(axis=1))

    model = models.from_flax(Words(), likelihood=models.Categorical(2))
    tokens = GENERATOR.integers(0, 7, size=(12, 4))
    posterior = inference.run(model, tokens, np.arange(12) % 2, method="svi", guide="dropout", steps=20, progress=False)
    assert posterior.draws["table.weight"].shape[2:] == (7, 3)
    with pytest.raises(ValueError, match=r"has tokens from .* to 7, and Words embeds 0 to 6"):
        model.validate(tokens + 1)
