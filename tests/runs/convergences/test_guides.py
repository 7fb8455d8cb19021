"""Guides: what is too narrow, too wide, not fitted or collapsed is not certified, and a good fit is told from it."""

from __future__ import annotations

import numpy as np
import pytest

import data
import inference
import models
from diagnostics import convergence


def test_an_exact_guide_of_data_without_a_signal_passes():
    """Its evidence is below that of a constant, because it pays for weights that say nothing; that is no collapse."""
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(30, 5)), generator.normal(size=30)
    model = models.linear(likelihood=models.Gaussian(scale=1.0))
    judged = convergence(inference.run(model, x, y, method="laplace", steps=500, progress=False))
    assert judged.constant_gap < 0
    assert judged.passed, str(judged)


def test_laplace_is_judged_by_newtons_steps_and_not_by_the_curve_before_them():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(60, 2))
    y = 200 + x @ [30.0, -10.0] + generator.normal(size=60)
    model = models.linear(prior=models.Normal(300.0), likelihood=models.Gaussian(scale=1.0))
    judged = convergence(inference.run(model, x, y, method="laplace", steps=300, progress=False))
    assert judged.passed, str(judged)


def test_laplace_with_inferred_noise_is_advised_to_let_the_evidence_choose():
    train, _ = data.load("diabetes").split(seed=0)
    model = models.mlp((20,), "tanh")
    given = inference.run(model, train, method="laplace", hyperparameters="given", steps=1500, progress=False)
    judged = convergence(given)
    assert judged.passed is False
    assert judged.constant_gap < -100
    assert any("hyperparameters='evidence'" in step for step in judged.advice)
    default = inference.run(model, train, method="laplace", steps=1500, progress=False)
    assert default.method.hyperparameters == "evidence"
    assert convergence(default).passed is None
    assert convergence(default).constant_gap > 50


def test_a_mode_on_the_kinks_of_rectifiers_is_called_so():
    train, _ = data.load("gap").split(seed=0)
    with pytest.warns(UserWarning, match="activation='relu' the density has kinks"):
        posterior = inference.run(models.mlp((10,)), train, method="laplace", hyperparameters="given", progress=False)
    assert posterior.concerns
    judged = convergence(posterior)
    assert judged.passed is False
    assert any("'tanh' or 'silu'" in step for step in judged.advice)
