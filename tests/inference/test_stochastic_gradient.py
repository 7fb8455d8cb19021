"""SGLD and SGHMC against the stationary covariance that their own recursion has on a normal target.

All rows have the same inputs, so the Hessian and the covariance of a minibatch's gradient are the same everywhere.
"""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.sgmcmc.diffusions import overdamped_langevin
from jax import lax
from scipy.linalg import solve_discrete_lyapunov

import data
import inference
import models
from inference import mixing
from inference.binding import bind
from inference.gradients import Centre, Randomness, estimated_gradient
from inference.schedules import SCHEDULES, Cycles, Settings

Z = 5.0
ROWS, NOISE, PRIOR = 60, 2.0, 0.7
INPUT = np.array([1.0, 0.5, -1.0])  # with the bias first


class Target:
    """A normal posterior and everything about it."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self.x = np.broadcast_to(INPUT[1:], (ROWS, 2)).astype(np.float32)
        self.y = (0.5 + 3 * generator.standard_t(3, ROWS)).astype(np.float32)
        self.model = models.linear(models.Normal(PRIOR), models.Gaussian(scale=NOISE))
        self.hessian = ROWS * np.outer(INPUT, INPUT) / NOISE**2 + np.eye(3) / PRIOR**2
        self.mean = np.linalg.solve(self.hessian, INPUT * self.y.astype(float).sum() / NOISE**2)

    def gradient_noise(self, batch: int | None) -> np.ndarray:
        """V, of rows drawn without replacement."""
        if batch is None:
            return np.zeros((3, 3))
        variance = ROWS**2 * self.y.astype(float).var(ddof=1) / batch * (1 - batch / ROWS)
        return variance * np.outer(INPUT, INPUT) / NOISE**4

    def stationary(self, e: float, T: float, batch: int | None, a: float = 1.0, G: np.ndarray | None = None):
        """The covariance of w from that of (w, r), for r <- (1 - a) r + e G g + sqrt(2 a e T G) n and w <- w + r."""
        G = np.eye(3) if G is None else np.diag(G)
        one = np.eye(3)
        kick = np.block([[one - e * G @ self.hessian, (1 - a) * one], [-e * G @ self.hessian, (1 - a) * one]])
        noise = e**2 * G @ self.gradient_noise(batch) @ G + 2 * a * e * T * G
        return solve_discrete_lyapunov(kick, np.kron(np.ones((2, 2)), noise))[:3, :3]


@pytest.fixture(scope="module")
def normal() -> Target:
    return Target()


@partial(jax.jit, static_argnames=("method", "target", "draws"))
def _chain(method, target, bound_data, position, settings, key, draws):
    state = method.init(target, bound_data, position, key, settings)

    def draw(state, _):
        state = method.step(target, bound_data, state, jnp.int32(1000)).state
        return state, state.position  # the bias, then the weights

    return lax.scan(draw, state, length=draws)[1]


def _bound(normal: Target, rows: int, T: float):
    bound = bind(normal.model, (normal.x[:rows], normal.y[:rows]), T, "posterior")
    return bound._replace(data=jax.tree.map(jnp.asarray, bound.data))


def _simulated(normal, method, T, G, chains=16, draws=2000, thin=4, warmup=100):
    bound = _bound(normal, ROWS, T)
    settings = Settings.of(Cycles(1, 0, draws), thin, G.astype(np.float32), method.step_size)
    start = {"output.bias": jnp.asarray(normal.mean[:1], jnp.float32)}
    start["output.weight"] = jnp.asarray(normal.mean[1:, None], jnp.float32)
    run = partial(_chain, method, bound.target, draws=draws)
    each = [run(bound.data, start, settings, key)[warmup:] for key in jax.random.split(jax.random.key(0), chains)]
    return np.stack(each).astype(np.float64)


def _z_scores(normal: Target, draws: np.ndarray, covariance: np.ndarray) -> np.ndarray:
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
    draws = _simulated(normal, method, T, np.array(G))
    z = _z_scores(normal, draws, expected)
    assert np.abs(z).max() < Z, f"z-scores {np.round(z, 1)}"
    # The posterior itself is many standard errors away, so the test can tell what it is about.
    assert np.abs(_z_scores(normal, draws, T * np.linalg.inv(normal.hessian))).max() > 2 * Z


def test_the_bias_falls_with_the_step(normal):
    exact = np.trace(np.linalg.inv(normal.hessian))
    biases = [np.trace(normal.stationary(e, 1.0, 6)) / exact - 1 for e in (0.02, 0.01, 0.005)]
    assert biases[0] > 1.8 * biases[1] > 3 * biases[2] > 0


def test_the_recursion_for_friction_1_is_that_of_the_issue(normal):
    e, T, batch, one = 0.01, 4.0, 6, np.eye(3)
    covariance = normal.stationary(e, T, batch)
    step = one - e * normal.hessian
    again = step @ covariance @ step + e**2 * normal.gradient_noise(batch) + 2 * e * T * one
    np.testing.assert_allclose(covariance, again, rtol=1e-10)


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
    bound = _bound(normal, ROWS, 2.0)
    position = jax.tree.map(lambda leaf: jnp.full(leaf.shape, 0.3), bound.target.position(bound.data))
    settings = Settings.of(Cycles(1, 0, 1), 1, np.ones(3, np.float32), 0.01)
    state = method.init(bound.target, bound.data, position, jax.random.key(5), settings)
    after = method.step(bound.target, bound.data, state, jnp.int32(1)).state
    drawn = Randomness.draw(state.key, jnp.int32(0), state.position)
    rows = drawn.rows(6, bound.data)
    _, gradient = estimated_gradient(bound.target, bound.data, state.position, rows, state.centre)
    monkeypatch.setattr("blackjax.sgmcmc.diffusions.generate_gaussian_noise", lambda key, like: drawn.normal)
    expected = overdamped_langevin()(None, state.position, gradient, 0.01, 2.0)
    np.testing.assert_allclose(after.position, expected, rtol=1e-6)


@pytest.mark.parametrize("control", [False, True])
def test_gradients_are_unbiased_and_control_variates_have_no_noise_at_the_centre(normal, control):
    bound = _bound(normal, 6, 1.0)
    centre, here = (jnp.full(3, value) for value in (0.2, -0.4))
    fixed, plain = (Centre.at(bound.target, bound.data, centre, each) for each in (control, False))
    estimate = jax.jit(lambda p, rows: estimated_gradient(bound.target, bound.data, p, rows, fixed)[1])
    every = [jnp.array(rows) for rows in itertools.combinations(range(6), 2)]
    for place in (centre, here):
        _, full = estimated_gradient(bound.target, bound.data, place, None, plain)
        gradients = np.array([estimate(place, rows) for rows in every])
        np.testing.assert_allclose(gradients.mean(axis=0), full, rtol=1e-4)
        assert (gradients.std(axis=0).max() < 1e-4) == control  # the Hessian is the same for all rows, so everywhere


def test_the_default_step_keeps_the_gradients_noise_small(recwarn):
    train, _ = data.load("diabetes").split(seed=0)
    model = models.mlp((8,), "tanh")
    for method in ("sgld", "sghmc"):
        for preconditioner in (None, "rmsprop"):
            posterior = inference.run(
                model, train, method=method, batch_size=32, chains=2, draws=100, progress=False,
                preconditioner=preconditioner,
            )  # fmt: skip
            assert 0.01 < posterior.statistics["gradient_noise_ratio"].mean() < 0.1
    assert not recwarn.list


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_without_minibatches_the_default_step_follows_the_curvature(conjugate, temperature):
    _, precision = conjugate.posterior()
    largest = np.linalg.eigvalsh(precision).max()  # of T times the log density, whatever T is
    posterior = conjugate.run(method="sgld", chains=1, draws=2, warmup=200, temperature=temperature)
    np.testing.assert_allclose(posterior.statistics["step_size"], 0.2 / largest, rtol=0.01)


def test_too_large_a_step_is_said(normal):
    options = dict(method="sgld", batch_size=6, draws=50, chains=1, warmup=0, progress=False)
    with (
        pytest.warns(UserWarning, match=r"the draws are too wide; use .* a larger batch_size or control_variates=True"),
        pytest.warns(UserWarning, match=r"configurational temperature is \d\.\d .*, not 1; the step is too long"),
    ):
        inference.run(normal.model, normal.x, normal.y, step_size=0.02, **options)
    with pytest.raises(FloatingPointError, match=r"the log density became .* with step_size=10; try step_size=1"):
        inference.run(normal.model, normal.x, normal.y, step_size=10.0, **options)


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


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"batch_size": 100}, ValueError, "batch_size must be at most the number of rows, 60, got 100"),
        ({"step_size": -1.0}, ValueError, "step_size must be"),
        ({"schedule": "cosine"}, ValueError, "schedule must be one of"),
        ({"schedule": "cyclical", "cycles": 1000}, ValueError, "1000 cycles must divide draws and warmup"),
        ({"schedule": "cyclical", "cycles": 3}, ValueError, "3 cycles must divide draws and warmup"),
        ({"preconditioner": "adam"}, ValueError, "preconditioner must be one of"),
        ({"control_variates": True}, ValueError, "control_variates need minibatches"),
        ({"control_variates": "yes", "batch_size": 5}, TypeError, "control_variates must be True or False"),
        ({"method": "sghmc", "friction": 1.5}, ValueError, "friction must be"),
        ({"friction": 0.5}, ValueError, "'friction' is not an option of sgld; it is an option of sghmc"),
    ],
)
def test_bad_options(normal, options, error, message):
    with pytest.raises(error, match=message):
        inference.run(normal.model, normal.x, normal.y, **({"method": "sgld", "progress": False} | options))
