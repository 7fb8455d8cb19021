"""MCLMC as an algorithm: what its warm-up finds, what it takes back and refuses, and what it says about its draws."""

from __future__ import annotations

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import diagnostics
import inference
import models
from inference.mcmc.mclmc import MCLMC
from inference.target.binding import bind

SCALES = np.array([0.1, 0.3, 1.0, 1.0, 2.0, 3.0], np.float32)


def _scaled(y=None):
    # The posterior's standard deviations are all but `SCALES`.
    w = numpyro.sample("w", dist.Normal(0.0, 20.0).expand((6,)).to_event(1))
    numpyro.sample("y", dist.Normal(w, SCALES).to_event(1), obs=y)


def _run(**options):
    return inference.run(_scaled, np.zeros(6, np.float32), method="mclmc", progress=False, **options)


def _last_geometry(model, args, **options):
    """What the warm-up of one chain ends with."""
    method = MCLMC(**options)
    target, data = bind(model, args, 1.0, "posterior")[:2]
    settings = method.settings(target, data)
    start, _ = target.start(jax.random.key(0), data)

    @jax.jit
    def run(key):
        state = method.kernel().init(target, data, start, key, settings)
        step = lambda _, state: method.kernel().step(target, data, state, np.int32(2**30)).state  # noqa: E731
        return jax.lax.fori_loop(0, int(settings.warmup), step, state).tuning.geometry

    return jax.device_get(run(jax.random.key(1)))


@pytest.mark.parametrize(("adjusted", "factor"), [(False, 1.0), (True, 1.3)])
def test_the_length_is_the_size_of_the_posterior(adjusted, factor):
    geometry = _last_geometry(_scaled, (np.zeros(6, np.float32),), adjusted=adjusted, warmup=4000)
    assert geometry.length == pytest.approx(factor * np.sqrt((SCALES**2).sum()), rel=0.15)
    np.testing.assert_allclose(geometry.scale, 1.0, atol=0.1)  # by 2,000 draws from the prior


def test_a_diagonal_mass_has_the_scales_of_the_posterior():
    geometry = _last_geometry(_scaled, (np.zeros(6, np.float32),), warmup=8000, mass="diagonal")
    np.testing.assert_allclose(geometry.scale * geometry.unit, SCALES, rtol=0.3)
    assert geometry.length == pytest.approx(geometry.unit * np.sqrt(6), rel=0.01)


@pytest.mark.parametrize("wanted", [5e-4, 5e-2])
def test_the_step_size_has_the_error_that_was_asked_for(wanted):
    posterior = _run(energy_variance=wanted, warmup=3000, draws=1000, thin=3, chains=2, seed=2)
    assert wanted / 3 < posterior.statistics["energy_variance"].mean() < 3 * wanted


def test_the_adjusted_step_size_has_the_acceptance_that_was_asked_for():
    for target in (0.6, 0.9):
        rate = _run(adjusted=True, target_acceptance=target, draws=1000, chains=2, seed=2).statistics["acceptance_rate"]
        assert abs(rate.mean() - target) < 0.1


def test_what_is_given_stays():
    posterior = _run(step_size=0.1, trajectory_length=2.0, warmup=0, draws=10, chains=2)
    np.testing.assert_allclose(posterior.statistics["step_size"], 0.1)
    geometry = _last_geometry(_scaled, (np.zeros(6, np.float32),), step_size=0.1, warmup=400)
    assert geometry.step_size == np.float32(0.1)
    assert geometry.length != np.float32(20 * np.sqrt(6))


def test_a_first_step_that_is_too_long_does_not_leave_the_start():
    # The prior is a million times as wide as the posterior, and the first step is a quarter of its size.
    def model(y=None):
        w = numpyro.sample("w", dist.Normal(0.0, 1000.0).expand((20,)).to_event(1))
        numpyro.sample("y", dist.Normal(w, 0.001).to_event(1), obs=y)

    with jax.enable_x64(True):
        method = MCLMC(precision="float64", warmup=400)
        target, data = bind(model, (np.zeros(20),), 1.0, "posterior")[:2]
        state = method.kernel().init(
            target, data, {"w": np.full(20, 1e-3)}, jax.random.key(1), method.settings(target, data)
        )
        step = jax.jit(lambda state: method.kernel().step(target, data, state, np.int32(1)).state)
        distances = []
        for _ in range(300):
            state = step(state)
            distances.append(np.abs(state.position).max())
    assert max(distances) < 0.1
    assert len(np.unique(distances)) > 100  # and it moves


