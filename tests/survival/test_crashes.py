"""Runs that survive: a kill at any moment loses nothing that was saved, and going on gives the same bits."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import diagnostics
import inference
import models
from inference.disk import journal
from inference.engine import chain as chains
from inference.engine import programs, threads
from inference.engine.pace import pace

ROOT = Path(__file__).parents[2]
MODEL = models.mlp((4,), "tanh", likelihood=models.Gaussian(scale=0.5))
METHODS = {
    "map": dict(method="map", steps=40),
    "ensemble": dict(method="ensemble", chains=2, steps=40, batch_size=20),
    "svi": dict(method="svi", steps=40, draws=10, batch_size=20),
    "nuts": dict(method="nuts", chains=2, draws=8, warmup=8, max_tree_depth=4),
    "hmc": dict(method="hmc", chains=2, draws=8, warmup=8, tuning=12, trajectory_length=1.0),
    "laplace": dict(method="laplace", steps=40, draws=10),
    "sghmc": dict(
        method="sghmc", chains=2, draws=8, warmup=240, thin=4, tuning=6, batch_size=20, preconditioner="rmsprop"
    ),
    "mclmc": dict(method="mclmc", chains=2, draws=8, warmup=40, thin=1, adjusted=True, trajectory_length=1.0),
    "vectorised": dict(
        method="hmc", chains=3, draws=8, warmup=8, tuning=12, trajectory_length=1.0, arrangement="vectorised"
    ),
}
every_method = pytest.mark.parametrize("options", METHODS.values(), ids=METHODS)


def _data() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    return x, np.sin(x[:, 0])


def _run(directory: Path | None = None, **options: object) -> inference.Posterior:
    return inference.run(MODEL, *_data(), directory=directory, progress=False, **options)


def _same(first: inference.Posterior, second: inference.Posterior) -> bool:
    return all(
        list(one) == list(other) and all(np.array_equal(one[name], other[name]) for name in one)
        for one, other in (
            (first.draws, second.draws), (first.statistics, second.statistics), (first.curves, second.curves)
        )
    )  # fmt: skip


class _Crash(BaseException):
    """Ends a run as a crash would: nothing is saved after it."""


@pytest.fixture
def crash(monkeypatch):
    """Lets the process die after a number of saves, or of iterations, in pieces as small as can be."""
    original = journal.Journal.save

    def after(saves: int, iterations: int = 10**9) -> None:
        counted = {"saves": 0}

        def save(self, saved, *args):
            original(self, saved, *args)
            counted["saves"] += 1
            if counted["saves"] == saves or min(chain.done for chain in saved) >= iterations:
                raise _Crash

        monkeypatch.setattr(journal.Journal, "save", save)

    with pace(piece_seconds=1e-9, saving_share=0.0):
        yield after
    monkeypatch.undo()


@pytest.mark.parametrize("name", ["map", "nuts", "laplace", "hmc"])  # the next test has all, and crashes besides
def test_a_run_in_a_directory_is_the_same_run(tmp_path, name):
    options = METHODS[name]
    plain, durable = _run(**options), _run(tmp_path / "a", **options)
    assert _same(plain, durable)
    assert durable.cost.gradients == plain.cost.gradients
    finished = inference.resume(tmp_path / "a")
    assert _same(plain, finished)
    assert finished.ended == "draws"
    assert finished.cost.gradients == plain.cost.gradients


@every_method
def test_resuming_after_crashes_gives_the_same_bits(tmp_path, options, crash, monkeypatch):
    if "warmup" in options:
        options = {**options, "start": "random"}  # or all crashes would be in the training of the start
    plain = _run(**options)
    directory = tmp_path / "a"
    crash(3)
    with pytest.raises(_Crash):
        _run(directory, save_every=1e-9, **options)
    crashes = 1
    for saves in (5, 6, 7, 8, 40):
        crash(saves)
        try:
            posterior = inference.resume(directory, progress=False, save_every=1e-9)
            break
        except _Crash:
            crashes += 1
    else:
        monkeypatch.undo()
        posterior = inference.resume(directory, progress=False)
    assert crashes >= 2
    assert _saved(directory, "chains")  # some of the crashes were there
    assert _same(plain, posterior)
    assert posterior.cost.gradients == plain.cost.gradients


def test_crashes_while_the_start_is_trained(tmp_path, crash):
    plain = _run(**METHODS["hmc"])
    crash(700)
    with pytest.raises(_Crash):
        _run(tmp_path / "a", save_every=1e-9, **METHODS["hmc"])
    assert [path.name for path in (tmp_path / "a").iterdir() if path.is_dir()] == ["start"]
    crash(10**9)
    assert _same(plain, inference.resume(tmp_path / "a", progress=False))


def test_a_crash_before_the_first_save_begins_anew(tmp_path, crash, monkeypatch):
    def save(self, *args):
        raise _Crash

    monkeypatch.setattr(journal.Journal, "save", save)
    with pytest.raises(_Crash):
        _run(tmp_path / "a", **METHODS["hmc"])
    monkeypatch.undo()
    with pytest.raises(ValueError, match="no draws that can be read: it has just begun"):
        inference.load(tmp_path / "a")
    assert _same(_run(**METHODS["hmc"]), inference.resume(tmp_path / "a", progress=False))


@pytest.mark.parametrize(("keep", "iterations"), [("all", 150), ("none", 140)])  # between two milestones, each
def test_until_is_asked_what_it_was_asked_before_the_crash(tmp_path, crash, keep, iterations):
    options = {**METHODS["nuts"], "draws": 400, "until": {"ess": 60}, "start": "random", "keep": keep}
    plain = _run(**options)
    assert (plain.ended, plain.shape[1]) == ("until", 200)
    crash(10**9, iterations)
    with pytest.raises(_Crash):
        _run(tmp_path / "a", save_every=1e-9, **options)
    crash(10**9)
    resumed = inference.resume(tmp_path / "a", progress=False)
    assert (resumed.ended, resumed.shape) == ("until", plain.shape)
    assert _same(plain, resumed)


def test_files_are_closed_after_a_crash(tmp_path, crash):
    open_before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else None
    if open_before is None:
        pytest.skip("open files are counted through /proc, which this system does not have")
    for i in range(3):
        crash(3)
        with pytest.raises(_Crash):
            _run(tmp_path / str(i), save_every=1e-9, **METHODS["map"])
    assert len(os.listdir("/proc/self/fd")) <= open_before + 2


_CHILD = """
import json, sys, time
import numpy as np
import inference, models
from inference.engine import chain
from inference.engine.pace import pace

