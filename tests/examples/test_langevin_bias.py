"""The study of two biases, small."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from experiments import langevin_bias


@pytest.mark.filterwarnings("ignore:sgld. the (minibatches' noise|configurational temperature)")
def test_small_study_prints_what_it_found(monkeypatch):
    monkeypatch.setattr(langevin_bias, "_REFERENCE_DRAWS", 100)
    app = typer.Typer()
    app.command()(langevin_bias.langevin_bias)
    result = CliRunner().invoke(app, ["--halvings", "0", "--time", "8", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output.splitlines()[-1])
    (row,) = found["rows"]
    assert row["step_size"] == 0.032
    assert row["mala"][0] < row["all"][0] < row["minibatch"][0]  # each bias comes on top
