"""What is compiled while something else runs is not compiled again."""

from __future__ import annotations

import numpy as np
import pytest

import inference
import models

X = np.random.default_rng(5).normal(size=(30, 2)).astype(np.float32)
Y = np.sin(X[:, 0])


@pytest.mark.parametrize(
    ("units", "options"),
    [
        (3, {"method": "hmc", "tuning": 20, "warmup": 5}),
        (3, {"method": "hmc", "tuning": 20, "warmup": 5, "precision": "float64"}),
        (4, {"method": "mclmc", "warmup": 60, "thin": 1}),
    ],
    ids=["hmc", "hmc in float64", "mclmc"],
)
def test_a_sampler_is_compiled_once_beside_the_training_of_its_start(counted, units, options):
    model = models.mlp((units,), "tanh", likelihood=models.Gaussian(scale=0.5))
    inference.run(model, X, Y, chains=2, draws=5, progress=False, **options)
    for what in ("lower", "compile"):
        assert counted(what, "jit(advance)") == 2  # that of the training, and that of the sampler
