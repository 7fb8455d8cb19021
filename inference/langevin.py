r"""One step of Langevin dynamics with momentum on a minibatch, and what is measured beside it.

    r <- (1 - a) r + e G g(w) + sqrt(2 a e T G) n
    w <- w + r

See `inference.stochastic_gradient` for what it means, `inference.gradients` for g and n, and `inference.schedules` for
e and G.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.gradients import Centre, Randomness, estimated_gradient
from inference.schedules import SCHEDULES, Settings, Tuning
from inference.target import Data, Target

__all__ = ["Langevin", "State"]

_LOOK = 100  # steps between two measurements of the gradient's noise, which take some gradients each


class State(NamedTuple):
    """What the next step needs.

    Attributes:
        position: w, a vector.
        momentum: r.
        centre: c.
        settings: what all chains share.
        tuning: what was measured.
        spread: what the injected noise alone makes of the mean square of r / sqrt(T G).
        log_density: T times it, as the last step saw it.
        pull: -(w - c) . g / D, summed over the steps since the last draw.
        key: the chain's, of which each step uses two counts.
        steps: how many were made.
    """

    position: jax.Array
    momentum: jax.Array
    centre: Centre
    settings: Settings
    tuning: Tuning
    spread: jax.Array
    log_density: jax.Array
    pull: jax.Array
    key: jax.Array
    steps: jax.Array


class Langevin(NamedTuple):
    """What a step depends on beside the data.

    Attributes:
        target: whose log density is followed.
        damping: a.
        batch_size: rows per step, or None.
        schedule: of the step size.
        control: whether the start is a control variate.
        precondition: whether a pilot finds G.
    """

    target: Target
    damping: float
    batch_size: int | None
    schedule: str
    control: bool
    precondition: bool

    def begin(self, data: Data, position: jax.Array, key: jax.Array, settings: Settings) -> State:
        """At rest at a start."""
        direction_key, key = jax.random.split(key)
        zero = jnp.zeros((), position.dtype)
        return State(
            position,
            jnp.zeros_like(position),
            Centre.at(self.target, data, position, self.control),
            jax.tree.map(jnp.asarray, settings),
            Tuning.begin(jax.random.normal(direction_key, position.shape, position.dtype)),
            zero,
            zero,
            zero,
            key,
            jnp.int32(0),
        )

    def move(self, data: Data, state: State) -> State:
        """One step."""
        drawn = Randomness.draw(state.key, 2 * state.steps, state.position)
        rows = drawn.rows(self.batch_size, data)
        log_density, gradient = estimated_gradient(self.target, data, state.position, rows, state.centre)
        settings, tuning = lax.cond(
            (state.settings.tuning > 0) | (state.steps % _LOOK == 0),
            lambda: self._look(data, state, gradient),
            lambda: (state.settings, state.tuning),
        )
        step_size, hot = self.step_size(settings, state.steps)
        injected = 2 * self.damping * step_size * hot
        scale = settings.preconditioner
        noise = jnp.sqrt(injected * data.temperature * scale) * drawn.normal
        momentum = (1 - self.damping) * state.momentum + step_size * scale * gradient + noise
        spread = (1 - self.damping) ** 2 * state.spread + injected
        pull = state.pull - jnp.mean((state.position - state.centre.position) * gradient)
        return State(
            state.position + momentum, momentum, state.centre, settings, tuning, spread, log_density, pull,
            state.key, state.steps + 1,
        )  # fmt: skip

    def step_size(self, settings: Settings, step: jax.Array) -> tuple[jax.Array, Any]:
        """The step size at a step, and whether it injects noise; a pilot's is as it has found it so far."""
        rate, hot = SCHEDULES[self.schedule](settings, step)
        pilot = settings.tuning > 0
        return settings.step_size * jnp.where(pilot, 1.0, rate), pilot | hot

    def _look(self, data: Data, state: State, gradient: jax.Array) -> tuple[Settings, Tuning]:
        """Measure noise and curvature and, in the pilot, set preconditioner and step size by them."""
        rows = Randomness.draw(state.key, 2 * state.steps + 1, state.position).rows(self.batch_size, data)

        def other(position: jax.Array) -> jax.Array:
            return estimated_gradient(self.target, data, position, rows, state.centre)[1]

        def product(vector: jax.Array) -> jax.Array:
            return jax.jvp(other, (state.position,), (vector,))[1]

        tuning = state.tuning.after(gradient, other(state.position), product, state.settings.preconditioner)
        return state.settings.adapted(tuning, state.steps, data.temperature * self.damping, self.precondition)
