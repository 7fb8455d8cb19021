"""Runs on several hosts of which one dies, hangs, or is told to end; and hosts that would not run the same."""

from __future__ import annotations

import json
import signal
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import inference
from inference.disk.manifest import read_manifests
from tests.helpers.several_hosts import MODEL, X, Y, address, begun, commands, on_hosts

pytestmark = [pytest.mark.validation, pytest.mark.filterwarnings("ignore::inference.TouchstoneWarning")]

# Some ten seconds on two processes, and the same bits on one device, on two, and after a crash.
LONG = dict(method="hmc", chains=1, draws=25, warmup=2, step_size=0.005, trajectory_length=0.5, start="random")

SHORT = ("chains=2", "draws=10", "warmup=10", "step_size=0.05", "trajectory_length=0.2", "start=random")


def _alone(**options: object) -> inference.Posterior:
    return inference.run(MODEL, X, Y, arrangement="sharded", progress=False, **options)


def _same(one: inference.Posterior, other: inference.Posterior) -> bool:
    return all(np.array_equal(values, other.draws[name]) for name, values in one.draws.items())


def _drawn(directory: Path) -> int:
    """How many draws are saved."""
    saves = read_manifests(directory / "chains")
    return saves[0]["chains"][0]["kept"] if saves else 0


def _interrupted(directory, number, host, timeout, others_end=True):
    """Begin a run on two hosts, send one a signal once a draw is saved, and wait: how they ended, and how soon."""
    with begun(commands(2, dict(steps=[dict(directory=str(directory), **LONG)], timeout=timeout))) as hosts:
        until = time.monotonic() + 100
        while not _drawn(directory):
            assert time.monotonic() < until, "nothing was saved"
            assert all(each.process.poll() is None for each in hosts), [each.end(0).err for each in hosts]
            time.sleep(0.05)
        hosts[host].process.send_signal(number)
        began = time.monotonic()
        ended = [each.end(began + 120) for i, each in enumerate(hosts) if others_end or i != host]
        return ended, time.monotonic() - began


def test_when_a_host_dies_the_first_one_saves_and_one_host_goes_on(tmp_path):
    (first, second), seconds = _interrupted(tmp_path / "run", signal.SIGKILL, 1, timeout=60)
    assert seconds < 115
    assert second.code == -signal.SIGKILL
    assert first.code not in (0, -signal.SIGKILL)
    assert "HostLost" in first.err
    assert "what was drawn is saved" in first.err
    assert 0 < inference.load(tmp_path / "run").shape[1] < LONG["draws"]
    assert _same(inference.resume(tmp_path / "run", progress=False), _alone(**LONG))


def test_a_host_that_hangs_is_given_up(tmp_path):
    (first,), seconds = _interrupted(tmp_path / "run", signal.SIGSTOP, 1, timeout=10, others_end=False)
    assert seconds < 115
    assert first.code not in (0, -signal.SIGKILL)
    assert "is stuck" in first.err or "has not answered" in first.err
    assert "what was drawn is saved" in first.err


def test_when_the_first_host_dies_the_other_ends_and_what_was_saved_is_there(tmp_path):
    (_, second), seconds = _interrupted(tmp_path / "run", signal.SIGKILL, 0, timeout=60)
    assert seconds < 115
    assert second.code not in (0, -signal.SIGKILL)
    assert "another task died" in second.err or "HostLost" in second.err
    assert inference.load(tmp_path / "run").shape[1] > 0


def test_sigterm_on_any_host_saves_and_ends_all_and_two_hosts_go_on(tmp_path):
    ended, seconds = _interrupted(tmp_path / "run", signal.SIGTERM, 1, timeout=60)
    assert [each.code for each in ended] == [143, 143], [each.err for each in ended]
    assert seconds < 30
    first, second = on_hosts(2, dict(resume=str(tmp_path / "run")))
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert first.found == second.found
    alone = _alone(**LONG)
    assert first.found[0]["lp"] == alone.statistics["lp"][0].tolist()
    assert _same(inference.load(tmp_path / "run"), alone)


def test_ctrl_c_on_any_host_ends_all_with_the_same_draws(tmp_path):
    ended, _ = _interrupted(tmp_path / "run", signal.SIGINT, 1, timeout=60)
    assert [each.code for each in ended] == [0, 0], [each.err for each in ended]
    (first,), (second,) = (each.found for each in ended)
    assert first == second
    assert first["ended"] == "interrupted"


