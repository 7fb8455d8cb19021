"""Data that lose digits, have no noise, or have another scale than the priors: said before anything compiles."""

from __future__ import annotations

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import inference
import models

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(40, 2))
Y = X[:, 0] + 0.3 * GENERATOR.normal(size=40)
FEW = {"method": "map", "steps": 5, "progress": False}


def test_integers_that_32_bits_do_not_hold_are_refused():
    def model(when, y=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(slope * when, 1.0), obs=y)

    with pytest.raises(ValueError, match="which 32 bits don't hold"):
        inference.run(model, np.arange(3) + 2**40, np.zeros(3), **FEW)


def test_digits_that_are_lost_are_told_from_constant_targets():
    with pytest.raises(ValueError, match=r"^y loses digits in float32: of 40 distinct values 1 are left"):
        inference.run(models.linear(), X, 1e8 + Y, **FEW)
