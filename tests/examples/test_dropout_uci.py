"""The MC dropout experiment: its protocol at a small size, and what it prints."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import data
from experiments import dropout_uci as experiment

FOLDER = Path(os.environ.get("TOUCHSTONE_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture
def yacht(monkeypatch):
    if not (FOLDER / "yacht.npz").exists():
        pytest.skip("no cached 'yacht' here; TOUCHSTONE_DATA names a folder that has it")
    monkeypatch.setenv("TOUCHSTONE_DATA", str(FOLDER))
    return data.load("yacht")


def _called(*arguments: str):
    app = typer.Typer()
    app.command()(experiment.dropout_uci)
    return CliRunner().invoke(app, ["--data", "yacht", *arguments])


def test_the_last_line_has_one_score_per_split(yacht):
    done = _called("--splits", "2", "--epochs", "40", "--passes", "50", "--tau-grid", "0.25", "--rate-grid", "0.01,0.1",
                   "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.output.strip().splitlines()[-1])
    assert found["data"] == "yacht"
    assert len(found["rmse"]) == len(found["log_likelihood"]) == 2
    assert all(0 < rmse < 15.1 for rmse in found["rmse"])  # better than the mean of the targets
    assert "published" in done.output


def test_a_set_without_a_grid_asks_for_one(yacht):
    with pytest.raises(typer.BadParameter, match="--tau-grid"):
        experiment._grid("tau", None, data.Dataset("mine", yacht.x, yacht.y))


@pytest.mark.parametrize("option", ["--splits", "--epochs", "--passes"])
def test_none_of_anything_is_refused(option):
    done = _called(option, "0")
    assert done.exit_code == 2
    assert option in done.output


def test_validation_rows_are_the_last_fifth_of_the_training_rows_and_no_test_row(yacht):
    train_rows, _ = yacht.standard(3)
    fit, judge = experiment.validation(yacht, 3)
    cut = int(0.8 * len(train_rows))
    assert (len(fit), len(judge)) == (cut, len(train_rows) - cut)
    np.testing.assert_allclose(fit.y_original, yacht.y[train_rows[:cut]], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(judge.y_original, yacht.y[train_rows[cut:]], rtol=1e-5, atol=1e-4)
    assert fit.scaler.y_scale == pytest.approx(yacht.y[train_rows[:cut]].std())


def test_the_network_has_the_weight_decay_of_the_protocol():
    # Mean squared error of standardised targets + l^2 (1 - p) / (2 N tau) |K|^2 with masks scaled up, K = keep M:
    # times N tau s_y^2 / 2 it is the free energy, so keep / (2 s^2) |M|^2 must be l^2 keep s_y^2 / 4 |keep M|^2.
    rate, tau, scale = 0.05, 0.2, 9.2
    network = experiment._network(50, rate, tau, scale)
    width = dict(network.prior.rules)["weight"].scale
    keep = 1 - rate
    assert keep / (2 * width**2) == pytest.approx(0.01**2 * keep * scale**2 / 4 * keep**2)
    assert network.likelihood.scale == pytest.approx(1 / (math.sqrt(tau) * scale))
