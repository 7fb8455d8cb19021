"""Posteriors of small networks that several files look at."""

from __future__ import annotations

import pytest

import data
import inference
import models

MODEL = models.mlp((3,), "tanh", models.Normal(1.0, fan_in=True))


@pytest.fixture(scope="session")
def regression():
    """Three posteriors of a regression, and its test data."""
    train, test = data.load("diabetes").split(seed=0)
    run = {"progress": False, "seed": 1}
    posteriors = {
        "map": inference.run(MODEL, train, method="map", steps=500, **run),
        "svi": inference.run(MODEL, train, method="svi", steps=500, draws=100, **run),
        "nuts": inference.run(MODEL, train, method="nuts", draws=100, warmup=150, max_tree_depth=6, **run),
    }
    return posteriors, test


@pytest.fixture(scope="session")
def classification():
    """Two posteriors of a classification, and its test data."""
    train, test = data.load("moons").split(seed=0, test=0.3)
    model = models.mlp((3,), "tanh", likelihood=models.Bernoulli())
    options = {"progress": False, "method": "nuts", "chains": 2, "draws": 60, "warmup": 100, "max_tree_depth": 5}
    return {
        "a": inference.run(model, train, seed=1, **options),
        "b": inference.run(model, train, seed=2, **options),
    }, test
