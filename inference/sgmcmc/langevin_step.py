r"""The kernel of SGLD and SGHMC: Langevin dynamics with momentum on minibatches, and what is measured on the way.

    r <- (1 - a) r + e G g(w) + sqrt(2 a e T G) n
    w <- w + r

See `inference.sgmcmc.sgld_sghmc` for what the step means, and `inference.sgmcmc.step_sizes` for e and G. The gradient g
is an unbiased estimate. With c a fixed point and B the rows of a minibatch, drawn without replacement,

    g(w) = grad L_B(w)                              L_B: the log density with the log-likelihood scaled up from B
    g(w) = grad L_B(w) - grad L_B(c) + grad L(c)    control variates (Baker et al. 2019): little noise near c

The log density here is T times the tempered one; under `tempering="posterior"` that is the log density of the data
themselves. A position is one vector of all coordinates here, on which a step takes a third less time than on a tree of
a few arrays.

Reference: https://arxiv.org/abs/1706.05439.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from inference.lanes import repeated, when
from inference.methods import Kernel, Step
from inference.sgmcmc.step_sizes import SCHEDULES, Settings, Tuning
from inference.target.density import Data, Position, Target
from inference.target.minibatches import SALTS, salted
from inference.target.vectors import Flattened, as_vector

__all__ = ["Centre", "LangevinKernel", "Randomness", "State", "estimated_gradient"]

_TINY = 1e-30
_MEASURED = 3  # gradients that a measurement takes: one over other rows, and two for a product with the Hessian


class Centre(NamedTuple):
    """The fixed point c of control variates and of the configurational temperature.

    Attributes:
        position: c.
        gradient: the full gradient at c; empty where it is not a control variate.
    """

    position: jax.Array
    gradient: jax.Array

    @classmethod
    def at(cls, target: Target, data: Data, position: jax.Array, control: bool) -> Centre:
        """The centre at `position`, with its full gradient if `control`."""
        return cls(position, _gradient(target, data, position, None)[1] if control else position[:0])


class Randomness(NamedTuple):
    """All random numbers of a step.

    Attributes:
        normal: one standard normal number per coordinate.
        words: the random words that choose the rows of a minibatch. They are integers from the generator, never the
            bits of `normal`: the compiler may compute a floating-point number twice and round it differently.
    """

    normal: jax.Array
    words: jax.Array

    @classmethod
    def draw(cls, key: jax.Array, count: jax.Array, like: jax.Array) -> Randomness:
        """The `count`-th set of random numbers of `key`, for as many coordinates as `like` has, in its precision.

        `count` is added to the key, not hashed into it: Threefry is built for keys that are counters (Salmon et al.
        2011, https://doi.org/10.1145/2063384.2063405), and another hash takes as long as drawing the numbers.
        """
        normal_key = jax.random.key_data(key).at[1].add(count.astype(jnp.uint32))
        words_key = normal_key.at[0].add(jnp.uint32(1))  # a neighbour, which is another key to Threefry
        return cls(
            jax.random.normal(jax.random.wrap_key_data(normal_key), (like.size,), like.dtype),
            jax.random.bits(jax.random.wrap_key_data(words_key), (SALTS,), jnp.uint32),
        )

    def rows(self, count: int, total: int) -> jax.Array:
        """The rows of a minibatch, `count` of `total`, without replacement."""
        return salted(self.words, jnp.arange(count), total)


def estimated_gradient(
    target: Target, data: Data, position: jax.Array, rows: jax.Array | None, centre: Centre
) -> tuple[jax.Array, jax.Array]:
    """T times the log density and its gradient, estimated from `rows`; None is all rows."""
    log_density, gradient = _gradient(target, data, position, rows)
    if centre.gradient.size:
        gradient = gradient - _gradient(target, data, centre.position, rows)[1] + centre.gradient
    return log_density, gradient


def _gradient(target: Target, data: Data, position: jax.Array, rows: jax.Array | None) -> tuple[jax.Array, jax.Array]:
    flat = Flattened.of(target, data)

    def log_density(position: jax.Array) -> jax.Array:
        terms = target.estimate(flat.position(position), data, rows)
        return data.temperature * (target.tempered(terms, data) + terms.log_jacobian)

    return jax.value_and_grad(log_density)(position)


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
        steps, state = repeated(steps, jnp.bool_(False), lambda state: self.move(target, data, state), state)
        complete = state.steps % thin == 0
        settings, temperature = state.settings, data.temperature
        step_size, _ = self.step_size(settings, state.steps - 1)
        square = jnp.mean(jnp.square(state.momentum) / settings.preconditioner)
        noise = state.tuning.mean_noise(settings.preconditioner)
        position = Flattened.of(target, data).position(state.position)
        statistics = {
            "configurational_temperature": state.pull / thin,
            "gradient_noise_ratio": step_size * noise / (2 * self.damping * temperature),
            "kinetic_temperature": square / jnp.maximum(state.spread, _TINY),
            "lp": when(
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
        state = when(looks, lambda: self._look(target, data, state, gradient), lambda: state)
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
        centre = when(here, lambda: Centre.at(target, data, state.position, self.control), lambda: state.centre)
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
