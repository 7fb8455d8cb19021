"""The integrator: reversible, of second order, symplectic, and in float32 close to float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import models
from inference.mcmc import leapfrog
from inference.target.binding import bind
from inference.target.vectors import Flattened, as_vector

GENERATOR = np.random.default_rng(7)
X = GENERATOR.normal(size=(40, 3)).astype(np.float32)
Y = (np.sin(X[:, 0]) + 0.3 * GENERATOR.normal(size=40)).astype(np.float32)
NETWORK = models.mlp((5,), "tanh", likelihood=models.Gaussian(scale=0.3))


def skewed(y=None):
    """A target without any symmetry: exponential tails to one side, doubly exponential ones to the other."""
    w = numpyro.sample("w", dist.Gumbel(0.0, 1.0).expand((4,)).to_event(1))
    numpyro.sample("y", dist.Normal(w.sum(), 1.0), obs=y)


TARGETS = {"network": (NETWORK, (X, Y)), "skewed": (skewed, (np.float64(1.5),))}


class Dynamics:
    """The integrator on a target, from one start and one momentum."""

    def __init__(self, name: str, precision: str = "float64") -> None:
        self.precision = precision
        model, args = TARGETS[name]
        with jax.enable_x64(precision == "float64"):
            target, self.data = bind(model, args, 1.0, "posterior")[:2]
            position, _ = jax.jit(target.start)(jax.random.key(1), self.data)
            self.target = Flattened.of(target, self.data)
            self.position = as_vector(position).astype(precision)
            self.scale = (1.0 + 0.5 * jnp.cos(jnp.arange(self.position.size))).astype(precision)
            self.momentum = jax.random.normal(jax.random.key(2), self.position.shape, precision)
        self._integrate = jax.jit(self._trajectory)

    def _trajectory(self, position, momentum, step_size, steps):
        gradient = jax.grad(self.target.log_density)(position, self.data)
        path = leapfrog.launch(position, gradient, momentum, self.scale, step_size, steps, jnp.zeros(()))
        path = jax.lax.fori_loop(
            0, steps, lambda _, path: leapfrog.leapfrog(self.target, self.data, self.scale, path), path
        )
        end = leapfrog.land(path, self.scale)
        energy = leapfrog.kinetic(end), self.target.exact_log_density(path.position, self.data)
        before = path.kinetic, self.target.exact_log_density(position, self.data)
        return path.position, end, energy, before

    def run(self, length: float, steps: int, position=None, momentum=None):
        """End position, end momentum and energy error."""
        with jax.enable_x64(self.precision == "float64"):
            step_size = jnp.asarray(length / steps, self.precision)
            position, momentum, after, before = self._integrate(
                self.position if position is None else position,
                self.momentum if momentum is None else momentum,
                step_size,
                np.int32(steps),
            )
        error = (float(after[0]) - float(after[1])) - (float(before[0]) - float(before[1]))
        return position, momentum, error


def _farthest(first, second) -> float:
    return float(np.abs(np.asarray(first) - np.asarray(second)).max())


@pytest.mark.parametrize("name", TARGETS)
def test_time_can_be_reversed(name):
    dynamics = Dynamics(name)
    end, momentum, _ = dynamics.run(2.0, 10_000)
    assert _farthest(end, dynamics.position) > 0.1  # it went somewhere
    back, returned, _ = dynamics.run(2.0, 10_000, end, -momentum)
    assert _farthest(back, dynamics.position) < 1e-10
    assert _farthest(returned, -dynamics.momentum) < 1e-10


@pytest.mark.parametrize("name", TARGETS)
def test_energy_error_is_of_second_order(name):
    dynamics = Dynamics(name)
    errors = [dynamics.run(1.0, steps)[2] for steps in (400, 800, 1600)]
    assert errors[0] / errors[1] == pytest.approx(4.0, abs=0.2)
    assert errors[1] / errors[2] == pytest.approx(4.0, abs=0.2)


@pytest.mark.parametrize("name", TARGETS)
def test_phase_space_keeps_its_volume(name):
    # In (u / s, p) the Jacobian J of a trajectory is symplectic: J^T S J = S, with S = ((0, I), (-I, 0)).
    dynamics = Dynamics(name)
    with jax.enable_x64(True):
        flat = jnp.concatenate([dynamics.position, dynamics.momentum])

        def flow(z):
            return jnp.concatenate(dynamics._trajectory(*jnp.split(z, 2), jnp.asarray(0.05), np.int32(7))[:2])

        scale = np.concatenate([dynamics.scale, np.ones(len(dynamics.scale))])
        jacobian = np.asarray(jax.jit(jax.jacfwd(flow))(flat)) * scale / scale[:, None]
    half = len(flat) // 2
    form = np.block([[np.zeros((half, half)), np.eye(half)], [-np.eye(half), np.zeros((half, half))]])
    np.testing.assert_allclose(jacobian.T @ form @ jacobian, form, atol=1e-10)


def test_float32_trajectories_stay_close_to_float64():
    # Seen here: 8e-7 and 6e-5; with sums that are not compensated, 4e-5 and 4e-3.
    wide, narrow = Dynamics("network"), Dynamics("network", "float32")
    start, momentum = (each.astype(np.float32) for each in (wide.position, wide.momentum))
    end, _, error = narrow.run(1.0, 20_000, start, momentum)
    with jax.enable_x64(True):
        start, momentum = (each.astype(np.float64) for each in (start, momentum))
        expected, _, exact_error = wide.run(1.0, 20_000, start, momentum)
    assert _farthest(end, expected) < 5e-6
    assert abs(error - exact_error) < 2e-4
