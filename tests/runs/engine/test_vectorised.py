"""Chains as one program: pieces, crashes, Ctrl-C and failures change nothing in what a chain draws."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import inference
from inference.engine import driver, programs, vectorised

TOGETHER = {"arrangement": "vectorised", "start": "random", "progress": False}
HMC = {"method": "hmc", "draws": 20, "warmup": 15, "tuning": 20, **TOGETHER}
FIXED = {**HMC, "step_size": 0.05, "trajectory_length": 0.5}
NUTS = {"method": "nuts", "draws": 20, "warmup": 15, "max_tree_depth": 4, **TOGETHER}
MCLMC = {"method": "mclmc", "draws": 20, "warmup": 40, "thin": 2, **TOGETHER}
ADJUSTED = {**MCLMC, "adjusted": True, "thin": 1}
SGHMC = {"method": "sghmc", "draws": 20, "warmup": 240, "thin": 3, "tuning": 20, "batch_size": 10, **TOGETHER}


def _run(conjugate, **options) -> inference.Posterior:
    return inference.run(conjugate.model, conjugate.x, conjugate.y, **options)


def _same(first: inference.Posterior, second: inference.Posterior, draws: int | None = None) -> bool:
    return all(np.array_equal(first.draws[name][:, :draws], second.draws[name][:, :draws]) for name in first.draws)


@pytest.mark.parametrize(
    "options",
    [FIXED, HMC, NUTS, MCLMC, ADJUSTED, SGHMC],
    ids=["fixed hmc", "hmc", "nuts", "mclmc", "adjusted mclmc", "sghmc"],
)
def test_the_length_of_pieces_does_not_change_the_draws(conjugate, at_pace, options):
    whole = _run(conjugate, chains=3, **options)
    assert (whole.cost.arrangement, whole.cost.arranged) == ("vectorised", "asked for")
    at_pace(piece_seconds=1e-9)  # one iteration at a time, or one leapfrog step
    pieces = _run(conjugate, chains=3, **options)
    assert _same(whole, pieces)
    assert whole.cost.gradients == pieces.cost.gradients
    for name, values in whole.statistics.items():
        np.testing.assert_array_equal(values, pieces.statistics[name])
    assert not np.array_equal(whole.draws["output.bias"][0], whole.draws["output.bias"][1])


@pytest.mark.parametrize("options", [FIXED, {**SGHMC, "step_size": 1e-6, "tuning": None}], ids=["hmc", "sghmc"])
def test_a_chain_is_that_of_threads_but_for_rounding(conjugate, options):
    # The same keys and steps: two draws are too few for rounding, which chaos lets grow, to be seen.
    options = {**options, "warmup": 0, "draws": 2}
    one = _run(conjugate, chains=3, **options)
    other = _run(conjugate, chains=3, **{**options, "arrangement": "threads"})
    for name in one.draws:
        np.testing.assert_allclose(one.draws[name], other.draws[name], rtol=1e-3, atol=1e-5)
    for name, values in one.statistics.items():
        assert values.dtype == other.statistics[name].dtype, name


def test_the_program_is_compiled_once_for_any_number_of_draws(conjugate, counted):
    _run(conjugate, chains=3, **FIXED)
    before = counted("compile", "jit(advance_together)")
    assert before <= 1
    _run(conjugate, chains=3, **{**FIXED, "draws": 7, "step_size": 0.04})
    assert counted("compile", "jit(advance_together)") == before


def test_until_ends_all_chains_at_the_same_draw(conjugate):
    options = {**FIXED, "draws": 800}
    stopped = _run(conjugate, chains=4, until={"ess": 150}, **options)
    assert stopped.ended == "until"
    assert stopped.shape[1] in (100, 150, 200, 300, 400, 600)
    assert _same(stopped, _run(conjugate, chains=4, **options), draws=stopped.shape[1])


def test_interrupt_inside_a_trajectory_keeps_the_draws_before_it(conjugate, monkeypatch, at_pace):
    options = {**FIXED, "warmup": 0, "trajectory_length": 2.0, "jitter": 0.0}  # 40 steps a draw
    whole = _run(conjugate, chains=3, **options)
    counted, original = [], driver.wait

    def wait(*args, **kwargs):
        counted.append(args)
        if len(counted) == 100:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(driver, "wait", wait)
    at_pace(piece_seconds=1e-9)
    stopped = _run(conjugate, chains=3, **options)
    assert stopped.ended == "interrupted"
    assert stopped.shape == (3, 2)
    assert _same(whole, stopped, draws=2)


@pytest.mark.parametrize("durable", [False, True])
def test_a_chain_with_nan_stops_and_the_others_go_on(conjugate, tmp_path, monkeypatch, at_pace, durable):
    at_pace(piece_seconds=1e-9)
    plain = _run(conjugate, chains=3, **FIXED)
    original = vectorised.Together.run

    def run(self, goal):
        if self.chains[1].done == 20:
            self._states = self._states._replace(position=self._states.position.at[1].set(jnp.nan))
        return original(self, goal)

    monkeypatch.setattr(vectorised.Together, "run", run)
    where = {"directory": tmp_path / "a"} if durable else {}
    with pytest.warns(UserWarning, match=r"chain 1 stopped before its end.*no longer finite between iterations 2\d"):
        posterior = _run(conjugate, chains=3, **FIXED, **where)
    monkeypatch.undo()
    assert posterior.shape == (2, 20)
    assert list(posterior.stopped) == [1]
    for name, values in posterior.draws.items():
        np.testing.assert_array_equal(values, plain.draws[name][[0, 2]])
    if durable:
        with pytest.warns(UserWarning, match="chain 1 stopped before its end"):
            assert _same(inference.resume(tmp_path / "a", progress=False), posterior)


def test_chains_that_do_not_fit_into_memory_take_turns(conjugate, monkeypatch):
    together = _run(conjugate, chains=5, **{**FIXED, "draws": 3, "warmup": 0})
    needs = []
    original = vectorised.Together.bytes_needed
    monkeypatch.setattr(vectorised.Together, "bytes_needed", lambda self: needs.append(original(self)) or needs[-1])
    monkeypatch.setattr(vectorised, "device_memory", lambda device: needs[0] / 2 / vectorised._SHARE)
    in_groups = _run(conjugate, chains=5, **{**FIXED, "draws": 3, "warmup": 0})
    assert in_groups.cost.arranged == "asked for; 2 chains at a time, which is what the memory of the device holds"
    assert needs[-1] <= needs[0] / 2
    for name, values in together.draws.items():
        np.testing.assert_allclose(in_groups.draws[name], values, rtol=1e-3, atol=1e-5)


def test_a_compiler_that_runs_out_of_memory_gets_fewer_chains(conjugate, monkeypatch):
    original = vectorised.Together.bytes_needed
    monkeypatch.setattr(vectorised.Together, "bytes_needed", lambda self: np.inf if self._size > 2 else original(self))
    posterior = _run(conjugate, chains=4, **{**FIXED, "draws": 3})
    assert posterior.shape == (4, 3)
    assert "chains at a time" in posterior.cost.arranged


def test_a_run_in_a_directory_goes_on_in_one_program(conjugate, tmp_path):
    plain = _run(conjugate, chains=3, **FIXED)
    short = _run(conjugate, chains=3, directory=tmp_path / "a", **{**FIXED, "draws": 8})
    assert _same(plain, short, draws=8)
    assert _same(plain, inference.extend(tmp_path / "a", draws=20, progress=False))
    assert _same(plain, inference.extend(_run(conjugate, chains=3, **{**FIXED, "draws": 8}), draws=20, progress=False))


def test_a_model_of_the_users_own_in_float64():
    def mine(y=None):
        w = numpyro.sample("w", dist.HalfNormal(1))
        numpyro.sample("y", dist.Normal(w, 1).expand((3,)).to_event(1), obs=y)

    options = {**FIXED, "trajectory_length": 1.0}
    posterior = inference.run(mine, np.arange(3.0), precision="float64", chains=3, **options)
    assert posterior.draws["w"].dtype == np.float64
    assert (posterior.draws["w"] > 0).all()


def test_what_is_emitted_by_many_chains_is_bounded():
    row = ({"w": np.zeros(1000, np.float32)}, {"lp": np.zeros((), np.float64)})
    assert programs.capacity(row) == 4 * 2**20 // 4008
    assert programs.capacity(row, 64) * 64 * 4008 <= 4 * 2**20
    assert programs.capacity(row, 10**9) == 1
