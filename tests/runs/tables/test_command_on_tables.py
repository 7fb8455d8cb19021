"""The `touchstone` command on a user's own table."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from jax.errors import JaxRuntimeError
from typer.main import get_command
from typer.testing import CliRunner

import inference
import touchstone
from tests.helpers.house_prices import house_prices
from touchstone import answers

RUNNER = CliRunner()
QUICK = ["--target", "price", "--model", "linear"]


def _call(*words: object):
    return RUNNER.invoke(touchstone.app, [str(word) for word in words])


@pytest.fixture(scope="module")
def table_alone(tmp_path_factory):
    """A folder with a table, and another folder that is not empty."""
    folder = tmp_path_factory.mktemp("user")
    house_prices().to_csv(folder / "houses.csv", index=False)
    (folder / "old.npz").write_bytes(b"a posterior that took long")
    (folder / "runs" / "a").mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, and what `run --out` made of it with two methods."""
    folder = tmp_path_factory.mktemp("user")
    house_prices().to_csv(folder / "houses.csv", index=False)
    quick = ["--method", "laplace,map", "-o", "steps=600", "-o", "learning_rate=0.05"]
    done = _call("run", "--data", folder / "houses.csv", *QUICK, *quick, "--out", folder / "runs" / "a")
    assert done.exit_code == 0, done.output
    return folder, done


def test_run_writes_posteriors_predictions_scores_and_a_report(folder):
    folder, done = folder
    out = folder / "runs" / "a"
    assert sorted(path.name for path in out.iterdir()) == [
        "laplace.csv", "laplace.npz", "map.csv", "map.npz", "report.html", "scores.json"
    ]  # fmt: skip
    assert [path.name for path in out.parent.iterdir()] == ["a"]
    assert "the target 'price' is a number: regression" in done.output
    assert "column 'roof' has one value, 'flat', in all rows and is left out" in done.output
    assert "houses, test by laplace: rmse" in done.output
    scores = json.loads((out / "scores.json").read_text())
    assert scores["laplace"]["scores"]["rmse"] < 20
    predicted = pd.read_csv(out / "laplace.csv")
    assert list(predicted.columns)[:5] == list(house_prices().columns)
    np.testing.assert_allclose(
        np.sqrt(np.mean((predicted["mean"] - predicted["price"]) ** 2)), scores["laplace"]["scores"]["rmse"], rtol=1e-6
    )


def test_the_python_that_is_printed_makes_the_same_posterior(folder, monkeypatch, capsys):
    folder, done = folder
    monkeypatch.chdir(folder)
    printed = done.stdout.split("The same run in Python:\n\n")[1].split("\n\nsaved")[0]
    code = "\n".join(line.removeprefix("    ") for line in printed.splitlines())
    names: dict[str, object] = {}
    exec(compile(code, "printed", "exec"), names)
    saved = inference.load(folder / "runs" / "a" / "laplace.npz")
    np.testing.assert_array_equal(names["laplace"].draws["output.weight"], saved.draws["output.weight"])
    (folder / "report.html").unlink()


