"""Progress: one bar for each stage, that leaves one line behind wherever it is shown."""

from __future__ import annotations

import io
import re
import sys
from types import SimpleNamespace

import pytest

from inference.display import progress
from inference.display.progress import Display


class _Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = _Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.fixture
def cell(monkeypatch):
    """The outputs of a cell, each as the list of what it has shown so far."""
    outputs: list[list[dict[str, str]]] = []

    def display(bundle, *, raw, display_id):
        assert raw
        assert display_id
        outputs.append([bundle])
        return SimpleNamespace(update=lambda bundle, raw: outputs[-1].append(bundle))

    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", display)
    return outputs


def _run(clock, pieces: int, seconds: float, chains: int = 2) -> None:
    with Display("hmc", pieces, chains=chains) as display:
        clock.now += 3.0
        for chain in range(chains):
            display.begin(0, chain)
        for piece in range(pieces):
            for chain in range(chains):
                clock.now += seconds
                display.update(piece + 1, f"acceptance 0.{80 + chain}", chain)


def test_a_notebook_has_one_output_for_each_stage(cell, clock, capsys):
    _run(clock, pieces=1000, seconds=0.01)
    _run(clock, pieces=10, seconds=0.1, chains=1)
    first, second = cell
    assert len(first) <= 2 + 20 / 0.5 + 1  # of 2,000 updates
    assert "<progress" in first[-2]["text/html"]
    assert re.search(r'max="1" value="0\.9\d+"', first[-3]["text/html"])
    assert "<progress" not in first[-1]["text/html"]
    assert first[-1]["text/plain"] == "hmc, 2 chains: 2,000 iterations in 23 s, acceptance 0.80 to 0.81"
    assert second[-1]["text/plain"] == "hmc: 10 iterations in 4.0 s, acceptance 0.80"
    assert capsys.readouterr() == ("", "")


def test_messages_stay_and_are_escaped(cell, clock):
    with Display("<b>hmc</b>", 10) as display:
        display.say("stopping <soon>")
        clock.now += 1
        display.update(3)
    (output,) = cell
    assert output[-1]["text/plain"] == "stopping <soon>\n<b>hmc</b>: 3 of 10 iterations in 1.0 s"
    assert "stopping &lt;soon&gt;<br>&lt;b&gt;hmc&lt;/b&gt;" in output[-1]["text/html"]
    assert "<b>" not in output[-1]["text/html"]


def test_what_is_inside_of_another_display_is_told_on_its_line(cell, clock):
    with Display("sweep", 2, counted="run") as outer:
        for run in range(2):
            outer.update(run, f"temperature {run}")
            with Display("hmc pilot", None, counted="round") as pilot:
                with Display("round 1", 50) as inner:
                    inner.begin(0)
                    clock.now += 1.0
                    inner.update(25, "acceptance 0.8")
                pilot.update(1)
            with Display("silent", 50, enabled=False) as silent:
                silent.update(25)
        outer.update(2)
    (output,) = cell
    seen = [bundle["text/plain"] for bundle in output]
    assert seen[0] == "sweep: preparing"
    expected = "sweep: 0 of 2 runs, temperature 0, hmc pilot: round 1: 25 of 50 iterations, 1.0 s left, acceptance 0.8"
    assert expected in seen
    assert seen[-1] == "sweep: 2 runs in 2.0 s"


def test_a_terminal_keeps_one_line(clock, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for name in ("NO_COLOR", "TERM", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stderr", Terminal())
    _run(clock, pieces=100, seconds=0.1)
    written = sys.stderr.getvalue()
    assert "━" in written
    assert (
        written.rstrip("\n").splitlines()[-1].endswith("hmc, 2 chains: 200 iterations in 23 s, acceptance 0.80 to 0.81")
    )
    assert written.count("\n") <= 2  # the bar itself is drawn again in its place


def test_a_log_has_a_line_now_and_then(clock, capsys):
    _run(clock, pieces=100, seconds=0.1)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("hmc, 2 chains: 71 of 200 iterations, 13 s left")


def test_chains_are_told_together():
    assert progress._together(["", ""]) == ""
    assert progress._together(["loss 1.5e+03"]) == "loss 1.5e+03"
    said = ["acceptance 0.85", "acceptance 0.9, 2 divergent", "acceptance 0.8, 11 divergent"]
    assert progress._together(said) == "acceptance 0.8 to 0.9, 2 to 11 divergent"


def test_a_notebook_is_recognised_without_importing_ipython(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not progress._in_notebook()
    assert "IPython" not in sys.modules
    shell = type("Shell", (type("ZMQInteractiveShell", (), {}),), {})  # as Colab derives its own
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=shell))
    assert progress._in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not progress._in_notebook()
