"""SGLD and SGHMC against the stationary covariance that their own recursion has on a normal target."""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.sgmcmc.diffusions import overdamped_langevin
from jax import lax

import inference
from inference import mixing
from inference.sgmcmc.langevin_step import Centre, Randomness, estimated_gradient
from inference.sgmcmc.step_sizes import Cycles, Settings
from tests.helpers.normal_target import ROWS, NormalTarget

Z = 5.0


@pytest.fixture(scope="module")
def normal() -> NormalTarget:
    return NormalTarget()


@partial(jax.jit, static_argnames=("method", "target", "draws"))
def _chain(method, target, bound_data, position, settings, key, draws):
    state = method.kernel().init(target, bound_data, position, key, settings)

    def draw(state, _):
        state = method.kernel().step(target, bound_data, state, jnp.int32(1000)).state
        return state, state.position  # the bias, then the weights

    return lax.scan(draw, state, length=draws)[1]


def _simulated(normal, method, T, G, chains=16, draws=2000, thin=4, warmup=100):
    bound = normal.bound(T)
    settings = Settings.of(Cycles(1, 0, draws), thin, G.astype(np.float32), method.step_size)
    run = partial(_chain, method, bound.target, draws=draws)
    each = [
        run(bound.data, normal.start(), settings, key)[warmup:] for key in jax.random.split(jax.random.key(0), chains)
    ]
    return np.stack(each).astype(np.float64)