def test_a_wall_lowers_the_step_in_warm_up_and_stops_a_chain_after_it():
    def model(edge):
        w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand((3,)).to_event(1))
        numpyro.factor("wall", jax.numpy.where(w[0] > edge, jax.numpy.nan, 0.0))

    # In warm-up a step through the wall is taken back; the draws have no way back, and say where they failed.
    options = dict(method="mclmc", chains=2, draws=2000, warmup=200, seed=1, progress=False)
    with pytest.raises(FloatingPointError, match=r"mclmc: the log density was no longer finite before iteration \d{3}"):
        inference.run(model, 1.0, start="random", **options)
    adjusted = inference.run(model, 1.0, start="random", adjusted=True, **options | {"thin": 1})
    assert adjusted.draws["w"][..., 0].max() <= 1.0
    assert adjusted.statistics["diverging"].any()  # refused, as a proposal of density 0 must be


def test_statistics_say_what_happened(conjugate):
    always = {"energy_error", "lp", "n_steps", "step_size"}
    plain = conjugate.run(method="mclmc", chains=2, draws=50, warmup=100, thin=20, seed=1)
    assert set(plain.statistics) == always | {"energy_variance"}
    assert (plain.statistics["n_steps"] == 2).all()
    assert plain.cost.gradients - 2 * 2 * (100 + 50 * 20) < 2 * 1100  # and the start's
    np.testing.assert_allclose(
        plain.statistics["energy_variance"], plain.statistics["energy_error"] ** 2 / 4, rtol=1e-5
    )
    adjusted = conjugate.run(method="mclmc", adjusted=True, chains=2, draws=50, warmup=100, seed=1)
    assert set(adjusted.statistics) == always | {"acceptance_rate", "accepted", "diverging"}
    np.testing.assert_allclose(
        adjusted.statistics["acceptance_rate"], np.exp(-np.maximum(adjusted.statistics["energy_error"], 0)), rtol=1e-5
    )


def test_trajectories_are_of_random_length(conjugate):
    options = dict(method="mclmc", adjusted=True, chains=1, warmup=0, draws=2000)
    steps = conjugate.run(step_size=0.01, trajectory_length=0.1, **options).statistics["n_steps"][0] / 2
    counts = np.bincount(steps.astype(int), minlength=21)[1:]
    assert len(counts) == 20  # evenly from 1 to 2 L / e
    assert np.abs(counts - 100).max() < 5 * np.sqrt(100)


def test_unadjusted_draws_come_with_a_caveat(conjugate):
    plain = conjugate.run(method="mclmc", chains=2, draws=400, warmup=400, seed=1)
    adjusted = conjugate.run(method="mclmc", adjusted=True, chains=2, draws=400, warmup=200, seed=1)
    assert "its draws are biased by the step size" in diagnostics.convergence(plain).verdict
    assert "biased" not in diagnostics.convergence(adjusted).verdict


def test_each_chain_starts_at_its_own_member():
    x = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    network, options = models.mlp((4,), likelihood=models.Gaussian(scale=0.5)), dict(chains=2, draws=1, warmup=0)
    near = dict(step_size=1e-6, trajectory_length=1e-6, thin=1, seed=3, progress=False)
    first = inference.run(network, x, np.sin(x[:, 0]), method="mclmc", **options, **near)
    other = inference.run(
        network, x, np.sin(x[:, 0]), method="hmc", step_size=1e-6, trajectory_length=1e-6, seed=3, progress=False,
        **options,
    )  # fmt: skip
    assert first.start == "ensemble"
    np.testing.assert_allclose(first.draws["hidden0.weight"], other.draws["hidden0.weight"], atol=1e-4)
    assert np.abs(first.draws["hidden0.weight"][0] - first.draws["hidden0.weight"][1]).max() > 0.1
