"""The Bayes by Backprop experiment, small. Skipped where MNIST is not cached, as in `tests/data/test_real.py`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from experiments.backprop_mnist import PUBLISHED, PUBLISHED_PRUNED, backprop_mnist

FOLDER = Path(os.environ.get("TOUCHSTONE_DATA") or Path(__file__).parents[3] / "shared" / "data")
CHANCE = 90  # percent of wrong labels among ten


def test_a_small_run_prints_errors_that_are_better_than_chance(monkeypatch):
    if not (FOLDER / "mnist.npz").exists():
        pytest.skip("no cached 'mnist' here; TOUCHSTONE_DATA names a folder that has it")
    monkeypatch.setenv("TOUCHSTONE_DATA", str(FOLDER))
    application = typer.Typer()
    application.command()(backprop_mnist)
    small = "--hidden 16 --epochs 1 --train 1000 --batch 20 --learning-rate 0.01 --point-rate 0.01 --draws 2 --json"
    done = CliRunner().invoke(application, small.split())
    assert done.exit_code == 0, done.output
    assert "scale mixture prior" in done.output
    found = json.loads(done.output.splitlines()[-1])
    assert (found["hidden"], found["epochs"], found["train"]) == (16, 1, 1000)
    assert set(found["error"]) == set(PUBLISHED)
    assert set(found["pruned"]) == {str(fraction) for fraction in PUBLISHED_PRUNED}
    assert found["pruned"]["0.0"] == found["error"]["mixture"]
    for what, error in {**found["error"], "pruned": found["pruned"]["0.5"]}.items():
        assert 0 <= error < CHANCE - 20, f"{what}: {error} %"
