"""The MC dropout experiment: its protocol at a small size, and what it prints."""

from __future__ import annotations

import json
import os
from pathlib import Path

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
