"""A missing input is sampled with the weights: draws against quadrature on a linear model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import data
import inference
import models
from inference import mixing

Z = 5.0
NOISE, PRIOR = 0.3, 1.0


@pytest.fixture(scope="module")
def problem():
    """Ten rows of y = 1.5 a + noise, in one of which a is not known; and the exact moments of what is unknown."""
    rng = np.random.default_rng(2)
    a = rng.normal(size=10)
    frame = pd.DataFrame({"a": a, "y": 1.5 * a + NOISE * rng.normal(size=10)})
    frame.loc[int(np.argmax(a)), "a"] = np.nan
    train = data.table(frame, target="y").whole()
    return train, _moments(train)


def _moments(train: data.Split) -> tuple[np.ndarray, np.ndarray]:
    r"""Mean and covariance of (weight of a, weight of the indicator, bias, z), by quadrature over z.

    Given z the model is linear with the design D(z), so y ~ N(0, s^2 I + t^2 D D') with noise s and prior scale t, and
    the weights have mean P^-1 D'y / s^2 and precision P = D'D / s^2 + I / t^2. So p(z | y) is known on a grid up to a
    constant, and the moments over all are those of the mixture over z.
    """
    x, y = train.x.astype(np.float64), train.y.astype(np.float64)
    grid = np.linspace(-8, 8, 4001)
    log_weights, means, covariances = [], [], []
    for z in grid:
        missing = x[:, 1] > 0
        design = np.column_stack([np.where(missing, z, x[:, 0]), missing, np.ones(len(x))])
        spread = NOISE**2 * np.eye(len(y)) + PRIOR**2 * design @ design.T
        log_weights.append(-(z**2) / 2 - np.linalg.slogdet(spread)[1] / 2 - y @ np.linalg.solve(spread, y) / 2)
        precision = design.T @ design / NOISE**2 + np.eye(3) / PRIOR**2
        means.append([*np.linalg.solve(precision, design.T @ y / NOISE**2), z])
        covariances.append(np.pad(np.linalg.inv(precision), (0, 1)))
    weights = np.exp(np.array(log_weights) - np.max(log_weights))
    weights /= weights.sum()
    mean = weights @ np.array(means)
    away = np.array(means) - mean
    return mean, np.einsum("g,gij->ij", weights, np.array(covariances) + away[:, :, None] * away[:, None, :])


@pytest.mark.parametrize(
    "options",
    [{"method": "nuts", "draws": 3000, "warmup": 500}, {"method": "hmc", "draws": 3000, "warmup": 300}],
    ids=lambda options: options["method"],
)
def test_a_missing_input_has_its_exact_posterior_together_with_the_weights(problem, options):
    train, (mean, covariance) = problem
    model = models.for_table(models.linear(models.Normal(PRIOR), models.Gaussian(scale=NOISE)), train)
    posterior = inference.run(model, train, seed=3, progress=False, **options)
    draws = np.concatenate(
        [posterior.draws["output.weight"][..., 0], posterior.draws["output.bias"], posterior.draws["missing"]], axis=-1
    ).astype(np.float64)
    assert mixing.ess(draws).min() > 2000  # shows a mean that is 0.11 standard deviations off
    centred = draws - mean
    i, j = np.triu_indices(4)
    quantities = np.concatenate([centred, centred[..., i] * centred[..., j] - covariance[i, j]], axis=-1)
    z = quantities.mean(axis=(0, 1)) / mixing.mcse(quantities)
    assert np.abs(z).max() < Z, f"z-scores {np.round(z, 1)}"


def test_the_exact_posterior_is_not_that_of_the_mean_filled_in(problem):
    """What the quadrature says could be told from a simpler treatment: z is away from 0, and correlated with a."""
    _, (mean, covariance) = problem
    assert abs(mean[3]) > 0.3
    assert covariance[3, 3] < 0.9
    assert abs(covariance[1, 3]) > 0.1
