"""Dropout as a guide: the training it stands for, closed forms, and what its draws say."""

from __future__ import annotations

import numpy as np
import pytest

import inference
import models

ROWS, KEEP, WIDTH, NOISE = 12, 0.8, 1.7, 0.3
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(ROWS, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 1.0}, r"at least 0 and below 1"),
        ({"rate": "lern"}, r"did you mean 'learn'"),
        ({"rate": {"hidden0": "learn", "default": 0.1}}, r"rate of 'hidden0' must be .* got 'learn'; .* learns all"),
        ({"rate": {"hidden0": {"weight": 0.1}}}, r"rate of 'hidden0' must be a number, at least 0 and below 1, got \{"),
        ({"rate": [0.1, 0.2]}, r'rate must be a number, "learn", or a mapping .* got \[0.1, 0.2\]'),
        ({"rate": ()}, r"rate must be a number, .* got \(\)"),
        ({"rate": {"hiden0": 0.1}}, r"'hiden0', which is no layer; there are hidden0, output"),
        ({"rate": {"hidden0": 0.1}}, r"no entry for 'output'"),
        ({"sigma": -1.0}, r"sigma must be a finite number, 0 or above"),
        ({"masks": "row"}, r"masks must be one of 'example', 'shared'"),
        ({"mask_information": "exact"}, r"needs sigma above 0"),
        ({"guide": "gaussian", "rate": 0.1}, r"rate is an option of guide='dropout', not of 'gaussian'"),
    ],
)
def test_wrong_options_say_what_is_right(options, message):
    with pytest.raises(ValueError, match=message):
        inference.run(models.mlp((3,)), X, X[:, 0], method="svi", **{"guide": "dropout", **options})


def test_a_model_without_layers_is_refused():
    import numpyro
    import numpyro.distributions as dist

    def model(y=None):
        numpyro.sample("y", dist.Normal(numpyro.sample("mean", dist.Normal(0, 1)), 1), obs=y)

    with pytest.raises(ValueError, match=r"dropout.* needs a model with the layers of models"):
        inference.run(model, np.zeros(3), method="svi", guide="dropout")
