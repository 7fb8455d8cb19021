r"""The kernel of SGLD and SGHMC: Langevin dynamics with momentum on minibatches, and what is measured on the way.

    r <- (1 - a) r + e G g(w) + sqrt(2 a e T G) n
    w <- w + r

See `inference.sgmcmc.sgld_sghmc` for what the step means, `inference.sgmcmc.minibatch_gradients` for g and n, and
`inference.sgmcmc.step_sizes` for e and G.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.methods import Kernel, Step
from inference.sgmcmc.minibatch_gradients import Centre, Randomness, as_position, as_vector, estimated_gradient
from inference.sgmcmc.step_sizes import SCHEDULES, Settings, Tuning
from inference.target.density import Data, Position, Target

__all__ = ["LangevinKernel", "State"]

_TINY = 1e-30
_MEASURED = 3  # gradients that a measurement takes: one over other rows, and two for a product with the Hessian


class State(NamedTuple):
    """A chain's state: all that its next step needs.

    Attributes:
        position: w, a vector.
        momentum: r.
        centre: c.
        settings: the chain's settings, with e as adapted so far.
        tuning: what was measured of the gradient's noise and curvature.
        spread: the mean square of r / sqrt(T G) that the injected noise alone would give.
        log_density: T times the log density, as the last step estimated it before it moved.
        pull: -(w - c) . g / D, summed over the steps since the last draw.
        gradients: how many gradients over all rows the steps since the last draw took.
        key: the chain's key, of which each step uses two counts.
        steps: how many steps were made.
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


@dataclass(frozen=True)
class LangevinKernel(Kernel):
    """The kernel of SGLD and SGHMC: an iteration is the steps up to the next draw.

    Attributes:
        damping: a, the friction.
        batch_size: rows per step; None uses all.
        schedule: the name of the step size's schedule.
        control: whether the gradient at the centre is a control variate.
        precondition: whether a pilot finds G.
    """

    damping: float
    batch_size: int | None
    schedule: str
    control: bool
    precondition: bool

    def init(self, target: Target, data: Data, position: Position, key: jax.Array, settings: Settings) -> State:
        """The state of a chain at rest at `position`."""
        vector = as_vector(position)
        direction_key, key = jax.random.split(key)
        zero = jnp.zeros((), vector.dtype)
        return State(
            vector,
            jnp.zeros_like(vector),
            Centre.at(target, data, vector, self.control),
            jax.tree.map(jnp.asarray, settings),
            Tuning.begin(jax.random.normal(direction_key, vector.shape, vector.dtype)),
            zero,
            zero,
            zero,
            zero + self.control,
            key,
            jnp.int32(0),
        )

    def step(self, target: Target, data: Data, state: State, limit: jax.Array) -> Step:
        """The steps up to the next draw, or as many of them as `limit` allows."""
        thin = state.settings.thin
        steps = jnp.minimum(thin - state.steps % thin, limit)
        state = lax.fori_loop(0, steps, lambda _, state: self.move(target, data, state), state)
        complete = state.steps % thin == 0
        settings, temperature = state.settings, data.temperature
        step_size, _ = self.step_size(settings, state.steps - 1)
        square = jnp.mean(jnp.square(state.momentum) / settings.preconditioner)
        noise = state.tuning.mean_noise(settings.preconditioner)
        position = as_position(target, data, state.position)
        statistics = {
            "configurational_temperature": state.pull / thin,
            "gradient_noise_ratio": step_size * noise / (2 * self.damping * temperature),
            "kinetic_temperature": square / jnp.maximum(state.spread, _TINY),
            "lp": lax.cond(
                complete & settings.draws(state.steps - 1),
                lambda: target.log_density(position, data),
                lambda: state.log_density / temperature,  # not of a draw: only to see that it is finite
            ),
            "n_gradients": state.gradients,
            "n_steps": thin,
            "step_size": step_size,
        }
        emission = target.constrain(position, data), statistics
        pull, gradients = (jnp.where(complete, 0.0, sum_so_far) for sum_so_far in (state.pull, state.gradients))
        return Step(state._replace(pull=pull, gradients=gradients), emission, complete, steps)

    def move(self, target: Target, data: Data, state: State) -> State:
        """One step of r and w; the centre is moved, and noise and curvature are measured, where it is time to."""
        state = self._centred(target, data, state)
        drawn = Randomness.draw(state.key, 2 * state.steps, state.position)
        rows = self._rows(target, drawn, data)
        log_density, gradient = estimated_gradient(target, data, state.position, rows, state.centre)
        looks = state.settings.looks(state.steps)
        state = lax.cond(looks, lambda: self._look(target, data, state, gradient), lambda: state)
        settings = state.settings
        step_size, hot = self.step_size(settings, state.steps)
        injected = 2 * self.damping * step_size * hot
        scale = settings.preconditioner
        noise = jnp.sqrt(injected * data.temperature * scale) * drawn.normal
        momentum = (1 - self.damping) * state.momentum + step_size * scale * gradient + noise
        share = 1.0 if rows is None else len(rows) / target.rows(data)
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
        """The step size at `step`, and whether the step injects noise; a pilot uses what it has found so far."""
        rate, hot = SCHEDULES[self.schedule](settings, step)
        return settings.step_size * jnp.where(settings.pilot, 1.0, rate), settings.pilot | hot

    def _rows(self, target: Target, drawn: Randomness, data: Data) -> jax.Array | None:
        return None if self.batch_size is None else drawn.rows(self.batch_size, target.rows(data))

    def _centred(self, target: Target, data: Data, state: State) -> State:
        """Move the centre to the position halfway through a warm-up: near the posterior, and before e is final."""
        here = state.steps % state.settings.length == state.settings.warmup // 2
        centre = lax.cond(here, lambda: Centre.at(target, data, state.position, self.control), lambda: state.centre)
        return state._replace(centre=centre, gradients=state.gradients + here * self.control)

    def _look(self, target: Target, data: Data, state: State, gradient: jax.Array) -> State:
        """Measure noise and curvature and, in the first warm-up, set the preconditioner and the step size by them."""
        rows = self._rows(target, Randomness.draw(state.key, 2 * state.steps + 1, state.position), data)
        settings, root = state.settings, jnp.sqrt(state.settings.preconditioner)

        def other(position: jax.Array) -> jax.Array:
            return estimated_gradient(target, data, position, rows, state.centre)[1]

        second, turned = jax.jvp(other, (state.position,), (root * state.tuning.direction,))
        first_draw = state.steps % settings.length == settings.warmup
        tuning = state.tuning._replace(made=jnp.where(first_draw, 0, state.tuning.made))
        tuning = tuning.after(gradient, second, root * turned)
        heat = data.temperature * self.damping
        adapted = settings.adapted(tuning, state.steps, heat, self.schedule, self.precondition)
        # The momentum keeps its temperature: its mean square changes in proportion to e G.
        change = jnp.where(settings.step_size > 0, adapted.step_size / settings.step_size, 0.0)
        momentum = jnp.sqrt(change * adapted.preconditioner / settings.preconditioner) * state.momentum
        return state._replace(momentum=momentum, spread=change * state.spread, settings=adapted, tuning=tuning)
