"""Step sizes: how they are found, how they change, and what is measured of them."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import inference
import models
from inference.sgmcmc.langevin_step import Centre, estimated_gradient
from inference.sgmcmc.step_sizes import SCHEDULES, Cycles, Settings
from inference.target.binding import bind
from inference.target.vectors import as_vector
from tests.helpers.normal_target import NormalTarget

BATCH = 8


@pytest.fixture(scope="module")
def normal() -> NormalTarget:
    return NormalTarget()


def _low_noise() -> tuple[np.ndarray, np.ndarray]:
    """A sine with little noise: on the way there from a start, a gradient's noise grows a thousandfold."""
    x = np.linspace(-2, 2, 40)
    y = np.sin(2 * x) + 0.02 * np.random.default_rng(0).standard_normal(len(x))
    return x[:, None].astype(np.float32), y.astype(np.float32)


@pytest.fixture(scope="module")
def low_noise() -> dict[str, inference.Posterior]:
    """Runs with the default step on data with little noise, by method and preconditioner."""
    return {
        f"{method} {preconditioner}": inference.run(
            models.mlp((8,), "tanh"), *_low_noise(), method=method, preconditioner=preconditioner, batch_size=BATCH,
            chains=2, draws=40, warmup=4000, thin=20, progress=False,
        )
        for method in ("sgld", "sghmc")
        for preconditioner in (None, "rmsprop")
    }  # fmt: skip


@pytest.mark.parametrize("which", ["sgld None", "sgld rmsprop", "sghmc None", "sghmc rmsprop"])
def test_the_default_step_keeps_the_gradients_noise_small_where_it_grew(low_noise, which):
    ratio = low_noise[which].statistics["gradient_noise_ratio"].mean(axis=1)
    assert np.all((ratio > 0.01) & (ratio < 0.1)), f"{which}: {ratio}"


def test_the_noise_ratio_is_that_of_the_draws(low_noise):
    posterior = low_noise["sgld None"]
    x, y = _low_noise()
    target, arrays = bind(posterior.model, (x, y), 1.0, "posterior")[:2]
    arrays = jax.tree.map(jnp.asarray, arrays)
    rows, nowhere = len(x), jnp.zeros(0)

    @jax.jit
    def gradient_noise(position):
        """The mean over coordinates of V, of rows drawn without replacement, from the gradient of each row."""
        each = jax.vmap(
            lambda row: estimated_gradient(target, arrays, position, row[None], Centre(position, nowhere))[1]
        )(jnp.arange(rows))  # each is that of the prior plus `rows` times its own
        return jnp.mean(jnp.var(each, axis=0, ddof=1)) / BATCH * (1 - BATCH / rows)

    unconstrained = dict(posterior.draws)
    unconstrained["noise"] = np.log(unconstrained["noise"])
    noise = [
        [
            gradient_noise(as_vector({name: jnp.asarray(v[chain, draw]) for name, v in unconstrained.items()}))
            for draw in range(40)
        ]
        for chain in range(2)
    ]
    expected = (posterior.statistics["step_size"] * np.array(noise) / 2).mean()
    found = posterior.statistics["gradient_noise_ratio"].mean()
    np.testing.assert_allclose(found, expected, rtol=0.3)


@pytest.mark.parametrize("temperature", [0.1, 10.0])
def test_the_default_step_goes_with_the_temperature(normal, temperature):
    posterior = inference.run(
        normal.model, normal.x, normal.y, method="sghmc", friction=0.3, batch_size=6, chains=4, draws=40, warmup=2000,
        temperature=temperature, progress=False,
    )  # fmt: skip
    expected = 0.05 * 2 * 0.3 * temperature / (np.trace(normal.gradient_noise(6)) / 3)
    # The noise is along one direction and has heavy tails: a mean of 100 measurements is off by some 20 %.
    np.testing.assert_allclose(posterior.statistics["step_size"].mean(), expected, rtol=0.3)
    np.testing.assert_allclose(posterior.statistics["gradient_noise_ratio"].mean(), 0.05, rtol=0.4)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
