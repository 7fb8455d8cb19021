"""`touchstone reproduce` and the document of findings, with a study of no work."""

from __future__ import annotations

import json
import sys
from types import ModuleType

import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import touchstone
from experiments import catalogue
from experiments.findings import record
from experiments.study import Finding, Study, decided, mean_and_error
from inference.display.tables import Table

RUNNER = CliRunner()


def _coins(lab, tosses, bias):
    lab.say(f"{tosses} tosses")
    table = Table("Heads", ("", "share"), [("ours", f"{bias:g}"), ("published", "0.5")])
    return Finding("undecided", f"{bias:g} | of {tosses} tosses", (table,), {"bias": bias}, Figure)


COINS = Study(
    "coins", "Are coins fair?", "Is it?", "Two errors.", "0.5.", _coins, {"tosses": 100, "bias": 0.4}, {"tosses": 3},
    needs=("no such set",), minutes=2.0,
)  # fmt: skip


@pytest.fixture
def coins(monkeypatch):
    module = ModuleType("made_up_coins")
    module.STUDIES = (COINS,)
    monkeypatch.setitem(sys.modules, "made_up_coins", module)
    monkeypatch.setattr(catalogue, "FILES", {"coins": "made_up_coins"})
    monkeypatch.setattr("data.at_hand", lambda name: False)
    return COINS


def _call(*words):
    return RUNNER.invoke(touchstone.app, ["reproduce", *map(str, words)])


def test_the_list_has_times_and_what_is_missing(coins):
    assert "coins" in (said := _call().output)
    assert "2 min  Are coins fair? (not in the cache: no such set)" in said
    assert json.loads(_call("--json").output)["studies"][0]["minutes"] == 2.0


def test_a_study_prints_its_rule_its_table_and_its_verdict(coins, tmp_path):
    said = _call("coins", "--quick", "--plot", tmp_path / "a" / "coins.png").output
    for words in ("Rule: Two errors.", "3 tosses", "published", "undecided: 0.4 | of 3 tosses", "decides nothing"):
        assert words in said
    assert (tmp_path / "a" / "coins.png").exists()


def test_json_has_the_values_and_nothing_else(coins):
    said = json.loads(_call("coins", "--json").output)
    assert (said["verdict"], said["values"], said["settings"]["tosses"]) == ("undecided", {"bias": 0.4}, 100)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["coin"], "did you mean 'coins'"),
        (["coins", "--plot", "a.txt"], "--plot must end in"),
        (["coins", "--quick", "--findings", "a.md"], "leave --quick out"),
        (["--quick"], "give the name of a study"),
    ],
)
def test_wrong_words_end_with_advice(coins, words, message):
    done = _call(*words)
    assert done.exit_code == 2
    assert message in done.output


def test_a_study_replaces_its_own_section_and_no_other(coins, tmp_path):
    path = tmp_path / "found.md"
    other = Study("dice", "Are dice?", "?", "-", "-", _coins, {}, {})
    for study, bias in ((COINS, 0.77), (other, 0.2), (COINS, 0.3)):
        record(path, study, _coins(type("Lab", (), {"say": print}), 5, bias), 130.0, {"tosses": 5})
    text = path.read_text()
    assert text.count("<!-- study") == 2
    assert "0.77" not in text
    assert "| ours | 0.3 |" in text
    assert "0.2 | of 5 tosses" in text
    assert "| [Are coins fair?](#are-coins-fair) | undecided | 2 min | `coins` |" in text
    assert (tmp_path / "found" / "dice.png").exists()


def test_the_rule_of_two_errors():
    assert [decided(effect, 1.0) for effect in (2.1, 1.9, -1.9, -2.1)] == [
        "confirmed", "undecided", "undecided", "contradicted",
    ]  # fmt: skip
    assert decided(1.0, float("nan")) == "undecided"
    assert mean_and_error([1.0, 3.0]) == (2.0, 1.0)
    with pytest.raises(ValueError, match="confirmed, contradicted, undecided"):
        Finding("true", "", (), {}, Figure)
