"""The driver: pieces, chains and Ctrl-C change nothing in the draws."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import inference
from inference.engine import driver
from inference.runs.stopping import EnoughDraws

ROOT = Path(__file__).parents[3]

HMC = {"method": "hmc", "draws": 20, "warmup": 15, "tuning": 30}
NUTS = {"method": "nuts", "draws": 20, "warmup": 15, "max_tree_depth": 5, "start": "random"}


def same(first: inference.Posterior, second: inference.Posterior, draws: int | None = None, chains: int | None = None):
    return all(
        first.draws[name][:chains, :draws].tobytes() == second.draws[name][:chains, :draws].tobytes()
        for name in first.draws
    )


MCLMC = {"method": "mclmc", "draws": 20, "warmup": 40, "thin": 2, "start": "random"}
ADJUSTED = {**MCLMC, "adjusted": True, "thin": 1}
SGHMC = {"method": "sghmc", "draws": 20, "warmup": 240, "thin": 3, "tuning": 20, "batch_size": 10, "start": "random"}
samplers = pytest.mark.parametrize(
    "options", [NUTS, HMC, MCLMC, ADJUSTED, SGHMC], ids=["nuts", "hmc", "mclmc", "adjusted mclmc", "sghmc"]
)


@samplers
def test_the_length_of_pieces_does_not_change_the_draws(conjugate, at_pace, options):
    whole = conjugate.run(chains=2, **options)
    at_pace(piece_seconds=1e-9)  # one iteration at a time, or one leapfrog step
    pieces = conjugate.run(chains=2, **options)
    assert same(whole, pieces)
    assert whole.cost.gradients == pieces.cost.gradients
    for name in whole.statistics:
        np.testing.assert_array_equal(whole.statistics[name], pieces.statistics[name])


@samplers
def test_a_chain_does_not_depend_on_its_company(conjugate, options):
    alone, three = conjugate.run(chains=1, **options), conjugate.run(chains=3, **options)
    assert same(alone, three, chains=1)
    assert not np.array_equal(three.draws["output.bias"][0], three.draws["output.bias"][1])


@samplers
def test_fewer_draws_are_the_first_of_more(conjugate, options):
    assert same(conjugate.run(chains=2, **options), conjugate.run(chains=2, **{**options, "draws": 7}), draws=7)


_ON_DEVICES = """
import hashlib, json, sys
import jax
import numpy as np
import inference, models

