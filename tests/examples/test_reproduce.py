"""Every study of the catalogue in its quick size, by the command: it runs, has a verdict, a table and a figure."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

import data
import touchstone
from experiments import catalogue

FOLDER = Path(os.environ.get("TOUCHSTONE_DATA") or Path(__file__).parents[3] / "shared" / "data")
IN_MAKE_TEST = "dropout_extrapolation"  # which needs no data


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each == IN_MAKE_TEST else pytest.mark.validation) for each in catalogue.names()],
)
def test_a_study_runs_in_its_quick_size(name, monkeypatch, tmp_path):
    monkeypatch.setenv("TOUCHSTONE_DATA", str(FOLDER))
    missing = [each for each in catalogue.study(name).needs if not data.at_hand(each)]
    if missing:
        pytest.skip(f"no cached {', '.join(missing)} here; TOUCHSTONE_DATA names a folder that has it")
    plot = tmp_path / "found.png"
    done = CliRunner().invoke(touchstone.app, ["reproduce", name, "--quick", "--json", "--plot", str(plot)])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["verdict"] in ("confirmed", "contradicted", "undecided")
    assert found["tables"][0]["rows"]
    assert found["because"]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_set_that_is_not_in_the_cache_is_named_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("TOUCHSTONE_DATA", str(tmp_path))
    done = CliRunner().invoke(touchstone.app, ["reproduce", "backprop_uci", "--quick"])
    assert done.exit_code == 2, done.output
    assert "put the set there as" in done.output
    assert "Traceback" not in done.output
