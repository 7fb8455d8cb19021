"""What samplers without a Metropolis step measure of themselves, and what is said about it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import diagnostics
import inference
import models


@pytest.fixture(scope="module")
def posterior() -> inference.Posterior:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(50, 2))
    model = models.linear(likelihood=models.Gaussian(scale=0.5))
    return inference.run(
        model, x, x[:, 0], method="sghmc", batch_size=10, chains=2, draws=200, thin=20, warmup=200, temperature=2.0,
        progress=False,
    )  # fmt: skip


def test_temperatures_and_noise_are_those_of_the_draws(posterior):
    bias = diagnostics.convergence(posterior).bias
    assert bias is not None
    assert bias.temperature == 2.0
    assert abs(bias.kinetic / 2 - 1) < 0.1
    assert abs(bias.configurational / 2 - 1) < 0.2
    assert bias.configurational == pytest.approx(posterior.statistics["configurational_temperature"].mean())
    assert 0 < bias.configurational_error < 0.3
    assert 0.01 < bias.noise_ratio < 0.1
    assert "no Metropolis step" in diagnostics.convergence(posterior).verdict


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("configurational_temperature", 3.0, "configurational temperature 3 .* instead of 2: the step is too long"),
        ("configurational_temperature", 1.0, "configurational temperature 1 .* have not spread yet"),
        ("gradient_noise_ratio", 0.5, "the minibatches add 50% to the injected noise, above 10%"),
    ],
)
def test_what_is_too_hot_or_too_noisy_fails(posterior, name, value, message):
    noise = np.random.default_rng(1).normal(0, 1e-3, (2, 200))
    changed = {**posterior.statistics, name: value + noise}
    judged = diagnostics.convergence(replace(posterior, statistics=changed))
    assert judged.passed is False
    assert any(re.match(message, failure) for failure in judged.failures)


def test_a_report_has_the_panel_and_exact_samplers_have_none(posterior, tmp_path):
    page = diagnostics.report(posterior, path=tmp_path / "r.html").read_text()
    assert "Both should come to the dashed line." in page
    exact = inference.run(posterior.model, np.zeros((4, 2)), np.zeros(4), draws=10, warmup=10, progress=False)
    assert diagnostics.convergence(exact).bias is None
