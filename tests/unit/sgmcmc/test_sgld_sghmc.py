"""SGLD and SGHMC against the stationary covariance that their own recursion has on a normal target."""

from __future__ import annotations

import re

import numpy as np
import pytest

import inference
from inference.sgmcmc.temperatures import Bias
from tests.helpers.normal_target import NormalTarget


@pytest.fixture(scope="module")
def normal() -> NormalTarget:
    return NormalTarget()


def _temperatures(mean: float, spread: float, draws: int = 200) -> dict[str, np.ndarray]:
    values = mean + spread * np.random.default_rng(0).standard_normal((2, draws))
    return {
        "configurational_temperature": values,
        "kinetic_temperature": values,
        "gradient_noise_ratio": 0.3 + 0 * values,
    }


@pytest.mark.parametrize(
    ("mean", "spread", "draws", "words"),
    [
        (0.4, 1.0, 200, r"the configurational temperature is 0\.\d+ .* not 2; the chains have not spread out"),
        (6.0, 1.0, 200, "the configurational temperature is 6.* not 2; the step is too long"),
        (1.2, 0.1, 200, ""),  # near
        (0.4, 4.0, 200, ""),  # not known well enough
        (0.4, 0.1, 99, ""),  # too few to say
    ],
)
def test_a_temperature_far_away_is_said(mean, spread, draws, words):
    _, *found = Bias.of(_temperatures(mean, spread, draws), 2.0).concerns(control_variates=True)
    assert re.match(words, found[0]) if words else found == []


def test_control_variates_are_recommended_where_they_are_off():
    bias = Bias.of(_temperatures(1.0, 1.0), 1.0)
    assert "a smaller step_size, a larger batch_size or control_variates=True" in bias.concerns(False)[0]
    assert bias.concerns(True)[0].endswith("use a smaller step_size or a larger batch_size")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"batch_size": 100}, ValueError, "batch_size must be at most the number of rows, 60, got 100"),
        ({"step_size": -1.0}, ValueError, "step_size must be"),
        ({"schedule": "cosine"}, ValueError, "schedule must be one of"),
        ({"schedule": "cyclical", "cycles": 1000}, ValueError, "1000 cycles must divide draws and warmup"),
        ({"schedule": "cyclical", "cycles": 3}, ValueError, "3 cycles must divide draws and warmup"),
        ({"preconditioner": "adam"}, ValueError, "preconditioner must be one of"),
        ({"control_variates": True}, ValueError, "control_variates need minibatches"),
        ({"control_variates": "yes", "batch_size": 5}, TypeError, "control_variates must be True or False"),
        ({"cycles": 3}, ValueError, 'cycles are those of schedule="cyclical"'),
        ({"step_size": 0.1, "tuning": 30}, ValueError, "tuning is the length of a pilot"),
        ({"step_size": 1e-60}, ValueError, "float32 can't hold step_size=1e-60"),
        ({"draws": 10_000_000, "thin": 1000}, ValueError, "at most 2,147,483,647 steps; .* is 10,000,010,000"),
        ({"warmup": 3_000_000_000}, ValueError, "at most 2,147,483,647 steps"),
        ({"method": "sghmc", "friction": 1.5}, ValueError, "friction must be"),
        ({"friction": 0.5}, ValueError, "'friction' is not an option of sgld; it is an option of sghmc"),
    ],
)
def test_bad_options(normal, options, error, message):
    with pytest.raises(error, match=message):
        inference.run(normal.model, normal.x, normal.y, **({"method": "sgld", "progress": False} | options))
