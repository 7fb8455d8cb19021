"""Predictions that no run made."""

from __future__ import annotations

import numpy as np

import models
from inference.results.prediction import Prediction

__all__ = ["outputs", "regression"]


def outputs(k: int = 1, seed: int = 0) -> np.ndarray:
    """Outputs of a network under 2 x 5 draws at 7 inputs."""
    return np.random.default_rng(seed).normal(size=(2, 5, 7, k)).astype(np.float32)


def regression(**options) -> Prediction:
    """A prediction of a regression that no run made."""
    likelihood = models.Gaussian(**options)
    noise = np.random.default_rng(1).uniform(0.2, 0.6, (2, 5, likelihood.outputs))
    sites = {} if likelihood.scale else {"noise": noise if likelihood.outputs > 1 else noise[..., 0]}
    return Prediction.of(likelihood, outputs(likelihood.outputs), sites)