@pytest.mark.parametrize(
    ("other", "said"),
    [({"off": 1e-6}, "the data"), ({"seed": 1}, "the seed"), ({"draws": 3}, "the options")],
    ids=["data", "seed", "options"],
)
def test_hosts_with_another_run_are_told_before_anything_is_drawn(other, said):
    for each in on_hosts(2, {**LONG, "on": {"1": other}}, timeout=20):
        assert each.code == 1
        assert "ValueError" in each.err
        assert "not the same on host 1 as on host 0" in each.err
        assert said in each.err


def test_a_directory_that_not_all_hosts_see_is_refused(tmp_path, monkeypatch):
    step = {**LONG, "directory": str(tmp_path / "a"), "on": {"1": {"directory": str(tmp_path / "b")}}}
    first, second = on_hosts(2, step, timeout=60)
    assert (first.code, second.code) == (1, 1)
    assert "all hosts must see the run" in second.err
    assert "host 1 has failed" in first.err


def test_the_command_on_two_hosts_is_that_of_one_and_only_the_first_prints_and_writes(tmp_path):
    options = ["--method", "hmc", "--hidden", "5", "--json", "--directory", str(tmp_path / "run"), "--out"]
    options += [str(tmp_path / "out"), *(f"-o{word}" for word in SHORT)]
    where = address()
    command = [sys.executable, "-m", "touchstone", "run", "moons", *options, "--coordinator", where, "--hosts", "2"]
    with begun([[*command, "--host", str(host)] for host in range(2)]) as hosts:
        first, second = (host.end(time.monotonic() + 200) for host in hosts)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert json.loads(first.out)["results"]["hmc"]["chains"] == 2
    assert second.out == ""
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {"hmc.csv", "hmc.npz", "report.html", "scores.json"}
    resume = [sys.executable, "-m", "touchstone", "extend", str(tmp_path / "run"), "--draws", "20", "--json"]
    resume += ["--coordinator", where, "--hosts", "2", "--host"]
    with begun([[*resume, str(host)] for host in range(2)]) as hosts:
        first, second = (host.end(time.monotonic() + 200) for host in hosts)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert json.loads(first.out)["draws"] == 20
    assert second.out == ""


def test_until_is_decided_by_the_first_host():
    step = dict(
        method="nuts", chains=2, draws=200, warmup=20, max_tree_depth=2, start="random", until={"ess": 1}
    )  # fmt: skip
    first, second = on_hosts(2, step)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert first.found == second.found
    assert first.found[0]["ended"] == "until"
    assert len(first.found[0]["lp"]) == 100  # its first look


SAMPLERS = {
    "nuts": dict(method="nuts", chains=1, draws=100, warmup=10, max_tree_depth=3, start="random"),
    "mclmc": dict(
        method="mclmc", chains=1, draws=8, warmup=40, thin=1, adjusted=True, trajectory_length=0.5, start="random"
    ),
    "sgld": dict(method="sgld", chains=2, draws=100, warmup=8, thin=2, step_size=1e-4, start="random"),
    "minibatches": dict(
        method="sgld", chains=1, draws=100, warmup=8, thin=2, step_size=1e-4, batch_size=16, start="random"
    ),
    "start and pilot": dict(method="hmc", chains=2, draws=2, warmup=2, tuning=12, trajectory_length=0.1),
}  # fmt: skip
FITS = {
    "map": dict(method="map", steps=300),
    "ensemble": dict(method="ensemble", chains=2, steps=300, batch_size=32),
    "bootstrap": dict(method="ensemble", chains=1, steps=300, bootstrap=True),
    "svi": dict(method="svi", steps=300, draws=10),
    "laplace": dict(method="laplace", steps=300, draws=10),
}


@pytest.mark.parametrize("options", [*SAMPLERS.values(), *FITS.values()], ids=[*SAMPLERS, *FITS])
def test_other_methods_find_on_two_hosts_what_they_find_on_one(options):
    # SGLD's temperature is that of its draws: a gradient that counted once per host would change them all.
    first, second = on_hosts(2, options, seconds=300)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert first.found == second.found
    (found,) = first.found
    alone = _alone(**options) if options in SAMPLERS.values() else inference.run(MODEL, X, Y, progress=False, **options)
    loss = alone.curves.get("loss", np.zeros((1, 0)))[0]
    close = partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-2)  # sums of hundreds, rounded to 2e-5 at each step
    close(found["loss"], loss)
    if alone.method.name != "laplace":  # whose draws, around a mode that 300 steps don't reach, are as wide as rounding
        close(found["lp"], alone.statistics["lp"][0])
