"""The table of defaults: its networks, its cells, and one small run of it."""

from __future__ import annotations

import typer
from typer.testing import CliRunner

from experiments.defaults import defaults


def test_it_runs_with_other_options():
    app = typer.Typer()
    app.command()(defaults)
    options = ["--methods", "map", "--sets", "moons", "--seeds", "1", "--option", "map.steps=60", "--verdicts"]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 0, done.output
    assert "map       moons                 seed 0: -" in done.output
    assert "there is no spread to judge" in done.output


def test_it_goes_on_where_it_was_stopped(tmp_path):
    app = typer.Typer()
    app.command()(defaults)
    options = ["--methods", "map", "--seeds", "1", "--option", "map.steps=5", "--results", str(tmp_path / "r.jsonl")]
    first = CliRunner().invoke(app, [*options, "--sets", "moons"])
    second = CliRunner().invoke(app, [*options, "--sets", "moons,gap"])
    assert first.exit_code == second.exit_code == 0, second.output
    assert "map       moons" in first.output
    assert "map       moons" not in second.output
    assert second.output.splitlines()[-3] == "| | moons | gap |"
