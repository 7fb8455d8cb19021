"""The `touchstone` command, as a user types it."""

from __future__ import annotations

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import inference
import touchstone

RUNNER = CliRunner()


def _call(*words: str):
    return RUNNER.invoke(touchstone.app, [str(word) for word in words])


HOSTS = ("--coordinator", "127.0.0.1:55527", "--hosts", "2")


def test_run_then_report(tmp_path):
    small = ["--hidden", "3", "-o", "draws=20", "-o", "warmup=20", "-o", "chains=2"]
    done = _call("run", "moons", "--method", "nuts", *small, "--out", tmp_path / "nuts.npz")
    assert done.exit_code == 0, done.output
    assert "moons, test: accuracy" in done.output
    assert "Convergence failed" in done.output
    done = _call("run", "moons", "--method", "svi", "--hidden", "3", "-o", "steps=20", "-o", "guide=gaussian",
                 "-o", "draws=10", "--out", tmp_path / "svi.npz")  # fmt: skip
    assert done.exit_code == 0, done.output
    out = tmp_path / "report.html"
    done = _call("report", tmp_path / "nuts.npz", tmp_path / "svi.npz", "--data", "moons", "--out", out)
    assert done.exit_code == 0, done.output
    assert "Comparison on moons, test" in out.read_text()
    done = _call("compare", tmp_path / "nuts.npz", tmp_path / "svi.npz", "--data", "moons")
    assert done.exit_code == 0, done.output
    assert "distance to nuts, and cost" in done.output
    assert done.output.count("nuts itself has not converged") == 1
    assert done.output.count("close to nuts as that is to itself") == 1
    done = _call("compare", tmp_path / "nuts.npz", "--data", "moons", "--reference", "hmc")
    assert done.exit_code == 2
    assert "reference must be one of nuts" in done.output


def test_run_in_a_directory_then_resume_then_report(tmp_path):
    words = ["run", "moons", "--method", "nuts", "--hidden", "3", "-o", "draws=20", "-o", "warmup=20", "-o", "chains=2"]
    done = _call(*words, "--directory", tmp_path / "a")
    assert done.exit_code == 0, done.output
    done = _call(*words, "--directory", tmp_path / "a")
    assert done.exit_code == 2
    assert "holds the same run; go on with it by inference.resume" in done.output
    done = _call("resume", tmp_path / "a")
    assert done.exit_code == 0, done.output
    assert "2 x 20 draws, ended: draws" in done.output
    assert "Convergence failed" in done.output
    done = _call("report", tmp_path / "a", "--data", "moons", "--out", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert "Scores on moons, test" in (tmp_path / "r.html").read_text()
    assert _call("resume", tmp_path / "nowhere").exit_code == 2


def test_sweep_prints_a_table_and_writes_a_figure(tmp_path):
    words = ["sweep", "moons", "--method", "map", "--hidden", "", "-o", "steps=5", "--seeds", "2", "--prior-scale"]
    done = _call(*words, "0.5,1", "--plot", tmp_path / "new" / "sweep.png", "--directory", tmp_path / "runs")
    assert done.exit_code == 0, done.output
    assert "moons, test\nmean ± standard error over 2 seeds" in done.output
    assert "paired differences to prior_scale 1" in done.output
    assert (tmp_path / "new" / "sweep.png").stat().st_size > 10_000
    assert len(list((tmp_path / "runs").rglob("run.json"))) == 4
    done = _call("sweep", "moons", "--temperature", "1")
    assert done.exit_code == 2
    assert "sweep varies one thing" in done.output


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_help_names_every_method(command):
    options = get_command(touchstone.app).commands[command].params
    (helped,) = (option.help for option in options if option.name == "method")
    assert helped == f"One of {', '.join(inference.METHODS)}."


def test_files_of_one_name_in_two_folders(tmp_path):
    for folder in ("a", "b"):
        out = tmp_path / folder / "p.npz"
        done = _call("run", "moons", "--method", "map", "--hidden", "3", "-o", "steps=5", "--out", out)
        assert done.exit_code == 0, done.output
    out = tmp_path / "r.html"
    assert _call("report", tmp_path / "a" / "p.npz", tmp_path / "b" / "p.npz", "--out", out).exit_code == 0
    assert out.read_text().count('<div class="verdict') == 2


def test_a_place_that_can_not_be_written_is_found_before_the_run(tmp_path):
    (tmp_path / "file").write_text("")
    done = _call("run", "moons", "--method", "map", "--out", tmp_path / "file" / "p.npz")
    assert done.exit_code == 2
    assert "accuracy" not in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "mons"), "did you mean 'moons'"),
        (("run", "moons", "--method", "nutz"), "did you mean 'nuts'"),
        (("run", "moons", "-o", "draws"), "--option must look like draws=200"),
        (("run", "moons", "-o", "draws=many"), "nuts: draws must be an integer"),
        (("run", "moons", "--hidden", "ten"), "--hidden must be numbers of units such as 50 or 100,100, got 'ten'"),
        (
            ("sweep", "moons", "--temperature", "cold,1"),
            "--temperature must be numbers such as 0.1,0.3,1, got 'cold,1'",
        ),
        (("sweep", "moons", "--temperature", "0.1,1", "--plot", "a.gif"), "--plot must end in .png, .pdf or .svg"),
        (("report", "nothing.npz"), "nothing.npz"),
        (("run", "moons", "--hosts", "2", "--directory", "r"), "coordinator and host are missing"),
        (("run", "moons", *HOSTS, "--host", "2", "--directory", "r"), "host must be below the number of hosts, 2"),
        (("run", "moons", *HOSTS, "--host", "0"), "needs --directory, a folder that all of them see"),
        (("resume", "r", "--coordinator", "first", "--hosts", "2", "--host", "1"), "HOST:PORT, got 'first'"),
    ],
)
def test_wrong_input_is_a_sentence_and_exit_code_2(words, message):
    done = _call(*words)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


def test_data_lists_every_set():
    done = _call("data")
    assert done.exit_code == 0
    assert "diabetes" in done.output
    assert "442 rows x 10" in done.output