def _z_scores(normal: NormalTarget, draws: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Of means and covariances along the axes of the Hessian: the stiff one, which shows the biases, mixes fast."""
    axes = np.linalg.eigh(normal.hessian)[1]
    centred, covariance = (draws - normal.mean) @ axes, axes.T @ covariance @ axes
    i, j = np.triu_indices(3)
    quantities = np.concatenate([centred, centred[..., i] * centred[..., j] - covariance[i, j]], axis=-1)
    return quantities.mean(axis=(0, 1)) / mixing.mcse(quantities)


ONES = (1.0, 1.0, 1.0)


CASES = {
    "langevin": (inference.SGLD(step_size=0.01, batch_size=6), 1.0, ONES),
    "larger batch": (inference.SGLD(step_size=0.01, batch_size=20), 1.0, ONES),
    "hot": (inference.SGLD(step_size=0.01, batch_size=6), 4.0, ONES),
    "hot, larger batch": (inference.SGLD(step_size=0.01, batch_size=20), 4.0, ONES),
    "half the step": (inference.SGLD(step_size=0.005, batch_size=6), 1.0, ONES),
    "all rows": (inference.SGLD(step_size=0.02), 1.0, ONES),
    "preconditioned": (inference.SGLD(step_size=0.01, batch_size=6), 1.0, (0.5, 2.0, 1.0)),
    "momentum": (inference.SGHMC(step_size=0.004, batch_size=6, friction=0.3), 1.0, ONES),
    "hot momentum": (inference.SGHMC(step_size=0.004, batch_size=20, friction=0.3), 4.0, ONES),
    "preconditioned momentum": (inference.SGHMC(step_size=0.002, batch_size=6, friction=0.2), 2.0, (0.5, 2.0, 1.0)),
}


@pytest.mark.parametrize("case", CASES)
def test_stationary_covariance(normal, case):
    method, T, G = CASES[case]
    friction = getattr(method, "friction", 1.0)
    expected = normal.stationary(method.step_size, T, method.batch_size, friction, np.array(G))
    if friction == 1 and G == ONES:  # S = (I - e H) S (I - e H) + e^2 V + 2 e T I
        step, e = np.eye(3) - method.step_size * normal.hessian, method.step_size
        added = e**2 * normal.gradient_noise(method.batch_size) + 2 * e * T * np.eye(3)
        np.testing.assert_allclose(expected, step @ expected @ step + added, rtol=1e-10)
    draws = _simulated(normal, method, T, np.array(G))
    z = _z_scores(normal, draws, expected)
    assert np.abs(z).max() < Z, f"z-scores {np.round(z, 1)}"
    # The posterior itself is many standard errors away, so the test can tell what it is about.
    assert np.abs(_z_scores(normal, draws, T * np.linalg.inv(normal.hessian))).max() > 2 * Z


@pytest.mark.filterwarnings("ignore:sgld. the (minibatches' noise|configurational temperature)")
def test_temperatures_tell_the_bias(normal):
    # Both expectations follow from the recursion: T + e tr(E[g g']) / 2 D, where E[g g'] = H S H + V.
    e, batch = 0.01, 6
    posterior = inference.run(
        normal.model, normal.x, normal.y, method="sgld", step_size=e, batch_size=batch, draws=20_000, thin=2, seed=3,
        warmup=500, progress=False, start="map",
    )  # fmt: skip
    covariance = normal.stationary(e, 1.0, batch)
    square = normal.hessian @ covariance @ normal.hessian + normal.gradient_noise(batch)
    expected = 1 + e * np.trace(square) / 6
    for name in ("kinetic_temperature", "configurational_temperature"):
        values = posterior.statistics[name][..., None].astype(float)
        z = (values.mean() - expected) / mixing.mcse(values)[0]
        assert abs(z) < Z, f"{name}: {values.mean():.4f} against {expected:.4f}, z = {z:.1f}"
    ratio = posterior.statistics["gradient_noise_ratio"][:, 100:].mean()
    np.testing.assert_allclose(ratio, e * np.trace(normal.gradient_noise(batch)) / 6, rtol=0.15)


def test_langevin_steps_are_blackjax_s(normal, monkeypatch):
    method = inference.SGLD(step_size=0.01, batch_size=6)
    bound = normal.bound(2.0)
    position = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.3), bound.target.position(bound.data))
    settings = Settings.of(Cycles(1, 0, 1), 1, np.ones(3, np.float32), 0.01)
    state = method.kernel().init(bound.target, bound.data, position, jax.random.key(5), settings)
    after = method.kernel().step(bound.target, bound.data, state, jnp.int32(1)).state
    drawn = Randomness.draw(state.key, jnp.int32(0), state.position)
    rows = drawn.rows(6, ROWS)
    _, gradient = estimated_gradient(bound.target, bound.data, state.position, rows, state.centre)
    monkeypatch.setattr("blackjax.sgmcmc.diffusions.generate_gaussian_noise", lambda key, like: drawn.normal)
    expected = overdamped_langevin()(None, state.position, gradient, 0.01, 2.0)
    rounding = 4 * np.spacing(np.float32(0.3))  # of the terms, which may cancel
    np.testing.assert_allclose(after.position, expected, rtol=0, atol=rounding)


@pytest.mark.parametrize("control", [False, True])
def test_gradients_are_unbiased_and_control_variates_have_no_noise_at_the_centre(normal, control):
    bound = normal.bound(1.0, rows=6)
    centre, here = (jnp.full(3, value) for value in (0.2, -0.4))
    fixed, plain = (Centre.at(bound.target, bound.data, centre, each) for each in (control, False))
    estimate = jax.jit(lambda p, rows: estimated_gradient(bound.target, bound.data, p, rows, fixed)[1])
    every = [jnp.array(rows) for rows in itertools.combinations(range(6), 2)]
    for place in (centre, here):
        _, full = estimated_gradient(bound.target, bound.data, place, None, plain)
        gradients = np.array([estimate(place, rows) for rows in every])
        np.testing.assert_allclose(gradients.mean(axis=0), full, rtol=1e-4)
        assert (gradients.std(axis=0).max() < 1e-4) == control  # the Hessian is the same for all rows, so everywhere


def test_the_log_density_is_that_of_the_draw_on_all_rows(normal):
    posterior = inference.run(
        normal.model, normal.x, normal.y, method="sghmc", step_size=1e-6, batch_size=6, draws=5, thin=3, warmup=4,
        chains=2, temperature=2.0, progress=False,
    )  # fmt: skip
    bound = normal.bound(2.0)
    for chain, draw in itertools.product(range(2), range(5)):
        position = {name: jnp.asarray(values[chain, draw]) for name, values in posterior.draws.items()}
        expected = bound.target.log_density(position, bound.data)
        np.testing.assert_allclose(posterior.statistics["lp"][chain, draw], expected, rtol=1e-5)


@pytest.mark.parametrize("control", [False, True])
def test_gradients_are_counted(normal, control):
    posterior = inference.run(
        normal.model, normal.x, normal.y, method="sgld", step_size=1e-4, batch_size=6, draws=40, thin=25, warmup=100,
        chains=2, control_variates=control, start="random", progress=False,
    )  # fmt: skip
    # 1100 steps, and a measurement of three gradients more per draw; the centre's, at the start and in the warm-up.
    each = (1 + control) * 6 / ROWS * (1100 + 3 * 40) + 2 * control
    assert posterior.cost.gradients == 2 * each


def test_too_large_a_step_is_said(normal):
    options = dict(method="sgld", batch_size=6, draws=100, chains=1, warmup=0, progress=False)
    with (
        pytest.warns(UserWarning, match=r"the draws are too wide; use .* a larger batch_size or control_variates=True"),
        pytest.warns(UserWarning, match=r"configurational temperature is \d\.\d .*, not 1; the step is too long"),
    ):
        inference.run(normal.model, normal.x, normal.y, step_size=0.02, **options)
    with pytest.raises(FloatingPointError, match=r"the log density became .* with step_size=10; try step_size=1"):
        inference.run(normal.model, normal.x, normal.y, step_size=10.0, **options)
