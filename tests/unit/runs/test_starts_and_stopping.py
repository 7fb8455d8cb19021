"""Where chains start, and when they have drawn enough."""

from __future__ import annotations

import numpy as np
import pytest

import inference
import models
from inference.runs.stopping import stop_of

GENERATOR = np.random.default_rng(5)
X = GENERATOR.normal(size=(60, 2)).astype(np.float32)


def test_a_bad_start_is_refused():
    with pytest.raises(ValueError, match=r"hmc: start must be one of .* got 'ensembel'; did you mean 'ensemble'"):
        inference.HMC(start="ensembel")


LINEAR = models.linear(likelihood=models.Gaussian(scale=0.5))


def test_looks_are_few():
    for draws, looks in ((1000, [100, 150, 200, 300, 400, 600, 800, 1000]), (150, [100, 150]), (80, [80])):
        assert stop_of(inference.HMC(draws=draws, until={"ess": 1}), LINEAR, X[:1]).milestones == looks
    assert stop_of(inference.MAP(steps=10, patience=3), LINEAR, X[:1]).milestones == [6, 9, 10]
    assert stop_of(inference.HMC(draws=1000), LINEAR, X[:1]) is None
    assert stop_of(inference.MAP(), LINEAR, X[:1]) is None


@pytest.mark.parametrize(
    ("until", "error", "message"),
    [
        ({}, ValueError, 'must name "ess", "rhat" or both'),
        ({"esss": 3}, ValueError, "did you mean 'ess'"),
        ({"rhat": 1.0}, ValueError, "rhat must be above 1"),
        ({"ess": -1}, ValueError, "ess must be a finite number above 0"),
        (400, TypeError, "must be a mapping such as"),
    ],
)
def test_bad_conditions(until, error, message):
    with pytest.raises(error, match=message):
        inference.HMC(until=until)