stage, most = json.loads(sys.argv[3])
take = chain.Chain.take

def held(self, piece, method, ledger, keeping):
    "Go on only until all chains of a stage have saved some iterations: a fast run does not end before it is killed."
    while ledger._folder.name == stage and ledger.manifest and min(c["done"] for c in ledger.manifest["chains"]) > most:
        time.sleep(0.1)
    return take(self, piece, method, ledger, keeping)

if most:
    chain.Chain.take = held
x = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
model = models.mlp((4,), "tanh", likelihood=models.Gaussian(scale=0.5))
with pace(piece_seconds=0.02, saving_share=1.0):
    if sys.argv[2] == "resume":
        posterior = inference.resume(sys.argv[1], progress=False, save_every=0.01)
    else:
        posterior = inference.run(
            model, x, np.sin(x[:, 0]), progress=False, directory=sys.argv[1], save_every=0.01, **json.loads(sys.argv[2])
        )
"""
LONG = dict(  # 10,000 steps a trajectory
    method="hmc", chains=2, draws=20, warmup=8, tuning=20, trajectory_length=500.0, step_size=0.05, mass="diagonal"
)  # fmt: skip


def _child(directory: Path, what: str, hold: tuple[str, int]) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _CHILD, str(directory), what, json.dumps(hold)],
        env=environment,
        stderr=subprocess.PIPE,
    )


def _saved(directory: Path, stage: str) -> list[int]:
    """The iterations of a stage's chains at its last save; none before the first."""
    found = [json.loads(json.loads(path.read_text())["manifest"]) for path in directory.glob(f"{stage}/manifest-*")]
    newest = max(found, key=lambda manifest: manifest["number"], default={"chains": []})
    return [chain["done"] for chain in newest["chains"]]


