"""Convolutions, filter responses, embeddings and recurrences against other people's code, and under handlers."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from numpyro import handlers

import models
from models.architectures.convolutions import Convolution, average_pool, filter_response, max_pool
from models.architectures.sequences import Lookup, lstm
from models.layers import affine
from tests.helpers.traces import traced

GENERATOR = np.random.default_rng(0)


def _normal(*shape) -> jax.Array:
    return jnp.asarray(GENERATOR.normal(size=shape), jnp.float32)


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("shape", "kernel"), [((3, 9, 8, 2), (3, 3)), ((3, 11, 4), (5,)), ((2, 6, 7, 3), (1, 1))])
def test_patches_are_xlas_convolution(shape, kernel, stride, padding):
    x, weight, bias = _normal(*shape), _normal(*kernel, shape[-1], 4), _normal(4)
    letters = "HW"[: len(kernel)]
    layout = (f"N{letters}C", f"{letters}IO", f"N{letters}C")

    def theirs(x, weight, bias):
        strides = (stride,) * len(kernel)
        return lax.conv_general_dilated(x, weight, strides, padding.upper(), dimension_numbers=layout) + bias

    ours = Convolution(stride, padding)
    assert jax.default_backend() == "cpu"  # where patches are used

    @partial(jax.jit, static_argnums=0)
    def both(function, *args):
        gradient = jax.grad(lambda *args: jnp.sum(jnp.sin(function(*args))), (0, 1, 2))(*args)
        return function(*args), *gradient

    found = [both(function, x, weight, bias) for function in (ours, theirs)]
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=2e-5, atol=2e-5)
    for mine, other in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)


def test_other_devices_use_xlas_convolution(monkeypatch):
    x, weight = _normal(2, 5, 5, 1), _normal(3, 3, 1, 2)
    ours = jax.jit(lambda x, weight: Convolution()(x, weight))(x, weight)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "conv_general_dilated" in str(jax.make_jaxpr(Convolution())(x, weight))
    theirs = jax.jit(lambda x, weight: Convolution()(x, weight))(x, weight)
    np.testing.assert_allclose(theirs, ours, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("function", "x", "shape"),
    [
        (affine, _normal(4, 3), (3, 2)),
        (affine, _normal(4, 5, 3), (3, 2)),
        (Convolution(2), _normal(4, 6, 6, 3), (3, 3, 3, 2)),
        (Convolution(1, "valid"), _normal(4, 7, 3), (5, 3, 2)),
        (Lookup(), GENERATOR.integers(0, 6, (4, 5)), (6, 2)),
    ],
    ids=["dense", "positions", "2-d", "1-d", "lookup"],
)
def test_a_row_with_its_own_scales_or_weights_is_that_row_alone(function, x, shape):
    weights, scale = _normal(4, *shape), _normal(4, shape[-2])
    weights, scale, alone = np.asarray(weights), np.asarray(scale), jax.jit(function.__call__)
    by_row, scaled = jax.jit(function.by_row)(x, weights), jax.jit(function.scaled)(x, scale, weights[0])
    for i in range(4):
        row = x[i : i + 1]
        np.testing.assert_allclose(by_row[i], alone(row, weights[i])[0], rtol=1e-5, atol=1e-5)
        # Scaling an input unit is scaling its weights.
        np.testing.assert_allclose(scaled[i], alone(row, scale[i][:, None] * weights[0])[0], rtol=1e-5, atol=1e-5)


def test_pools_leave_out_what_fills_no_block():
    x = jnp.arange(2 * 5 * 4.0).reshape(2, 5, 4, 1)
    np.testing.assert_array_equal(max_pool(x, 2)[0, :, :, 0], [[5, 7], [13, 15]])
    np.testing.assert_array_equal(average_pool(x, 2)[0, :, :, 0], [[2.5, 4.5], [10.5, 12.5]])
    np.testing.assert_array_equal(max_pool(x[:, :, 0], 4)[:, 0, 0], [12, 32])


def test_the_filter_response_is_its_equation_and_rows_do_not_meet():
    x, site = _normal(3, 4, 5, 2), {"norm.gain": _normal(2), "norm.offset": _normal(2), "norm.threshold": _normal(2)}
    normalise = jax.jit(handlers.substitute(lambda x: filter_response("norm", x, models.Normal(1.0)), data=site))
    x = np.asarray(x)
    expected = x / np.sqrt(np.mean(x**2, axis=(1, 2), keepdims=True) + 1e-6)
    expected = np.maximum(site["norm.gain"] * expected + site["norm.offset"], site["norm.threshold"])
    np.testing.assert_allclose(normalise(x), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(normalise(x[1:2]), expected[1:2], rtol=1e-5, atol=1e-6)


def test_the_lstm_is_flaxs():
    nnx = pytest.importorskip("flax.nnx", reason="the extra flax is not installed")
    cell = nnx.OptimizedLSTMCell(3, 4, rngs=nnx.Rngs(0))
    kernels = {name: np.asarray(getattr(cell, name).kernel[...]) for name in ("dense_i", "dense_h")}
    bias = _normal(16)
    cell.dense_h.bias[...] = jnp.asarray(bias)
    x = _normal(2, 6, 3)
    carry = (jnp.zeros((2, 4)), jnp.zeros((2, 4)))
    step = nnx.jit(lambda cell, carry, now: cell(carry, now))
    for t in range(6):
        carry, output = step(cell, carry, x[:, t])
    # Flax orders the gates i, f, g, o where ours are i, g, f, o, and adds no 1 to the forget gate.
    order = np.concatenate([np.arange(4) + 4 * gate for gate in (0, 2, 1, 3)])
    ours_bias = bias[order] - np.where(np.arange(16) // 4 == 2, 1.0, 0.0)
    weight = np.concatenate([kernels["dense_i"], kernels["dense_h"]])[:, order]
    site = {"lstm.weight": jnp.asarray(weight), "lstm.bias": jnp.asarray(ours_bias, jnp.float32)}
    ours = jax.jit(handlers.substitute(lambda x: lstm("lstm", x, 4, models.Normal(1.0)), data=site))(x)
    np.testing.assert_allclose(ours, output, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stochastic", [models.Normal(1.0), models.Hierarchical()], ids=["normal", "hierarchical"])
def test_every_layer_asks_its_prior_once(stochastic):
    model = models.resnet20_frn(8, 2, prior=stochastic, likelihood=models.Categorical(3))
    trace = traced(model, _normal(2, 8, 8, 3))
    layers = {name.split(".")[0] for name in trace if name.endswith(".weight")}
    assert len(layers) == 1 + 6 + 2 + 1
    assert all(f"{layer}.gain" in trace for layer in layers - {"output"})
    if isinstance(stochastic, models.Hierarchical):
        assert {f"{layer}.scale" for layer in layers} == {name for name in trace if name.endswith(".scale")}
