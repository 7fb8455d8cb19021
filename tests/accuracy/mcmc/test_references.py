"""Samplers against long runs of an independent one, by `tests/references/make.py`: z-scores of their moments."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import inference
import models
from inference import mixing

MOMENTS = json.loads((Path(__file__).parents[2] / "references" / "moments.json").read_text())
Z = 5.0


def _data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(11)
    x = generator.uniform(-2, 2, (50, 2))
    y = np.sin(1.5 * x[:, 0]) - 0.5 * x[:, 1] + 0.4 * generator.normal(size=50)
    return x.astype(np.float32), y.astype(np.float32), generator.uniform(-3, 3, (5, 2)).astype(np.float32)


def _quantities(posterior: inference.Posterior) -> np.ndarray:
    x, y, places = _data()
    at_data, at_places = (posterior.predict(points).outputs[..., 0].astype(np.float64) for points in (x, places))
    weights = [
        (posterior.draws[name].astype(np.float64) ** 2).reshape(*posterior.shape, -1).sum(axis=-1)
        for name in posterior.draws
        if name != "noise"
    ]
    noise = posterior.draws.get("noise", np.ones(posterior.shape)).astype(np.float64)[..., None]
    if "noise" in posterior.draws:
        log_likelihood = dist.Normal(at_data, noise).log_prob(y).sum(axis=-1)
        functions = at_places
    else:
        log_likelihood = dist.Bernoulli(logits=at_data).log_prob((y > 0).astype(int)).sum(axis=-1)
        functions = np.asarray(jax.nn.sigmoid(at_places))
    others = [sum(weights)[..., None], np.asarray(log_likelihood)[..., None], noise]
    return np.concatenate([functions, functions**2, *others], axis=-1).astype(np.float64)


@pytest.mark.parametrize(("name", "method"), [("network", "hmc"), ("network", "nuts"), ("classifier", "hmc")])
def test_moments_agree_with_the_reference(name, method):
    x, y, _ = _data()
    if name == "network":
        model, targets, tempering = models.mlp((3,), "tanh"), y, {}
    else:
        model = models.mlp((3,), "tanh", dist.Laplace(0.0, 0.7), models.Bernoulli())
        targets, tempering = (y > 0).astype(int), {"temperature": 0.5, "tempering": "likelihood"}
    options = {"hmc": {"draws": 6000, "jitter": 0.2}, "nuts": {"draws": 3000}}[method]
    posterior = inference.run(
        model, x, targets, method=method, seed=1, target_acceptance=0.9, progress=False, **options, **tempering
    )
    quantities = _quantities(posterior)
    names = list(MOMENTS[name]) if name == "network" else list(MOMENTS[name])[:-1]
    means = np.array([MOMENTS[name][quantity]["mean"] for quantity in names])
    errors = np.array([MOMENTS[name][quantity]["mcse"] for quantity in names])
    quantities = quantities[..., : len(names)]
    assert mixing.ess(quantities).min() > 400
    z = (quantities.mean(axis=(0, 1)) - means) / np.hypot(mixing.mcse(quantities), errors)
    assert np.abs(z).max() < Z, f"z-scores {dict(zip(names, np.round(z, 1).tolist(), strict=True))}"