generator = np.random.default_rng(0)
x = generator.normal(size=(3000, 3)).astype(np.float32)
y = np.sin(x[:, 0]).astype(np.float32)
hidden, options = json.loads(sys.argv[1])
posterior = inference.run(models.mlp(hidden, "tanh"), x, y, progress=False, **options)
content = b"".join(values.tobytes() for values in posterior.draws.values())
print(json.dumps([len(jax.devices()), hashlib.sha256(content).hexdigest()]))
"""


@pytest.mark.parametrize(
    ("hidden", "chunk_size", "counts", "threads"),
    [
        ([6], 512, (1, 2), None),
        # A large product is split by the threads of XLA's pool: the larger of cores and devices, unless NPROC says so.
        pytest.param([100, 100], None, (1, 2, 8), "8", marks=pytest.mark.validation),
    ],
)
def test_the_number_of_devices_does_not_change_the_draws(hidden, chunk_size, counts, threads):
    # What a machine has is set before JAX starts, so each number needs a process of its own.
    options = dict(method="hmc", chains=2, draws=3, warmup=2, step_size=1e-3, trajectory_length=0.03, start="random")
    digests = []
    for count in counts:
        flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={count}", "PYTHONPATH": str(ROOT)}
        output = subprocess.run(
            [sys.executable, "-c", _ON_DEVICES, json.dumps([hidden, {**options, "chunk_size": chunk_size}])],
            env={**os.environ, **flags, **({"NPROC": threads} if threads else {})},
            timeout=300, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        devices, digest = json.loads(output)
        assert devices == count
        digests.append(digest)
    assert len(set(digests)) == 1


def test_settings_of_the_users_thread_reach_the_workers(conjugate):
    seen = []

    def model(x, y=None):
        w = numpyro.sample("w", dist.Normal(0, 1).expand((3,)).to_event(1))
        seen.append((threading.current_thread() is threading.main_thread(), jax.config.jax_default_matmul_precision))
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)

    with jax.default_matmul_precision("highest"):
        inference.run(model, conjugate.x, conjugate.y, method="map", steps=10, progress=False)
    assert set(seen) == {(True, "highest")}  # traced in the main thread only


def test_thinning_keeps_every_third_draw(conjugate):
    every = conjugate.run(chains=1, **{**NUTS, "draws": 21})
    third = conjugate.run(chains=1, thin=3, **{**NUTS, "draws": 7})
    for name in every.draws:
        np.testing.assert_array_equal(every.draws[name][:, 2::3], third.draws[name])
    for name in every.statistics:
        np.testing.assert_array_equal(every.statistics[name][:, 2::3], third.statistics[name])


def test_gradients_are_counted_in_warmup_too(conjugate):
    posterior = conjugate.run(chains=2, **NUTS)
    assert posterior.cost.gradients > posterior.statistics["n_steps"].sum()
    assert conjugate.run(method="map", steps=40).cost.gradients == 40


def _interrupt_after(monkeypatch, at_pace, calls: int) -> None:
    counted = {"calls": 0}
    original = driver.wait

    def wait(*args, **kwargs):
        counted["calls"] += 1
        if counted["calls"] == calls:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(driver, "wait", wait)
    at_pace(piece_seconds=1e-9)


def test_interrupt_returns_what_was_drawn(conjugate, monkeypatch, at_pace):
    options = {**NUTS, "warmup": 3}
    whole = conjugate.run(chains=2, **options)
    _interrupt_after(monkeypatch, at_pace, calls=15)  # each call before that ends one or two pieces of one iteration
    stopped = conjugate.run(chains=2, **options)
    chains, draws = stopped.shape
    assert stopped.partial
    assert chains == 2
    assert 1 <= draws < 20
    assert same(whole, stopped, draws=draws)
    assert stopped.idata.posterior.attrs["partial"] == 1


def test_interrupt_inside_a_trajectory_keeps_the_draws_before_it(conjugate, monkeypatch, at_pace):
    options = {**HMC, "warmup": 0, "start": "random", "step_size": 0.05, "trajectory_length": 2.0}  # 40 steps a draw
    whole = conjugate.run(chains=1, **options)
    _interrupt_after(monkeypatch, at_pace, calls=100)  # each call before that makes one leapfrog step
    stopped = conjugate.run(chains=1, **options)
    assert stopped.ended == "interrupted"
    assert stopped.shape == (1, 2)
    assert same(whole, stopped, draws=2)


def test_interrupt_with_more_chains_than_cores(conjugate, monkeypatch, at_pace):
    _interrupt_after(monkeypatch, at_pace, calls=1)
    for options in (NUTS, {"method": "ensemble", "steps": 100}):
        with pytest.raises(KeyboardInterrupt, match="before the first draw"):
            conjugate.run(chains=30, **options)
        monkeypatch.undo()
        _interrupt_after(monkeypatch, at_pace, calls=1)


def test_interrupt_at_a_milestone_is_not_forgotten(conjugate, monkeypatch, at_pace):
    options = {**NUTS, "draws": 400, "until": {"ess": 1e6}}
    at_pace(piece_seconds=1e9)  # the piece under way ends at the milestone
    original, calls = driver.wait, []

    def wait(*args, **kwargs):
        calls.append(original(*args, **kwargs))
        if len(calls) == 2:
            original(args[0], return_when="ALL_COMPLETED")
            raise KeyboardInterrupt
        return calls[-1]

    monkeypatch.setattr(driver, "wait", wait)
    assert conjugate.run(chains=1, **options).ended == "interrupted"


def test_interrupt_while_the_draws_are_looked_at(conjugate, monkeypatch):
    def met(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(EnoughDraws, "met", met)
    stopped = conjugate.run(chains=2, **{**NUTS, "draws": 400, "until": {"ess": 1e6}})
    assert (stopped.ended, stopped.shape) == ("interrupted", (2, 100))


def test_interrupt_before_the_chains_run_has_nothing_to_return(conjugate, monkeypatch, at_pace):
    _interrupt_after(monkeypatch, at_pace, calls=5)  # while the ensemble trains
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        conjugate.run(chains=2, **HMC)
    monkeypatch.undo()
    _interrupt_after(monkeypatch, at_pace, calls=5)  # while the pilot runs
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        conjugate.run(chains=2, start="random", **HMC)


def test_a_second_interrupt_gives_up(conjugate, monkeypatch, at_pace):
    def wait(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "wait", wait)
    at_pace(piece_seconds=1e-9)
    with pytest.raises(KeyboardInterrupt):
        conjugate.run(chains=2, **NUTS)


def test_interrupt_in_warmup_has_nothing_to_return(conjugate, monkeypatch, at_pace):
    _interrupt_after(monkeypatch, at_pace, calls=3)
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        conjugate.run(chains=2, **NUTS)


def test_interrupted_optimisation_gives_the_point_it_reached(conjugate, monkeypatch, at_pace):
    _interrupt_after(monkeypatch, at_pace, calls=5)
    stopped = conjugate.run(method="map", steps=1000)
    assert stopped.partial
    assert 1 <= stopped.curves["loss"].shape[1] < 1000


def test_an_error_in_a_worker_reaches_the_caller(conjugate, monkeypatch):
    def watch(self, info, done):
        raise FloatingPointError("on purpose")

    monkeypatch.setattr(inference.MAP, "watch", watch)
    with pytest.raises(FloatingPointError, match="on purpose"):
        conjugate.run(method="map", steps=50)


def test_progress_in_a_log_is_a_few_plain_lines(conjugate, capsys):
    inference.run(conjugate.model, conjugate.x, conjugate.y, method="map", steps=50)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert re.fullmatch(r"map: 50 iterations in [\d.]+ s, loss \S+", lines[0])


def test_progress_of_a_sampler_names_its_stages(conjugate, capsys):
    inference.run(conjugate.model, conjugate.x, conjugate.y, chains=2, **HMC)
    lines = capsys.readouterr().err.splitlines()
    stages = [line.split(":")[0] for line in lines]
    assert stages == ["hmc start, 4 chains", "hmc pilot", "hmc, 2 chains"]  # the pilot has four, whatever is asked for
    assert re.fullmatch(r"hmc pilot: 3 rounds in [\d.]+ s", lines[1])
    assert re.match(r"hmc, 2 chains: 70 iterations in [\d.]+ s, acceptance 0.", lines[2])


def test_progress_off_is_silent(conjugate, capsys):
    conjugate.run(method="map", steps=50)
    assert capsys.readouterr() == ("", "")
