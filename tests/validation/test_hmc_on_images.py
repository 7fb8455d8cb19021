"""HMC on real images: convolutional networks at sizes that run here, with energies and acceptance that make sense.

Each run starts at a short fit, because a few draws from a random start would show the fall to a mode and nothing else.
A trajectory is short, and its step the longest of a few that were tried which is accepted most of the time. The energy
error of the leapfrog integrator is of second order: with steps four times as long it must be many times as large, or
what is measured would not be the integrator.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import data
import diagnostics
import inference
import models

FOLDER = Path(os.environ.get("TOUCHSTONE_DATA") or Path(__file__).parents[3] / "shared" / "data")
CASES = {
    "mnist": (models.lenet(prior=models.Normal(0.1), likelihood=models.Categorical(10)), 1000, 5e-4),
    "cifar10": (
        models.resnet20_frn(width=4, prior=models.Normal(0.3), likelihood=models.Categorical(10)), 500, 5e-4,
    ),
}  # fmt: skip
"""A network, its number of training images and the step size."""

_STEPS = 16  # of a trajectory
_TEST = 500


@pytest.mark.parametrize("name", CASES)
def test_energies_and_acceptance_make_sense(name, monkeypatch):
    if not (FOLDER / f"{name}.npz").exists():
        pytest.skip(f"no cached {name!r} here; TOUCHSTONE_DATA names a folder that has it")
    monkeypatch.setenv("TOUCHSTONE_DATA", str(FOLDER))
    network, rows, step = CASES[name]
    train, test = data.load(name).split()
    x, y = _with_channels(train.x[:rows]), train.y[:rows]
    inputs, labels = _with_channels(test.x[:_TEST]), test.y[:_TEST]
    point = inference.run(network, x, y, method="map", steps=300, batch_size=50, learning_rate=0.005, progress=False)

    def run(step_size: float, draws: int) -> inference.Posterior:
        return inference.run(
            network, x, y, method="hmc", start=point, chains=2, draws=draws, warmup=0, mass="prior", jitter=0.0,
            step_size=step_size, trajectory_length=_STEPS * step_size, progress=False,
        )  # fmt: skip

    posterior = run(step, 4)
    errors = posterior.statistics["energy_error"]
    accepted = posterior.statistics["acceptance_rate"]
    accuracy = float((posterior.predict(inputs).probs.argmax(axis=-1) == labels).mean())
    judged = diagnostics.convergence(posterior)
    print(
        f"{name}: energy errors {errors.round(3).tolist()}, acceptance {accepted.mean():.2f}, accuracy {accuracy:.2f}"
    )
    assert accepted.mean() > 0.5
    assert np.abs(errors).max() < 5
    assert not posterior.statistics["diverging"].any()
    assert accuracy > 0.15  # ten classes
    assert judged.judged is not None
    assert np.isfinite(judged.judged.worst_rhat)
    longer = np.abs(run(4 * step, 1).statistics["energy_error"])
    print(f"{name}: with four times the step {longer.round(3).tolist()}")
    assert np.median(longer) > 4 * np.median(np.abs(errors))


def _with_channels(images: np.ndarray) -> np.ndarray:
    return images if images.ndim == 4 else images[..., None]
