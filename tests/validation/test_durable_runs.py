"""Runs that survive, at length: fifty kills, draws that are larger than the memory, and how soon a signal is heeded."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import inference
import models

ROOT = Path(__file__).parents[2]
OPTIONS = dict(
    method="hmc", chains=2, draws=150, warmup=30, tuning=40, trajectory_length=1000.0, step_size=0.05, mass="diagonal"
)
KILLS = 50
GIBIBYTE = 2**30

_CHILD = """
import json, sys
import numpy as np
import inference, models

x = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
model = models.mlp((4,), "tanh", likelihood=models.Gaussian(scale=0.5))
if sys.argv[2] == "resume":
    inference.resume(sys.argv[1], progress=False, save_every=0.01)
else:
    inference.run(model, x, np.sin(x[:, 0]), progress=False, directory=sys.argv[1], save_every=0.01,
                  **json.loads(sys.argv[2]))
"""


def _spawn(code: str, *words: str) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, *words], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_fifty_kills(tmp_path):
    generator, kills, rounds, where = random.Random(7), 0, 0, {}
    x = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    model = models.mlp((4,), "tanh", likelihood=models.Gaussian(scale=0.5))
    plain = inference.run(model, x, np.sin(x[:, 0]), progress=False, **OPTIONS)
    while kills < KILLS:
        directory = tmp_path / f"run {rounds}"
        rounds += 1
        while True:
            begun = (directory / "run.json").exists()
            child = _spawn(_CHILD, str(directory), "resume" if begun else json.dumps(OPTIONS))
            try:
                child.wait(timeout=generator.uniform(1.0, 6.0))
                assert child.returncode == 0
                break
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                kills += 1
                stage = max(directory.glob("*/manifest-*"), key=lambda path: path.stat().st_mtime, default=None)
                name = stage.parent.name if stage else "before the first save"
                where[name] = where.get(name, 0) + 1
            finally:
                child.stdout.close()
        found = inference.load(directory)
        for name, values in plain.draws.items():
            np.testing.assert_array_equal(found.draws[name], values)
        for name, values in plain.statistics.items():
            np.testing.assert_array_equal(found.statistics[name], values)
    print(f"{kills} kills in {rounds} runs, each resumed to the same bits; where: {where}")


_LARGE = """
import resource, sys, time
import numpy as np, numpyro, numpyro.distributions as dist
import inference

def model(y=None):
    w = numpyro.sample("w", dist.Normal(0, 1).expand((1_000_000,)).to_event(1))
    numpyro.sample("y", dist.Normal(w[0], 1), obs=y)

began = time.perf_counter()
if sys.argv[2] == "run":
    options = dict(method="hmc", chains=1, warmup=0, step_size=0.05, trajectory_length=0.05, start="random")
    posterior = inference.run(
        model, np.float32(0.5), draws=int(sys.argv[3]), directory=sys.argv[1], progress=False, **options
    )
else:
    posterior = inference.load(sys.argv[1], model)
    assert posterior.ended == "unfinished" and posterior.shape[1] > 0
    print("draws", posterior.shape[1])
assert np.isfinite(posterior.draws["w"][0, -1]).all()
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "seconds", time.perf_counter() - began)
"""


def test_draws_of_forty_gigabytes_in_less_than_two_of_memory(tmp_path):
    draws, free = 10_000, shutil.disk_usage(tmp_path).free
    if free < 1.2 * draws * 4_000_000:
        pytest.skip(f"needs 48 GB of disk, there are {free / 1e9:.0f}")
    directory = tmp_path / "a"
    child = _spawn(_LARGE, str(directory), "run", str(draws))
    try:
        while not list(directory.glob("chains/manifest-*")):
            assert child.poll() is None
            time.sleep(0.5)
        time.sleep(20)
        live = _spawn(_LARGE, str(directory), "load")
        looked = live.communicate(timeout=600)[0].split()
        assert live.returncode == 0
        output = child.communicate(timeout=3000)[0].split()
        assert child.returncode == 0
    finally:
        child.kill()
        child.wait()
    print(f"while it ran: {looked}; the run: {output}")
    assert float(output[1]) < 2 * GIBIBYTE
    assert float(looked[looked.index("peak") + 1]) < 2 * GIBIBYTE


_PREDICT = """
import resource
import numpy as np
import inference, models
from inference.results.posterior import Posterior

x = np.random.default_rng(0).normal(size=(60, 784)).astype(np.float32)
model = models.mlp((300, 100, 70), "relu", likelihood=models.Categorical(10))
options = dict(method="hmc", chains=1, draws=1000, warmup=0, step_size=1e-3, trajectory_length=1e-3, start="random")
posterior = inference.run(model, x, np.arange(60) % 10, progress=False, {where}**options)
print("weights", sum(values[0, 0].size for values in posterior.draws.values()))
new = np.random.default_rng(1).normal(size=(1000, 784)).astype(np.float32)
probs = posterior.predict(new).probs
assert np.isfinite(probs).all()
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_predicting_with_a_thousand_draws_of_a_large_network(tmp_path, where):
    place = f"directory={str(tmp_path / 'a')!r}, " if where == "disk" else ""
    child = _spawn(_PREDICT.replace("{where}", place))
    output = child.communicate(timeout=900)[0].split()
    assert child.returncode == 0
    print(f"draws in {where}: {output}")
    assert int(output[1]) > 272_000
    assert float(output[3]) < 2 * GIBIBYTE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_heeded_within_five_seconds(tmp_path, number):
    directory = tmp_path / "a"
    child = _spawn(_CHILD, str(directory), json.dumps({**OPTIONS, "warmup": 0, "draws": 100_000}))
    try:
        while not list(directory.glob("chains/manifest-*")):
            assert child.poll() is None
            time.sleep(0.1)
        time.sleep(2)
        began = time.perf_counter()
        child.send_signal(number)
        code = child.wait(timeout=60)
        seconds = time.perf_counter() - began
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    print(f"{number.name}: {seconds:.2f} s, exit code {code}")
    assert code == (143 if number == signal.SIGTERM else 0)
    assert seconds < 5
    assert inference.load(directory).shape[1] > 0
