"""Whether a loss has settled: curves with a known answer, and fits that were too short."""

from __future__ import annotations

import re

import numpy as np
import pytest

import inference
import models
from diagnostics import convergence
from diagnostics.convergences.loss import Settling

STEPS = np.arange(1000)
NOISE = np.random.default_rng(0).normal(size=1000)
CURVES = {
    "settled": (100 * np.exp(-STEPS / 50) + NOISE, None),
    "falling": (100 * np.exp(-STEPS / 600) + NOISE, "still falling at the end"),
    "rising": (100 * np.exp(-STEPS / 50) + np.maximum(STEPS - 850, 0) * 0.05 + NOISE, "rising at the end"),
    "stopped": (100 - 0.1 * np.minimum(STEPS, 750) + NOISE, "steps ran out: .* fell by 25.*, 33% of its whole descent"),
    "a little below": (100 * np.exp(-STEPS / 50) + 0.5 * (STEPS < 700) + NOISE, None),  # 0.5 % of the descent
    "of no account": (0.05 * (STEPS < 700) + 1e-3 * NOISE, None),
    "never above": (
        np.where(STEPS == 0, -50.0, 5.0 * (STEPS < 700)) + NOISE,
        "fell by 5.*; use more",
    ),
}


@pytest.mark.parametrize("case", CURVES)
def test_a_curve_is_told_what_it_did(case):
    curve, message = CURVES[case]
    failures = Settling.of(curve).failures(3.0)
    if message is None:
        assert failures == []
    else:
        (failure,) = failures if case != "falling" else failures[:1]
        assert re.search(message, failure), failure


@pytest.mark.parametrize("steps", [100, 300, 3000])
def test_a_learning_rate_that_has_decayed_does_not_settle_a_guide(steps):
    # The last fifth is flat at any length, because the steps have become short; 300 of them are too few.
    x = np.random.default_rng(2).normal(size=(40, 2)).astype(np.float32)
    model = models.mlp((3,), "tanh", likelihood=models.Gaussian(scale=0.3))
    options = dict(method="svi", guide="dropout", rate=0.05, steps=steps, draws=30, progress=False)
    judged = convergence(inference.run(model, x, 2 * x.sum(axis=1), **options))
    assert abs(judged.loss_slope) < 3
    assert judged.passed is (False if steps < 3000 else None)
    assert ("had not settled when the steps ran out" in judged.verdict) is (steps < 3000)
    assert any("the steps ran out" in failure for failure in judged.failures) is (steps < 3000)


def test_what_was_made_of_a_guide_is_called_what_it_is(conjugate):
    posterior = conjugate.run(method="svi", steps=2000, draws=30)
    centre = convergence(inference.centre(posterior))
    assert str(centre) == "One draw: there is no convergence to judge."
    assert centre.passed is None
    pruned = convergence(inference.prune(posterior, 0.5))
    assert pruned.passed is None
    assert "were changed since, as by pruning" in str(pruned)
    assert "singular" not in str(pruned)