def test_report_and_compare_find_the_data_by_themselves(folder, tmp_path):
    folder, _ = folder
    done = _call("report", folder / "runs" / "a", "--out", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert "Comparison on houses, test" in (tmp_path / "r.html").read_text()
    done = _call("compare", folder / "runs" / "a", "--json")
    assert done.exit_code == 0, done.output
    assert [row["method"] for row in json.loads(done.output)["rows"]] == ["laplace", "map"]
    done = _call("compare", folder / "runs" / "a", "--data", folder / "houses.csv", "--json")
    assert json.loads(done.output)["rows"][0]["rmse"] < 20
    more = tmp_path / "more.csv"
    house_prices(30).to_csv(more, index=False)
    done = _call("report", folder / "runs" / "a", "--data", more, "--out", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert "Comparison on more" in (tmp_path / "r.html").read_text()
    moved = folder / "elsewhere.csv"
    (folder / "houses.csv").rename(moved)
    done = _call("compare", folder / "runs" / "a")
    assert (done.exit_code, "which is not there" in done.output) == (2, True)
    done = _call("report", folder / "runs" / "a", "--out", tmp_path / "r.html")
    assert (done.exit_code, "note: without scores" in done.output) == (0, True)
    assert _call("compare", folder / "runs" / "a", "--data", moved).exit_code == 0
    moved.rename(folder / "houses.csv")


def test_predict_adds_columns_and_marks_rows(folder, tmp_path):
    folder, _ = folder
    new = house_prices().head(4).drop(columns=["price", "roof"]).assign(area=[100, None, 1e5, 90], mean=1)
    new = new.assign(id=["007", "n/a", "1.50", ""])
    new.to_csv(tmp_path / "new.csv", index=False)
    words = ["predict", folder / "runs" / "a", tmp_path / "new.csv"]
    done = _call(*words, "--method", "laplace", "-o", tmp_path / "sub" / "out.csv.gz")
    assert done.exit_code == 0, done.output
    out = pd.read_csv(tmp_path / "sub" / "out.csv.gz")
    assert list(out.columns)[:5] == list(new.columns)
    assert "price mean" in out.columns  # because the table has a column "mean" already
    assert out["price outside"].fillna("").tolist() == ["", "", "area", ""]
    assert out["price std"][1] > 3 * out["price std"][0]
    copied = pd.read_csv(tmp_path / "sub" / "out.csv.gz", dtype=str, keep_default_na=False)
    assert copied["id"].tolist() == ["007", "n/a", "1.50", ""]  # as they were written
    assert copied["area"].tolist() == ["100.0", "", "100000.0", "90.0"]
    done = _call(*words, "--method", "map", "--json")
    assert json.loads(done.output)["outside"] == 1
    assert len(json.loads(done.output)["predictions"]) == 4
    assert "lower" in _call(*words, "--method", "map").output
    for more, message in (
        ((), "holds several posteriors, laplace, map; choose one by --method"),
        (("--method", "hmc"), "--method must be one of laplace, map"),
        (("--method", "map", "-o", tmp_path / "out.html"), "is written to a .csv, .csv.gz or .parquet file"),
        (("--method", "map", "--probability", "2"), "probability must be above 0 and below 1"),
    ):
        done = _call(*words, *more)
        assert (done.exit_code, message in done.output) == (2, True), done.output
    new.drop(columns="garden").to_csv(tmp_path / "new.csv", index=False)
    done = _call(*words, "--method", "map", "-o", tmp_path / "none.csv")
    assert (done.exit_code, "the table has no column 'garden'" in done.output) == (2, True)
    assert not (tmp_path / "none.csv").exists()


def test_a_saved_posterior_of_a_known_set_knows_its_data_too(tmp_path):
    words = ["run", "moons", "--method", "map", "--hidden", "3", "-o", "steps=5", "--split", "4"]
    assert _call(*words, "--out", tmp_path / "m.npz").exit_code == 0
    done = _call("report", tmp_path / "m.npz", "--out", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    assert "Scores on moons, test" in (tmp_path / "r.html").read_text()
    done = _call("predict", tmp_path / "m.npz", tmp_path / "m.npz")
    assert (done.exit_code, "was not run on a table" in done.output) == (2, True)
    done = _call("run", "--data", "moons", *words[2:], "--out", tmp_path / "moons", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert 0 <= answer["results"]["map"]["scores"]["accuracy"] <= 1
    assert "data.load('moons').split(seed=4)" in answer["python"]
    assert list(pd.read_csv(tmp_path / "moons" / "map.csv").columns)[:3] == ["row", "observed", "label"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run",), "name the data once"),
        (("run", "moons", "--data", "gap"), "name the data once"),
        (("run", "moons", "--target", "y"), "--target is for tables in files"),
        (("run", "no.csv", "--target", "y"), "there is no file"),
        (("run", "FOLDER/houses.csv"), "name the column to predict by --target"),
        (("run", "FOLDER/houses.csv", "--target", "prize"), "did you mean 'price'"),
        (("run", "FOLDER/houses.csv", "--target", "roof"), "has one class, 'flat'"),
        (("run", "FOLDER/houses.csv", "--target", "price", "--drop", "no"), "the table has no column 'no'"),
        (("run", "FOLDER/houses.csv", "--target", "price", "--task", "rank"), "task must be one of"),
        (("run", "FOLDER/houses.csv", "--target", "price", "--missing", "refuse"), "'area' has no value in row 3"),
        (("run", "FOLDER/houses.csv", "--target", "price", "--model", "tree"), "--model must be mlp or linear"),
        (("run", "FOLDER/houses.csv", "--target", "price", "--method", "hmc,nut"), "did you mean 'nuts'"),
        (("run", "FOLDER/houses.csv", "--target", "price", "--method", "hmc,map", "-o", "no=1"), "none of hmc, map"),
        (("run", "FOLDER/houses.csv", "--target", "price", "--chains", "0"), "chains must be at least 1"),
        (("run", "moons", "--method", "map,mle", "--out", "FOLDER/x.npz"), "--out must be a folder"),
        (("run", "moons", "--method", "map", "--out", "FOLDER/runs"), "is there already"),
        (("predict", "FOLDER/no.npz", "FOLDER/houses.csv"), "FOLDER/no.npz: No such file or directory"),
        (("predict", "FOLDER/houses.csv", "FOLDER/houses.csv"), "it is no .npz file"),
        (("predict", "FOLDER/no.npz", "FOLDER/houses.csv", "-o", "FOLDER/houses.csv"), "is the table itself"),
        (("run", "FOLDER/houses.csv", "--target", "price", "--method", "map", "-o", "batch_size=99"), "number of rows"),
        (("sweep", "moons", "--temperature", "1", "--plot", "FOLDER/plots/new/s.png"), "sweep varies one thing"),
        (("run", "moons", "--method", "map", "--out", "FOLDER/houses.csv/a"), "houses.csv: "),
        (("run", "moons", "--method", "map", "--out", "FOLDER/old.npz"), "old.npz is there already"),
    ],
)
def test_bad_input_is_a_message_and_leaves_nothing(table_alone, words, message):
    folder = table_alone
    before = sorted(folder.rglob("*"))
    words = [word.replace("FOLDER", str(folder)) for word in words]
    extra = () if "--out" in words or words[0] != "run" else ("--out", folder / "new" / "a")
    done = _call(*words, *extra, "--json")
    assert done.exit_code == answers.WRONG_INPUT
    assert message.replace("FOLDER", str(folder)) in json.loads(done.stdout)["error"]
    assert "Traceback" not in done.output
    assert sorted(folder.rglob("*")) == before


def test_a_run_that_fails_leaves_nothing_and_has_an_exit_code_of_its_own(folder, monkeypatch):
    folder, _ = folder
    before = sorted(folder.rglob("*"))
    words = ["run", folder / "houses.csv", *QUICK, "--method", "map", "-o", "steps=5", "--out", folder / "b"]
    for error, code in (
        (FloatingPointError("not finite"), answers.FAILED),
        (MemoryError(), answers.FAILED),
        (OSError(28, "no space left"), answers.FAILED),
        (JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory"), answers.FAILED),
        (KeyboardInterrupt(), answers.INTERRUPTED),
    ):

        def broken(*args, error=error, **options):
            raise error

        for place in ("inference.run", "touchstone.running.fill"):
            with monkeypatch.context() as patch:
                patch.setattr(place, broken)
                done = _call(*words)
            assert done.exit_code == code, done.output
            assert sorted(folder.rglob("*")) == before


def test_every_subcommand_has_an_example_and_answers_in_json():
    commands = get_command(touchstone.app).commands
    assert {"run", "predict", "report", "compare", "sweep", "resume", "extend", "data"} <= set(commands)
    for name, command in commands.items():
        assert f"Example: touchstone {name}" in command.epilog
        assert any("--json" in option.opts for option in command.params), name
        assert f"touchstone {name}" in _call(name, "--help").output


def test_data_and_sweep_answer_in_json(folder):
    folder, _ = folder
    sets = json.loads(_call("data", "--json").output)["sets"]
    assert {"name": "diabetes", "at_hand": True, "rows": 442, "inputs": [10], "classes": None,
            "source": "scikit-learn's load_diabetes"} in sets  # fmt: skip
    done = _call("sweep", folder / "houses.csv", *QUICK, "--method", "map", "-o", "steps=5", "--seeds", "2",
                 "--prior-scale", "0.5,1", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert (answer["name"], np.shape(answer["scores"]["rmse"])) == ("prior_scale", (2, 2))


def test_json_has_what_a_table_may_hold(capsys):
    answer = answers.Answer(as_json=True)
    answer.say(
        rows=[{"day": pd.Timestamp("2024-01-31"), "none": None, "nan": np.nan, "count": np.int64(3), "yes": True}]
    )
    answer.end()
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row == {"day": "2024-01-31 00:00:00", "none": None, "nan": None, "count": 3, "yes": True}


@pytest.mark.parametrize(
    ("words", "found"), [("run --method lap", "laplace"), ("run moo", "moons"), ("pre", "predict")]
)
def test_the_shell_completes_commands_methods_and_data_sets(words, found):
    said = {"_TOUCHSTONE_COMPLETE": "complete_bash", "COMP_WORDS": f"touchstone {words}"}
    said["COMP_CWORD"] = str(len(words.split()))
    done = RUNNER.invoke(touchstone.app, [], env=said, prog_name="touchstone")
    assert done.output.split() == [found]
