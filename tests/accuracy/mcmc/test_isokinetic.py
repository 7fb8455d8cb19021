"""The isokinetic integrator: BlackJAX's step, reversible, with the volume that its kinetic energy says it has."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.mcmc import integrators

import models
from inference.mcmc.isokinetic import Path, isokinetic, kick, refreshed
from inference.target.binding import bind
from inference.target.vectors import Flattened, as_vector

GENERATOR = np.random.default_rng(7)
X = GENERATOR.normal(size=(40, 3)).astype(np.float32)
Y = (np.sin(X[:, 0]) + 0.3 * GENERATOR.normal(size=40)).astype(np.float32)
NETWORK = models.mlp((3,), "tanh", likelihood=models.Gaussian(scale=0.3))


class Dynamics:
    """The integrator on a network, in float64, from one start and one direction."""

    def __init__(self, scaled: bool = True) -> None:
        with jax.enable_x64(True):
            target, self.data = bind(NETWORK, (X, Y), 1.0, "posterior")[:2]
            position, _ = jax.jit(target.start)(jax.random.key(1), self.data)
            self.target = Flattened.of(target, self.data)
            self.position = np.asarray(as_vector(position).astype(np.float64))
            direction = np.random.default_rng(3).normal(size=self.position.size)
            self.direction = direction / np.linalg.norm(direction)
            self.scale = jnp.asarray(1 + scaled * 0.5 * np.cos(np.arange(self.position.size)))
        self._integrate = jax.jit(self.trajectory)

    def trajectory(self, position, direction, step_size, steps):
        """End position, end direction, change of the kinetic energy and of the log density."""
        value, gradient = jax.value_and_grad(self.target.log_density)(position, self.data)
        zero, steps = jnp.zeros(()), jnp.int32(steps)
        path = Path(position, direction, gradient, value, zero, step_size, zero, steps, steps)
        path = jax.lax.fori_loop(0, steps, lambda _, path: isokinetic(self.target, self.data, self.scale, path), path)
        return path.position, path.direction, path.kinetic, path.log_density - value

    def run(self, step_size: float, steps: int, position=None, direction=None):
        """The same as NumPy arrays, from the start or from elsewhere."""
        position, direction = (
            self.position if position is None else position, self.direction if direction is None else direction
        )  # fmt: skip
        with jax.enable_x64(True):
            return jax.device_get(self._integrate(position, direction, jnp.asarray(step_size), steps))


def test_a_step_is_blackjaxs():
    dynamics = Dynamics(scaled=False)
    with jax.enable_x64(True):
        log_density = lambda position: dynamics.target.log_density(position, dynamics.data)  # noqa: E731
        value, gradient = jax.value_and_grad(log_density)(dynamics.position)
        state = integrators.IntegratorState(
            jnp.asarray(dynamics.position), jnp.asarray(dynamics.direction), value, gradient
        )
        theirs, kinetic = jax.jit(integrators.isokinetic_mclachlan(log_density))(state, 0.3)
    position, direction, ours, change = dynamics.run(0.3, 1)
    np.testing.assert_allclose(position, theirs.position, atol=1e-12)
    np.testing.assert_allclose(direction, theirs.momentum, atol=1e-12)
    np.testing.assert_allclose([ours, change], [kinetic, theirs.logdensity - value], atol=1e-10)


def test_time_can_be_reversed():
    dynamics = Dynamics()
    end, direction, kinetic, _ = dynamics.run(0.05, 200)
    assert np.abs(end - dynamics.position).max() > 0.1  # it went somewhere
    back, returned, undone, _ = dynamics.run(0.05, 200, end, -direction)
    np.testing.assert_allclose(back, dynamics.position, atol=1e-9)
    np.testing.assert_allclose(returned, -dynamics.direction, atol=1e-9)
    assert undone == pytest.approx(-kinetic, abs=1e-8)


def test_energy_error_is_of_second_order():
    dynamics = Dynamics()
    errors = []
    for steps in (200, 400, 800):
        _, _, kinetic, change = dynamics.run(2.0 / steps, steps)
        errors.append(kinetic - change)
    assert abs(kinetic) > 1  # much went to and fro
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=0.2)
    assert errors[1] / errors[2] == pytest.approx(4.0, abs=0.2)


def test_the_kinetic_energy_is_what_the_volume_shrinks_by():
    # On positions (in units of s) and the sphere of directions, log |det J| of a trajectory is minus the change of K:
    # what a Metropolis step needs to know. Tangents of the sphere are an orthonormal basis at each end.
    dynamics = Dynamics()
    size = len(dynamics.position)
    with jax.enable_x64(True):
        flow = jax.jit(
            jax.jacfwd(lambda z: jnp.concatenate(dynamics.trajectory(z[:size], z[size:], jnp.asarray(0.4), 5)[:2]))
        )
        jacobian = np.asarray(flow(np.concatenate([dynamics.position, dynamics.direction])))
    _, direction, kinetic, _ = dynamics.run(0.4, 5)

    def basis(vector):
        tangents = np.linalg.svd(vector[None])[2][1:]
        return np.block([[np.eye(size), np.zeros((size, size - 1))], [np.zeros((size, size)), tangents.T]])

    determinant = np.linalg.slogdet(basis(direction).T @ jacobian @ basis(dynamics.direction))[1]
    assert abs(kinetic) > 1
    assert determinant == pytest.approx(-kinetic, abs=1e-8)


def _closed_form(direction: np.ndarray, gradient: np.ndarray, size: np.floating) -> float:
    """(d - 1) log(cosh(delta) + a sinh(delta)) in the widest floats there are."""
    u, g = direction.astype(np.longdouble), gradient.astype(np.longdouble)
    strength, others = np.sqrt(g @ g), len(u) - 1
    delta, along = np.longdouble(size) * strength / others, g @ u / strength
    return float(others * np.log1p(2 * np.sinh(delta / 2) ** 2 + along * np.sinh(delta)))


@pytest.mark.parametrize("unknowns", [2, 100, 50_000])
def test_kinetic_energy_keeps_its_digits_in_float32(unknowns):
    generator = np.random.default_rng(unknowns)
    size = np.float32(0.02 * np.sqrt(unknowns))
    theirs = jax.jit(integrators.esh_dynamics_momentum_update_one_step())
    ours, errors, their_errors = (
        jax.jit(lambda u, g, k: kick(u, g, jnp.ones_like(u), size, k)),
        [],
        [],
    )
    with jax.enable_x64(True):
        nothing = jnp.zeros((), jnp.float64)
    for _ in range(20):
        direction, gradient = generator.normal(size=(2, unknowns)).astype(np.float32)
        direction /= np.linalg.norm(direction)
        expected = _closed_form(direction, gradient, size)
        turned, kinetic = ours(direction, gradient, nothing)
        their_turned, _, their_kinetic = theirs(direction, gradient, size, 1.0)
        errors.append(abs(float(kinetic) - expected))
        their_errors.append(abs(float(their_kinetic) - expected))
        np.testing.assert_allclose(turned, their_turned, atol=1e-6)
    assert max(errors) < 1e-11
    assert max(their_errors) > 1e-8 * unknowns  # why it is not BlackJAX's


@pytest.mark.parametrize("strength", [0.0, 1e-30, 1e6, 1e12])
def test_a_kick_by_any_force_is_finite(strength):
    direction = jnp.array([0.6, -0.8], np.float32)
    gradient = jnp.float32(strength) * jnp.array([-0.6, 0.8], np.float32)  # straight back: the hardest
    with jax.enable_x64(True):
        nothing = jnp.zeros((), jnp.float64)
    turned, kinetic = kick(direction, gradient, jnp.ones(2), jnp.float32(0.1), nothing)
    assert np.linalg.norm(turned) == pytest.approx(1.0, abs=1e-6)
    assert np.isfinite(kinetic)


def test_a_direction_is_forgotten_over_its_length():
    # Each time its correlation with what it was falls by 1 / sqrt(1 + nu^2 d) = exp(-e / L), up to terms in 1 / d.
    unknowns, step_size, length = 20_000, 0.5, 4.0
    noise = jax.random.normal(jax.random.key(0), (8, unknowns))
    start = first = jnp.full(unknowns, unknowns**-0.5)
    for i in range(8):
        start = refreshed(start, noise[i], jnp.float32(step_size), jnp.float32(length))
        assert jnp.linalg.norm(start) == pytest.approx(1.0, abs=1e-5)
    assert start @ first == pytest.approx(np.exp(-8 * step_size / length), abs=5 * unknowns**-0.5)
