"""Convergence: right numbers from ArviZ, no certificate for degenerate chains, and the right words."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest

import models
from inference import mixing


def _draws(shape=(4, 300, 3), seed=0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def test_numbers_are_those_of_arviz():
    draws = np.cumsum(_draws(), axis=1) * 0.1 + _draws(seed=1)
    dataset = az.convert_to_dataset({"q": draws})
    np.testing.assert_allclose(mixing.rhat(draws), az.rhat(dataset)["q"])
    np.testing.assert_allclose(mixing.ess(draws), az.ess(dataset)["q"])
    np.testing.assert_allclose(mixing.ess(draws, "tail"), az.ess(dataset, method="tail", prob=(0.05, 0.95))["q"])
    np.testing.assert_allclose(mixing.mcse(draws), az.mcse(dataset, method="mean")["q"])


def test_independent_draws_pass():
    draws = _draws((4, 1000, 20))
    assert mixing.rhat(draws).max() < 1.01
    assert mixing.ess(draws).min() > 3000
    assert mixing.chainwise_rhat(draws).max() < 1.02


DEGENERATE = {
    "identical frozen chains": lambda d: np.ones_like(d),
    "frozen at different points": lambda d: np.broadcast_to(np.arange(4.0)[:, None, None], d.shape),
    "one frozen chain": lambda d: np.where(np.arange(4)[:, None, None] == 2, 0.5, d),
    "four copies of one chain": lambda d: np.repeat(d[:1], 4, axis=0),
    "two chains of four alike": lambda d: d[[0, 1, 2, 2]],
    "all moved once": lambda d: np.where((np.arange(300) == 0)[None, :, None], d, np.arange(4.0)[:, None, None]),
    "one NaN": lambda d: np.where((np.arange(300) == 7)[None, :, None], np.nan, d),
    "one infinity": lambda d: np.where((np.arange(300) == 7)[None, :, None], np.inf, d),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_chains_are_never_certified(case):
    draws = DEGENERATE[case](_draws())
    assert (mixing.rhat(draws) == np.inf).all()
    assert (mixing.ess(draws) == 0).all()
    assert (mixing.ess(draws, "tail") == 0).all()
    assert (mixing.mcse(draws) == np.inf).all()


def test_one_chain_is_apart_from_itself_where_its_halves_differ():
    draws = _draws((1, 1000, 2))
    assert not mixing.apart(draws, 1.01).any()
    draws[0, 500:, 1] += 0.7
    assert mixing.apart(draws, 1.01).tolist() == [False, True]
    assert mixing.apart(_draws((1, 6, 1)), 1.01).all()  # too short to tell


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_chains_are_always_apart(case):
    assert mixing.apart(DEGENERATE[case](_draws()), 1.5).all()


def test_probabilities_that_round_to_1_are_not_frozen():
    logits = np.zeros((4, 300, 1, 3), np.float32)
    logits[..., 0] = 60 + np.random.default_rng(0).normal(size=(4, 300, 1))
    likelihood = models.Categorical(3)
    assert (likelihood.probabilities(logits)[..., 0] == 1).all()
    values = likelihood.functions(logits)[:, :, 0]
    np.testing.assert_allclose(values[..., 0], logits[:, :, 0, 0] - np.log(2), rtol=1e-6)
    assert mixing.ess(values).min() > 500
