"""Spaces: every weight is screened, the worst and an even spread of them are measured, and large networks fit."""

from __future__ import annotations

import numpy as np

from diagnostics.convergences import spaces
from diagnostics.convergences.spaces import Mixing


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_the_screen_is_the_plain_r_hat_of_halves():
    import arviz as az

    draws = _normal(4, 30, 5) + np.arange(4)[:, None, None] * np.linspace(0, 1, 5)
    halves = np.concatenate([draws[:, :15], draws[:, -15:]])
    expected = az.rhat(az.convert_to_dataset({"q": halves}), method="identity")["q"]
    np.testing.assert_allclose(spaces._screen(draws)[1], expected, rtol=1e-6)


def test_mixing_of_one_chain_is_judged_by_its_halves():
    found = Mixing(_normal(1, 100, 2).astype(np.float64), ("a", "b"), 2)
    assert np.isnan(found.rhat).all()
    np.testing.assert_array_equal(found.judged_rhat, found.chainwise_rhat[0])
