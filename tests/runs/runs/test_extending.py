"""More draws later: the bits are those of one longer run, in memory and on disk."""

from __future__ import annotations

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import inference
from inference.disk import run_directory
from tests.helpers.small_run import same

METHODS = {
    "hmc": {"chains": 2, "warmup": 10, "tuning": 40},
    "nuts": {"chains": 2, "warmup": 20, "mass": "tuned"},  # the pilot is of another method than the chains
    "mclmc": {"chains": 2, "warmup": 60, "thin": 3},
    "sgld": {"chains": 2, "warmup": 20, "thin": 2, "step_size": 1e-3},
}


@pytest.mark.parametrize("name", METHODS)
def test_extended_draws_are_those_of_a_longer_run(conjugate, name, tmp_path):
    options = {"method": name, "seed": 3, **METHODS[name]}
    whole = conjugate.run(draws=30, **options)
    short = conjugate.run(draws=12, **options)
    longer = inference.extend(short, draws=30, progress=False)
    assert same(longer, whole)
    assert short.shape == (2, 12)  # what it was extended from stays as it is
    assert longer.cost.gradients == whole.cost.gradients
    assert longer.method.draws == 30
    conjugate.run(draws=12, directory=tmp_path / "a", **options)
    assert same(inference.extend(tmp_path / "a", draws=30, progress=False), whole)
    assert same(inference.resume(tmp_path / "a", progress=False), whole)
    assert same(inference.load(tmp_path / "a"), whole)


def test_in_steps_and_until(conjugate):
    options = {"method": "hmc", "seed": 1, **METHODS["hmc"]}
    whole = conjugate.run(draws=40, **options)
    some = inference.extend(conjugate.run(draws=5, **options), 20, progress=False)
    steps = inference.extend(some, 40, progress=False)
    assert same(steps, whole)
    low = conjugate.run(draws=2000, until={"ess": 50}, **options)
    assert low.ended == "until"
    more = inference.extend(low, until={"ess": 400}, progress=False)
    assert more.ended == "until"
    assert more.shape[1] > low.shape[1]
    first = low.shape[1]
    np.testing.assert_array_equal(more.draws["output.weight"][:, :first], low.draws["output.weight"])


def test_what_can_not_be_extended(conjugate, tmp_path):
    options = {"method": "hmc", **METHODS["hmc"]}
    posterior = conjugate.run(draws=5, **options)
    with pytest.raises(ValueError, match="the run has 5: give more than that, not 5"):
        inference.extend(posterior, draws=5, progress=False)
    posterior.save(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="read from a file"):
        inference.extend(inference.load(tmp_path / "a.npz"), draws=9, progress=False)
    with pytest.raises(ValueError, match="map has none"):
        inference.extend(conjugate.run(method="map", steps=5), draws=9, progress=False)
    decaying = conjugate.run(method="sgld", chains=1, draws=5, warmup=5, step_size=1e-3, schedule="decaying")
    with pytest.raises(ValueError, match="plans its steps over all draws"):
        inference.extend(decaying, draws=9, progress=False)
    with pytest.raises(TypeError, match="a posterior or the directory of a run"):
        inference.extend(7, draws=9)
    with pytest.raises(FileNotFoundError, match="holds no run"):
        inference.extend(tmp_path / "nothing", draws=9)
    conjugate.run(draws=5, directory=tmp_path / "run", **options)
    with pytest.raises(ValueError, match="the run has 5: give more than that, not 4"):
        inference.extend(tmp_path / "run", draws=4, progress=False)


def test_chains_of_different_lengths_and_draws_that_are_not_kept(conjugate):
    options = {"method": "hmc", "seed": 1, **METHODS["hmc"]}
    posterior = conjugate.run(draws=8, **options)
    posterior.further.ledger._counts[1] = 5  # as after Ctrl-C
    with pytest.raises(ValueError, match="the run has 8"):
        inference.extend(posterior, draws=7, progress=False)

    def model(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("w", dist.Normal()), 1.0), obs=y)

    nothing = inference.run(model, np.zeros(3), keep="none", draws=5, progress=False, **options)
    with pytest.raises(ValueError, match="until needs draws to judge"):
        inference.extend(nothing, draws=50, until={"ess": 5}, progress=False)


def test_a_crash_between_the_two_descriptions(conjugate, tmp_path, monkeypatch):
    options = {"method": "hmc", "seed": 2, **METHODS["hmc"]}
    whole = conjugate.run(draws=20, **options)
    conjugate.run(draws=8, directory=tmp_path / "a", **options)
    original, written = run_directory.write_durably, []

    def fail_second(*args):
        written.append(args)
        if len(written) == 2:
            raise KeyError("crash")
        original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(run_directory, "write_durably", fail_second)
        with pytest.raises(KeyError, match="crash"):
            inference.extend(tmp_path / "a", draws=20, progress=False)
    assert same(inference.resume(tmp_path / "a", progress=False), whole)


@pytest.mark.parametrize("crash", ["write_durably", "rename", "rmtree"])
def test_a_crash_while_a_directory_is_lengthened_loses_nothing(conjugate, tmp_path, monkeypatch, crash):
    options = {"method": "hmc", "seed": 2, **METHODS["hmc"]}
    whole = conjugate.run(draws=20, **options)
    short = conjugate.run(draws=8, directory=tmp_path / "a", **options)

    class Crash(BaseException):
        pass

    def fail(*args):
        raise Crash

    with monkeypatch.context() as patch:
        module = {"write_durably": run_directory, "rename": run_directory.os, "rmtree": run_directory.shutil}[crash]
        patch.setattr(module, crash, fail)
        with pytest.raises(Crash):
            inference.extend(tmp_path / "a", draws=20, progress=False)
    resumed = inference.resume(tmp_path / "a", progress=False)
    assert same(resumed, short if crash == "write_durably" else whole)
    if crash == "write_durably":  # before the longer run was written down
        resumed = inference.extend(tmp_path / "a", draws=20, progress=False)
    assert same(resumed, whole)
    assert not [path for path in (tmp_path / "a").iterdir() if path.name.startswith("chains.")]
