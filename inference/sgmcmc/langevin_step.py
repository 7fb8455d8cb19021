r"""One step of Langevin dynamics with momentum on a minibatch, and what is measured beside it.

    r <- (1 - a) r + e G g(w) + sqrt(2 a e T G) n
    w <- w + r

See `inference.sgmcmc.sgld_sghmc` for what it means, `inference.sgmcmc.minibatch_gradients` for g and n, and
`inference.sgmcmc.step_sizes` for e and G.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.sgmcmc.minibatch_gradients import Centre, Randomness, estimated_gradient
from inference.sgmcmc.step_sizes import SCHEDULES, Settings, Tuning
from inference.target.density import Data, Target

__all__ = ["Langevin", "State"]

_MEASURED = 3  # gradients that a measurement takes: one of other rows, and two for a product with the Hessian


class State(NamedTuple):
    """What the next step needs.

    Attributes:
        position: w, a vector.
        momentum: r.
        centre: c.
        settings: the chain's, e as adapted.
        tuning: what was measured.
        spread: what the injected noise alone makes of the mean square of r / sqrt(T G).
        log_density: T times it, as the last step estimated it before it moved.
        pull: -(w - c) . g / D, summed over the steps since the last draw.
        gradients: over all rows, that the steps since the last draw took.
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
    gradients: jax.Array
    key: jax.Array
    steps: jax.Array


class Langevin(NamedTuple):
    """What a step depends on beside the data.

    Attributes:
        target: whose log density is followed.
        damping: a.
        batch_size: rows per step, or None.
        schedule: of the step size.
        control: whether the centre is a control variate.
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
            zero + self.control,
            key,
            jnp.int32(0),
        )

    def move(self, data: Data, state: State) -> State:
        """One step."""
        state = self._centred(data, state)
        drawn = Randomness.draw(state.key, 2 * state.steps, state.position)
        rows = self._rows(drawn, data)
        log_density, gradient = estimated_gradient(self.target, data, state.position, rows, state.centre)
        looks = state.settings.looks(state.steps)
        state = lax.cond(looks, lambda: self._look(data, state, gradient), lambda: state)
        settings = state.settings
        step_size, hot = self.step_size(settings, state.steps)
        injected = 2 * self.damping * step_size * hot
        scale = settings.preconditioner
        noise = jnp.sqrt(injected * data.temperature * scale) * drawn.normal
        momentum = (1 - self.damping) * state.momentum + step_size * scale * gradient + noise
        share = 1.0 if rows is None else len(rows) / self.target.rows(data)
        return state._replace(
            position=state.position + momentum,
            momentum=momentum,
            spread=(1 - self.damping) ** 2 * state.spread + injected,
            log_density=log_density,
            pull=state.pull - jnp.mean((state.position - state.centre.position) * gradient),
            gradients=state.gradients + share * (1 + self.control) * (1 + _MEASURED * looks),
            steps=state.steps + 1,
        )

    def step_size(self, settings: Settings, step: jax.Array) -> tuple[jax.Array, Any]:
        """The step size at a step, and whether it injects noise; a pilot's is as it has found it so far."""
        rate, hot = SCHEDULES[self.schedule](settings, step)
        return settings.step_size * jnp.where(settings.pilot, 1.0, rate), settings.pilot | hot

    def _rows(self, drawn: Randomness, data: Data) -> jax.Array | None:
        return None if self.batch_size is None else drawn.rows(self.batch_size, self.target.rows(data))

    def _centred(self, data: Data, state: State) -> State:
        """With the centre moved here, if it is halfway through a warm-up: near the posterior, and before e is final."""
        here = state.steps % state.settings.length == state.settings.warmup // 2
        centre = lax.cond(
            here, lambda: Centre.at(self.target, data, state.position, self.control), lambda: state.centre
        )
        return state._replace(centre=centre, gradients=state.gradients + here * self.control)

    def _look(self, data: Data, state: State, gradient: jax.Array) -> State:
        """Measure noise and curvature and, in the first warm-up, set preconditioner and step size by them."""
        rows = self._rows(Randomness.draw(state.key, 2 * state.steps + 1, state.position), data)
        settings, root = state.settings, jnp.sqrt(state.settings.preconditioner)

        def other(position: jax.Array) -> jax.Array:
            return estimated_gradient(self.target, data, position, rows, state.centre)[1]

        second, turned = jax.jvp(other, (state.position,), (root * state.tuning.direction,))
        first_draw = state.steps % settings.length == settings.warmup
        tuning = state.tuning._replace(made=jnp.where(first_draw, 0, state.tuning.made))
        tuning = tuning.after(gradient, second, root * turned)
        heat = data.temperature * self.damping
        adapted = settings.adapted(tuning, state.steps, heat, self.schedule, self.precondition)
        # The momentum has the temperature that it had, at a mean square that goes with e G.
        change = jnp.where(settings.step_size > 0, adapted.step_size / settings.step_size, 0.0)
        momentum = jnp.sqrt(change * adapted.preconditioner / settings.preconditioner) * state.momentum
        return state._replace(momentum=momentum, spread=change * state.spread, settings=adapted, tuning=tuning)
