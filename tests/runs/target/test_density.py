"""The log density: by blocks of rows, in either precision, the same numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import inference
import models
from inference.target.binding import bind

GENERATOR = np.random.default_rng(3)
X = GENERATOR.normal(size=(1000, 4)).astype(np.float32)
Y = np.sin(X[:, 0]).astype(np.float32)
LABELS = (X[:, 0] > 0).astype(np.int32) + (X[:, 1] > 0)

MODELS = {
    "learned noise": (models.mlp((5,)), Y),
    "hierarchical": (models.mlp((5,), prior=models.Hierarchical()), Y),
    "heteroscedastic": (models.mlp((5,), likelihood=models.HeteroscedasticGaussian()), Y),
    "classes": (models.mlp((5,), likelihood=models.Categorical(3)), LABELS),
    "noisy logits": (models.mlp((5,), likelihood=models.NoisyLogits(3)), LABELS),
}


@pytest.mark.parametrize(("name", "block"), [*((name, 333) for name in MODELS), ("learned noise", 100)])
def test_blocks_of_rows_sum_to_the_whole(name, block):
    # 100 divides 1,000 rows; the others leave some over.
    model, y = MODELS[name]
    with jax.enable_x64(True):
        (target, data), (blocked, _) = (bind(model, (X, y), 0.7, "posterior", size)[:2] for size in (None, block))
        assert (target.block, blocked.block) == (0, block)
        position, _ = jax.jit(target.start)(jax.random.key(0), data)
        position = jax.tree.map(lambda leaf: leaf.astype(np.float64), position)

        def evaluate(each, position):
            return each.terms(position, data), jax.grad(each.log_density)(position, data)

        whole, parts = (jax.jit(partial(evaluate, each))(position) for each in (target, blocked))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-9), whole, parts)


def test_many_rows_are_taken_in_blocks_by_themselves():
    few, many = (np.random.default_rng(0).normal(size=(rows, 1)) for rows in (20_000, 20_001))
    for x, block in ((few, 0), (many, 2048)):
        assert bind(models.mlp((2,)), (x, x[:, 0]), 1.0, "posterior")[0].block == block
    assert bind(models.mlp((2,)), (few, few[:, 0]), 1.0, "posterior", 30_000)[0].block == 0  # one block holds all


@pytest.mark.parametrize("method", ["hmc", "map"])
def test_blocks_give_the_same_draws_but_for_rounding(method):
    options = {"hmc": dict(chains=1, draws=2, warmup=0, step_size=0.01, trajectory_length=0.1, start="random")}.get(
        method, {"steps": 20}
    )
    whole, blocks = (
        inference.run(
            models.mlp((5,)), X, Y, method=method, progress=False, chunk_size=size, precision="float64", **options
        )
        for size in (None, 64)
    )
    for name in whole.draws:
        np.testing.assert_allclose(whole.draws[name], blocks.draws[name], rtol=1e-9)


def test_minibatches_of_blocked_data_keep_their_scale():
    target, data = bind(models.mlp((5,)), (X, Y), 1.0, "posterior", 64)[:2]
    position, _ = target.start(jax.random.key(0), data)
    rows = jnp.arange(1000)
    np.testing.assert_allclose(
        target.estimate(position, data, rows).log_likelihood, target.terms(position, data).log_likelihood, rtol=1e-5
    )


def test_exact_log_density_is_float64_in_the_middle_of_a_float32_program():
    target, data = bind(models.mlp((5,)), (X, Y), 1.0, "posterior")[:2]
    position, _ = target.start(jax.random.key(0), data)
    compiled = jax.jit(lambda position: (target.log_density(position, data), target.exact_log_density(position, data)))
    narrow, wide = compiled(position)
    assert (narrow.dtype, wide.dtype) == (np.float32, np.float64)
    assert jnp.ones(1).dtype == np.float32
    with jax.enable_x64(True):
        wider = jax.tree.map(lambda leaf: leaf.astype(np.float64), position)
        np.testing.assert_allclose(wide, target.log_density(wider, data), rtol=1e-14)
    np.testing.assert_allclose(narrow, wide, rtol=1e-5)


def test_layers_in_float32_leave_little_rounding_in_a_difference_of_energies():
    # Residuals of up to 300, whose terms float32 rounds by up to 0.03 each: no sum of them can be better.
    noise = np.clip(GENERATOR.standard_t(1.5, size=1000), -300, 300)
    y = (X @ np.array([1.0, -0.5, 0.3, 0.0]) + noise).astype(np.float32)
    target, data = bind(models.linear(likelihood=models.Gaussian(scale=0.35)), (X, y), 1.0, "posterior")[:2]
    narrow = replace(target, narrow=True)
    start, _ = target.start(jax.random.key(0), data)
    positions = {name: leaf + 0.01 * GENERATOR.normal(size=(40, *leaf.shape)) for name, leaf in start.items()}
    positions = jax.tree.map(lambda leaf: leaf.astype(np.float32), positions)

    def energies(function):
        return np.asarray(jax.jit(jax.vmap(lambda position: function(position, data)))(positions), np.float64)

    exact = energies(target.exact_log_density)
    errors = {
        name: float(np.std(energies(function) - exact))
        for name, function in (("plain", target.log_density), ("narrow", narrow.exact_log_density))
    }
    print(errors)
    assert errors["narrow"] < 1e-3
    assert errors["plain"] > 20 * errors["narrow"]


@pytest.mark.parametrize("name", ["hierarchical", "heteroscedastic"])
def test_layers_in_float32_need_no_products_in_float64(name):
    model, y = MODELS[name]
    target, data = bind(model, (X, y), 0.7, "posterior", 300)[:2]  # in blocks, and 100 rows are left
    position, _ = target.start(jax.random.key(0), data)

    def products(narrow: bool) -> list[bool]:
        program = jax.jit(replace(target, narrow=narrow).exact_log_density).lower(position, data).as_text()
        return ["f64" in line for line in program.splitlines() if "dot_general" in line]

    assert any(products(False))
    assert products(True)
    assert not any(products(True))


@pytest.mark.parametrize("method", ["map", "hmc", "nuts", "svi"])
def test_float64_is_an_option_without_side_effects(conjugate, method):
    options = {
        "map": {"steps": 4000}, "hmc": {"chains": 1, "draws": 5}, "nuts": {"chains": 1, "draws": 5, "warmup": 50},
        "svi": {"steps": 50, "draws": 5},
    }[method]  # fmt: skip
    before = jax.config.jax_enable_x64
    posterior = conjugate.run(method=method, precision="float64", **options)
    assert jax.config.jax_enable_x64 == before is False
    assert jnp.ones(1).dtype == np.float32
    assert all(values.dtype == np.float64 for values in posterior.draws.values())
    assert posterior.predict(conjugate.x).mean.shape == (40,)
    if method == "map":
        mean, _ = conjugate.posterior()
        np.testing.assert_allclose(conjugate.stacked(posterior)[0, 0], mean, atol=1e-8)
    narrow = conjugate.run(method=method, **options)
    assert all(values.dtype == np.float32 for values in narrow.draws.values())


def test_chunks_need_rows():
    def model(y):
        w = numpyro.sample("w", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(w, 1), obs=y)

    with pytest.raises(ValueError, match="chunk_size needs a network"):
        inference.run(model, np.zeros(3), chunk_size=2, progress=False)