@pytest.mark.parametrize("method", ["sgld", "sghmc"])
def test_without_minibatches_the_default_step_follows_the_curvature(conjugate, method, temperature):
    _, precision = conjugate.posterior()
    largest = np.linalg.eigvalsh(precision).max()  # of T times the log density, whatever T is
    posterior = conjugate.run(method=method, chains=1, draws=2, warmup=200, temperature=temperature)
    np.testing.assert_allclose(posterior.statistics["step_size"], 0.2 / largest, rtol=0.01)


@pytest.mark.parametrize("warmup", [20, 600])  # the pilot's step, and that of the warm-up
def test_a_cycle_s_draws_begin_with_the_step_that_was_found(conjugate, warmup):
    _, precision = conjugate.posterior()
    posterior = conjugate.run(
        method="sghmc", schedule="cyclical", cycles=2, chains=1, draws=warmup, warmup=warmup, thin=1, start="map"
    )
    wanted = 0.2 / np.linalg.eigvalsh(precision).max()
    np.testing.assert_allclose(posterior.statistics["step_size"][0, [0, warmup // 2]], wanted, rtol=0.02)


@partial(jax.jit, static_argnames=("method", "target", "steps"))
def _walk(method, target, bound_data, start, settings, steps):
    """The states before and after each step."""
    state = method.kernel().init(target, bound_data, start, jax.random.key(1), settings)

    def step(state, _):
        return method.kernel().step(target, bound_data, state, jnp.int32(1)).state, state

    return lax.scan(step, state, length=steps)[1]


def _settings(cycles: Cycles, step_size: float | None) -> Settings:
    return Settings.of(cycles, 1, np.array([0.5, 2.0, 0.5], np.float32), step_size)


def test_the_cold_phase_is_gradient_descent(normal):
    bound, e, a, G = normal.bound(3.0), 0.004, 0.3, np.array([0.5, 2.0, 0.5])
    method = inference.SGHMC(schedule="cyclical", cycles=2, warmup=20, draws=20, friction=a, step_size=e)
    start = jax.tree.map(lambda leaf: leaf + 1.0, normal.start())
    settings = _settings(Cycles(2, 10, 10), e)
    states = _walk(method, bound.target, bound.data, start, settings, 40)
    found = np.asarray(states.position, np.float64)
    for cold in (0, 20):  # each cycle's
        w, r = found[cold], np.asarray(states.momentum[cold], np.float64)
        for t in range(10):
            r = (1 - a) * r - e * 0.5 * (1 + np.cos(np.pi * t / 20)) * G * (normal.hessian @ (w - normal.mean))
            w = w + r
            np.testing.assert_allclose(found[cold + t + 1], w, rtol=1e-3, atol=1e-4)
    assert np.abs(found[11] - found[10]).max() > 0.02  # the noise that follows


def test_a_pilot_finds_a_preconditioner_in_its_first_half_and_chains_leave_it_alone(normal):
    bound, method = normal.bound(1.0), inference.SGLD(preconditioner="rmsprop", batch_size=6)
    walk = partial(_walk, method, bound.target, bound.data, normal.start())
    chain = _settings(Cycles(1, 300, 10), None)._replace(step_size=np.float32(1e-6))
    scale = np.asarray(walk(chain.piloted(310), 310).settings.preconditioner)
    assert np.all(scale[:20] == scale[0])  # measurements that change nothing yet
    assert len(np.unique(scale[20:156], axis=0)) == 136
    assert np.all(scale[156:] == scale[155])
    np.testing.assert_allclose(scale[155].mean(), 1.0, rtol=1e-5)
    states = walk(chain, 310)
    assert np.all(np.asarray(states.settings.preconditioner) == chain.preconditioner)
    step_size = np.asarray(states.settings.step_size)
    assert np.all(step_size[:191] == np.float32(1e-6))  # until there are 20 measurements
    assert len(np.unique(step_size[191:301])) == 11  # one per measurement
    assert np.all(step_size[300:] == step_size[300])
    made = np.asarray(states.tuning.made)
    assert made[300] == 30
    assert made[301] == 1  # anew for the draws


def test_the_centre_is_where_the_chain_was_halfway_through_the_warm_up(normal):
    bound = normal.bound(1.0)
    method = inference.SGLD(batch_size=6, control_variates=True, step_size=1e-3)
    states = _walk(method, bound.target, bound.data, normal.start(), _settings(Cycles(2, 8, 4), 1e-3), 24)
    for first, last, place in ((0, 4, 0), (5, 16, 4), (17, 23, 16)):
        for step in range(first, last + 1):
            np.testing.assert_array_equal(states.centre.position[step], states.position[place])
        expected = -normal.hessian @ (np.asarray(states.position[place], np.float64) - normal.mean)
        np.testing.assert_allclose(states.centre.gradient[last], expected, rtol=1e-3, atol=1e-2)


def test_momentum_keeps_its_temperature_when_the_step_changes(normal):
    bound, method = normal.bound(1.0), inference.SGHMC(batch_size=6, friction=0.1)
    chain = _settings(Cycles(1, 400, 10), None)._replace(step_size=np.float32(1.5e-3))
    states = _walk(method, bound.target, bound.data, normal.start(), chain, 410)
    step_size = np.asarray(states.settings.step_size)
    assert step_size[-1] < step_size[0] / 30
    # The mean square of the momentum that the noise alone makes is 2 a e / (1 - (1 - a)^2), at all times but the first.
    spread = np.asarray(states.spread)[60:]
    np.testing.assert_allclose(spread / step_size[60:], 2 * 0.1 / (1 - 0.9**2), rtol=1e-3)
    # At first minibatches make it some 6 times that; a momentum that stayed would be some hundred times as much again.
    momentum = np.square(states.momentum)[60:] / chain.preconditioner
    assert (momentum / spread[:, None]).max() < 150


def test_kept_iterations():
    for cycles, warmup, draws in [(1, 0, 5), (1, 3, 4), (3, 2, 2), (2, 0, 3)]:
        kept = Cycles(cycles, warmup, draws)
        length = warmup + draws
        expected = [c * length + warmup + d for c in range(cycles) for d in range(draws)]
        assert list(kept) == expected
        assert [i for i in range(-2, cycles * length + 3) if i in kept] == expected
        assert kept[1:3] == expected[1:3]
        assert kept[-1] == expected[-1]
        assert len(kept) == len(expected)


def test_cycles_go_without_noise_and_end_small(normal):
    posterior = inference.run(
        normal.model, normal.x, normal.y, method="sgld", schedule="cyclical", cycles=3, warmup=30, draws=12, thin=5,
        step_size=0.01, chains=2, batch_size=30, progress=False,
    )  # fmt: skip
    place = np.tile(10 + 5 * np.arange(1, 5) - 1, 3) / 30
    expected = 0.01 * 0.5 * (1 + np.cos(np.pi * place))
    np.testing.assert_allclose(posterior.statistics["step_size"], np.tile(expected, (2, 1)), rtol=1e-4)
    settings = Settings.of(Cycles(3, 2, 4), 5, np.ones(1, np.float32), 0.01)
    hot = [bool(SCHEDULES["cyclical"](settings, i)[1]) for i in range(90)]
    assert hot == [i % 30 >= 10 for i in range(90)]


def test_decay(normal):
    posterior = inference.run(
        normal.model, normal.x, normal.y, method="sghmc", schedule="decaying", warmup=10, draws=5, thin=4, chains=1,
        step_size=0.01, progress=False,
    )  # fmt: skip
    # 10 steps of warm-up are 3 iterations of 4.
    expected = 0.01 * (1 + 10 * (4 * np.arange(1, 6) - 1) / 20) ** (-1 / 3)
    np.testing.assert_allclose(posterior.statistics["step_size"][0], expected, rtol=1e-4)
