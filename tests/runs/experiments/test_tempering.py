"""Averaged augmentations leave the data count as it is: the density of all copies is that of the rows."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import models
from data import Scaler, Split
from experiments.tempering import augmented, tempered
from inference.target.binding import bind

MODEL = models.mlp((4,), "silu", models.Normal(0.3), models.Categorical(3))
SHIFTS = ((0, 0), (1, 0), (0, 1))
GENERATOR = np.random.default_rng(0)


@pytest.fixture
def split():
    scaler = Scaler(np.zeros(()), np.ones(()), np.zeros(()), np.ones(()))
    x = GENERATOR.normal(size=(12, 5, 5)).astype(np.float32)
    return Split(x, GENERATOR.integers(0, 3, 12), scaler, "made up", 3, (5, 5)).flat()


def _gradient(model, rows, temperature, tempering):
    """The gradient of the log density, which has no constants, at one position."""
    bound = bind(model, (rows.x, rows.y), temperature, tempering)
    data = jax.tree.map(jnp.asarray, bound.data)
    generator = np.random.default_rng(1)
    position = {
        name: jnp.asarray(generator.normal(size=shape) * 0.3, jnp.float32)
        for name, shape in sorted(model.shapes(rows.x).items())
    }
    return jax.grad(bound.target.log_density)(position, data)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_equal_copies_count_as_one_row(split, temperature):
    expected = _gradient(MODEL, split, temperature, "posterior")
    same = augmented(split, ((0, 0),) * 4)
    model, options = tempered(MODEL, 4, temperature)
    found = _gradient(model, same, **options)
    for name, each in expected.items():
        np.testing.assert_allclose(found[name], each, rtol=2e-4, atol=2e-4)


def test_different_copies_are_averaged(split):
    parts = [_gradient(MODEL, augmented(split, (shift,)), 1.0, "posterior") for shift in SHIFTS]
    model, options = tempered(MODEL, len(SHIFTS), 1.0)
    found = _gradient(model, augmented(split, SHIFTS), **options)
    for name, each in found.items():
        expected = np.mean([part[name] for part in parts], axis=0)
        np.testing.assert_allclose(each, expected, rtol=2e-4, atol=2e-4)
    assert any(np.abs(parts[0][name] - each).max() > 0.1 for name, each in found.items())  # the shifts do matter


def test_the_split_is_not_touched(split):
    before = replace(split)
    augmented(split)
    np.testing.assert_array_equal(split.x, before.x)
