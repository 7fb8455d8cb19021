"""MCLMC as an algorithm: what its warm-up finds, what it takes back and refuses, and what it says about its draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import inference
from inference.mcmc.mclmc import MCLMC


def test_defaults_follow_the_kind_and_what_would_be_ignored_is_refused():
    plain = MCLMC()
    adjusted = replace(plain, adjusted=True)
    assert adjusted == MCLMC(adjusted=True)
    assert (plain.iterations, plain.kept[0]) == (20_000 + 150 * 500, 20_149)
    assert (adjusted.iterations, adjusted.kept[0]) == (500 + 500, 500)
    with pytest.raises(ValueError, match="energy_variance is of no use with adjusted=True; leave it out"):
        MCLMC(adjusted=True, energy_variance=1e-3)
    with pytest.raises(ValueError, match="target_acceptance is of no use with adjusted=False; leave it out"):
        MCLMC(target_acceptance=0.8)


@pytest.mark.parametrize("times", [20.0, 50.0])
def test_rough_steps_are_said(times):
    statistics = {"energy_variance": np.array([[5e-4, 5e-4], [0.0, 2 * times * 5e-4]])}
    said = MCLMC().concerns(None, None, statistics, [0, 3])
    expected = "chain 3 made steps with an energy variance of 0.025 per coordinate, 50 times what was aimed at"
    assert (expected in said[0]) if times == 50 else not said


def test_one_unknown_has_no_direction(counted):
    def model(y=None):
        numpyro.sample("y", dist.Normal(numpyro.sample("w", dist.Normal(0, 1)), 1.0), obs=y)

    with pytest.raises(ValueError, match=r'mclmc: the model must have at least 2 unknowns.*use "nuts"'):
        inference.run(model, np.zeros(3), method="mclmc", progress=False)
    assert counted("compile") == 0
