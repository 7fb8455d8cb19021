"""A small network and its data."""

from __future__ import annotations

import numpy as np

import models

__all__ = ["small"]


def small(likelihood=None, prior=None, rows=23):
    """The network, its inputs and its targets."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 2)).astype(np.float32)
    model = models.mlp((3,), "tanh", prior=prior or models.Normal(1.0), likelihood=likelihood or models.Gaussian(0.5))
    if model.likelihood.classes:
        return model, x, generator.integers(0, 3, rows)
    return model, x, (np.sin(x[:, 0]) + 0.3 * generator.normal(size=rows)).astype(np.float32)