def _wait_for(condition, child: subprocess.Popen, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert child.poll() is None, (child.returncode, child.stderr.read().decode()[-2000:])
        assert time.monotonic() < end, "the run did not get there in time"
        time.sleep(0.01)


def _kill_when(
    condition, directory: Path, what: str, delay: float, number: int = signal.SIGKILL, hold: tuple[str, int] = ("", 0)
) -> int:
    """Start a run or go on with it, and end it some time after a condition holds; its exit code."""
    child = _child(directory, what, hold)
    try:
        _wait_for(condition, child)
        time.sleep(delay)
        child.send_signal(number)
        return child.wait(timeout=60)
    finally:
        child.kill()
        child.wait()
        child.stderr.close()


@pytest.fixture(scope="module")
def long_run() -> inference.Posterior:
    posterior = _run(**LONG)
    assert (posterior.statistics["n_steps"] >= 8_000).all()  # so a kill is inside a trajectory
    return posterior


def test_kills_at_random_moments_lose_nothing(tmp_path, long_run):
    generator = random.Random(20)
    directory = tmp_path / "a"
    stages = [("pilot1", 2), ("chains", 2), ("chains", 9)]  # in the pilot, in warm-up, while sampling
    for i, (stage, least) in enumerate(stages):
        reached = lambda stage=stage, least=least: min(_saved(directory, stage), default=-1) >= least  # noqa: E731
        what, delay = "resume" if i else json.dumps(LONG), generator.uniform(0, 0.3)
        assert _kill_when(reached, directory, what, delay, hold=(stage, least + 1)) == -9
    partial = inference.load(directory)
    assert partial.ended == "unfinished"
    for name, values in partial.draws.items():  # no draw is lost, and none is made up
        np.testing.assert_array_equal(values, long_run.draws[name][:, : values.shape[1]])
    assert _same(long_run, inference.resume(directory, progress=False))


def test_sigterm_ends_the_process_with_its_code(tmp_path, long_run):
    directory = tmp_path / "a"
    first = _kill_when(lambda: max(_saved(directory, "chains"), default=-1) >= 3, directory, json.dumps(LONG), 0.0, 15)
    assert first == 143
    assert _same(long_run, inference.resume(directory, progress=False))


def test_sigterm_saves_what_no_interval_would_have(tmp_path, monkeypatch, at_pace, long_run):
    calls, killed = [], []

    def take(self, *args):
        calls.append(self)
        if len(calls) >= 40 and self.done > 0 and not killed:  # however slow the machine is, something is there to save
            killed.append(self)
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, *args)

    original = chains.Chain.take
    at_pace(piece_seconds=0.01)
    monkeypatch.setattr(chains.Chain, "take", take)
    options = {**LONG, "start": "random", "mass": "prior"}
    with pytest.raises(SystemExit) as ended:
        _run(tmp_path / "a", save_every=1e6, **options)
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    monkeypatch.undo()
    assert sum(_saved(tmp_path / "a", "chains")) > 0
    assert _same(_run(**options), inference.resume(tmp_path / "a", progress=False))


def test_ctrl_c_can_be_resumed(tmp_path, monkeypatch, at_pace):
    options = {**METHODS["nuts"], "draws": 2000, "start": "random"}
    plain = _run(**options)
    original, calls = chains.Chain.take, []

    def take(self, *args):
        calls.append(self)
        if len(calls) == 60:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, *args)

    at_pace(piece_seconds=1e-9)
    monkeypatch.setattr(chains.Chain, "take", take)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        stopped = _run(tmp_path / "a", **options)
    finally:
        signal.signal(signal.SIGINT, before)
    assert stopped.ended == "interrupted"
    assert 0 < stopped.shape[1] < 2000
    monkeypatch.undo()
    assert _same(plain, inference.resume(tmp_path / "a", progress=False))


@pytest.mark.parametrize("durable", [True, False])
def test_a_chain_with_nan_stops_and_the_others_go_on(tmp_path, monkeypatch, at_pace, durable):
    options = {**METHODS["nuts"], "chains": 3, "start": "random"}
    plain = _run(**options)
    original = threads._Alone.run

    def run(self, goal):
        if self.chains[0].number == 1 and self.chains[0].done == 10:
            broken = {name: value * np.nan for name, value in self._state.z.items()}
            self._state = self._state._replace(z=broken)
        return original(self, goal)

    at_pace(piece_seconds=1e-9)
    monkeypatch.setattr(threads._Alone, "run", run)
    with pytest.warns(UserWarning, match=r"chain 1 stopped before its end.*no longer finite between iterations 10"):
        posterior = _run(tmp_path / "a" if durable else None, **options)
    monkeypatch.undo()
    assert posterior.shape == (2, 8)
    assert list(posterior.stopped) == [1]
    assert list(posterior.idata.posterior.coords["chain"].values) == [0, 2]
    for name, values in posterior.draws.items():
        np.testing.assert_array_equal(values, plain.draws[name][[0, 2]])
    judged = diagnostics.convergence(posterior)
    assert not judged.passed
    assert any("chain 1 stopped before its end" in failure for failure in judged.failures)
    if durable:
        assert _same(inference.load(tmp_path / "a"), posterior)
        assert inference.load(tmp_path / "a").stopped == posterior.stopped
        with pytest.warns(UserWarning, match="chain 1 stopped before its end"):
            assert _same(inference.resume(tmp_path / "a", progress=False), posterior)


def test_if_every_chain_has_nan_there_is_an_error(monkeypatch):
    original = programs.advance

    def advance(*args):
        done, worked, state, (draws, info) = original(*args)
        return done, worked, state, ({name: values * np.nan for name, values in draws.items()}, info)

    monkeypatch.setattr(programs, "advance", advance)
    with pytest.raises(FloatingPointError, match=r"the site 'hidden0\.bias' was no longer finite"):
        _run(**{**METHODS["nuts"], "start": "random"})
