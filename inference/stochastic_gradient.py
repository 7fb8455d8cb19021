r"""SGLD and SGHMC: samplers that see a minibatch per step and have no Metropolis step.

Let g(w) be an unbiased estimate, from a minibatch, of the gradient of T times the log density at temperature T (under
`tempering="posterior"` that is the full data's log density itself), with covariance V. With step size e, friction a,
preconditioner G, a diagonal, and n standard normal:

    r <- (1 - a) r + e G g(w) + sqrt(2 a e T G) n
    w <- w + r

SGHMC (Chen et al. 2014, equation 15) has a below 1; SGLD (Welling & Teh 2011) is a = 1,

    w <- w + e G g(w) + sqrt(2 e T G) n

The noise n is that of temperature T whatever the size of the minibatch. Both are right only as e goes to 0. On a normal
target with Hessian H, SGLD with G = I has the stationary covariance S that solves

    S = (I - e H) S (I - e H) + e^2 V + 2 e T I

so two biases are left: for want of a Metropolis step, of the order of e H / 2, and from the minibatch, e V / 2 T. Both
are measured as the chain runs, by `gradient_noise_ratio`, the mean of e G V / (2 a T), and by two temperatures, which
are T where there is no bias (Wenzel et al. 2020):

    kinetic           (1 - a / 2) |r / sqrt(e G)|^2 / D
    configurational   -(w - c) . g(w) / D        for any fixed c (here the start): integration by parts

Minibatches are drawn anew at each step, see `inference.gradients`. BlackJAX's SGLD makes the same step. Its SGHMC draws
a momentum of temperature 1 at any temperature, from a key that it uses again, and keeps one minibatch for all steps of
a trajectory, so it is not used here.

References: https://dl.acm.org/doi/10.5555/3104482.3104568, https://arxiv.org/abs/1402.4102,
https://arxiv.org/abs/2002.02405 (temperatures).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.gradients import Centre, estimated_gradient, random_rows
from inference.methods import Sampler, Step
from inference.optimisation import check_batch
from inference.schedules import SCHEDULES, Cycles, Settings, Tuning
from inference.target import Data, Position, Target, standard_normal
from models.validation import fraction, one_of, positive_integer, positive_number

__all__ = ["SGHMC", "SGLD"]

_LOOK = 100  # steps between two measurements of the gradient's noise, which take some gradients each
_TOO_MUCH = 0.1  # of the injected noise


class State(NamedTuple):
    """What the next step needs.

    Attributes:
        position: w.
        momentum: r.
        centre: c.
        settings: what all chains share.
        tuning: what was measured.
        key: the chain's; each step folds its number in.
        iteration: how many steps were made.
    """

    position: Position
    momentum: Position
    centre: Centre
    settings: Settings
    tuning: Tuning
    key: jax.Array
    iteration: jax.Array


@dataclass(frozen=True, kw_only=True)
class _StochasticGradient(Sampler):
    """Base of both.

    Attributes:
        step_size: e, at its largest. None lets a pilot chain find one that keeps the gradient's noise at 5 % of the
            injected noise and, by the largest curvature, the other bias within 10 % of a variance.
        batch_size: rows per step; None uses all rows, which leaves the second bias alone. For networks.
        schedule: "constant"; "decaying" after the warm-up as (1 + 10 t)^(-1/3), t from 0 to 1 (Teh et al. 2016); or
            "cyclical", a cosine from e to 0 in each of `cycles`, which goes without noise to another mode in its share
            of the warm-up, and gives its share of the draws in the rest (Zhang et al. 2020).
        cycles: of the cyclical schedule.
        preconditioner: None, or "rmsprop": G = 1 / root mean square of the gradient, scaled to a mean of 1, from the
            first half of the pilot (Li et al. 2016); it stays as it is from there, so it needs no correction term.
        control_variates: take away the gradient's noise near the start, at two gradients per step.
        tuning: steps of the pilot, which is needed for `step_size=None` and a preconditioner.
    """

    draws: int = 500
    warmup: int = 2000
    thin: int = 20
    step_size: float | None = None
    batch_size: int | None = None
    schedule: str = "constant"
    cycles: int = 4
    preconditioner: str | None = None
    control_variates: bool = False
    tuning: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        for count in ("batch_size", "cycles", "tuning"):
            if getattr(self, count) is not None:
                positive_integer(f"{self.name}: {count}", getattr(self, count))
        if self.step_size is not None:
            positive_number(f"{self.name}: step_size", self.step_size)
        one_of(f"{self.name}: schedule", self.schedule, SCHEDULES)
        if self.preconditioner is not None:
            one_of(f"{self.name}: preconditioner", self.preconditioner, ("rmsprop",))
        if not isinstance(self.control_variates, bool):
            raise TypeError(f"{self.name}: control_variates must be True or False, got {self.control_variates!r}")
        if self.control_variates and self.batch_size is None:
            raise ValueError(f"{self.name}: control_variates need minibatches; give batch_size")
        for count in ("draws", "warmup") if self.schedule == "cyclical" else ():
            if getattr(self, count) % self.cycles:
                raise ValueError(
                    f"{self.name}: {self.cycles} cycles must divide draws and warmup, of which each has its share, got "
                    f"{count}={getattr(self, count)}"
                )

    @property
    def _damping(self) -> float:
        """A, the friction."""
        return 1.0

    @property
    def _cycles(self) -> Cycles:
        cycles = self.cycles if self.schedule == "cyclical" else 1
        return Cycles(cycles, self.warmup // cycles, self.draws // cycles, self.thin)

    @property
    def kept(self) -> Sequence[int]:
        """The last of every `thin` steps after the warm-up, of each cycle."""
        return self._cycles

    def program(self) -> _StochasticGradient:
        """How long it runs is data of the program."""
        return replace(
            self, chains=1, draws=1, warmup=0, thin=1, tuning=1, cycles=1, start=None, until=None, keep="all",
            step_size=None,
        )  # fmt: skip

    def check(self, target: Target, data: Data) -> None:
        """A minibatch needs a network, and no more rows than there are."""
        check_batch(self.name, self.batch_size, target, data)

    def settings(self, target: Target, data: Data) -> Settings:
        """Those of the pilot, if there is one."""
        ones = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), target.position(data))
        settings = Settings.of(self._cycles, ones, self.step_size)
        return settings._replace(tuning=np.int32(self.tuning)) if self.pilot() else settings

    def pilot(self) -> _StochasticGradient | None:
        """One chain that finds what is not given."""
        if self.step_size is not None and self.preconditioner is None:
            return None
        return replace(self, chains=1, warmup=self.tuning - 1, draws=1, thin=1, cycles=1, until=None, keep="all")

    def tuned(self, settings: Settings, state: State) -> Settings:
        """What the pilot found."""
        return settings.found(jax.device_get(state.settings), self.schedule, self.step_size)

    def init(self, target: Target, data: Data, position: Position, key: jax.Array, settings: Settings) -> State:
        """At rest at a start."""
        rest = jax.tree.map(jnp.zeros_like, position)
        centre = Centre.at(target, data, position, self.control_variates)
        direction_key, key = jax.random.split(key)
        tuning = Tuning.begin(position, direction_key)
        settings = jax.tree.map(jnp.asarray, settings)
        return State(position, rest, centre, settings, tuning, key, jnp.int32(0))

    def step(self, target: Target, data: Data, state: State, limit: jax.Array) -> Step:
        """One step on one minibatch."""
        rows_key, noise_key, look_key = jax.random.split(jax.random.fold_in(state.key, state.iteration), 3)
        rows = random_rows(rows_key, self.batch_size, data)
        log_density, gradient = estimated_gradient(target, data, state.position, rows, state.centre)
        adapting = state.settings.tuning > 0
        settings, tuning = lax.cond(
            adapting | (state.iteration % _LOOK == 0),
            lambda: self._look(target, data, state, gradient, look_key),
            lambda: (state.settings, state.tuning),
        )
        temperature, damping = data.temperature, self._damping
        rate, hot = SCHEDULES[self.schedule](settings, state.iteration)
        step_size = jnp.where(adapting, settings.step_size, settings.step_size * rate)
        spread = jnp.sqrt(2 * damping * step_size * temperature * jnp.where(adapting, 1.0, hot))
        noise = standard_normal(noise_key, state.position)
        scale = settings.preconditioner
        momentum = jax.tree.map(
            lambda r, g, n, G: (1 - damping) * r + step_size * G * g + spread * jnp.sqrt(G) * n,
            state.momentum, gradient, noise, scale,
        )  # fmt: skip
        position = jax.tree.map(jnp.add, state.position, momentum)
        size = sum(leaf.size for leaf in position.values())
        kinetic = _dot(momentum, jax.tree.map(jnp.divide, momentum, scale)) / jnp.maximum(step_size, 1e-30)
        away = jax.tree.map(jnp.subtract, state.position, state.centre.position)
        statistics = {
            "configurational_temperature": -_dot(away, gradient) / size,
            "gradient_noise_ratio": step_size * tuning.mean_noise(scale) / (2 * damping * temperature),
            "kinetic_temperature": (1 - damping / 2) * kinetic / size,
            "lp": log_density / temperature,
            "step_size": step_size,
        }
        state = state._replace(
            position=position, momentum=momentum, settings=settings, tuning=tuning, iteration=state.iteration + 1
        )
        return Step(state, (target.constrain(position, data), statistics))

    def watch(self, info: dict[str, np.ndarray], done: int) -> None:
        """Stop at the first log density that is not finite."""
        bad = np.flatnonzero(~np.isfinite(info["lp"]))
        if bad.size:
            where, step_size = done - len(info["lp"]) + int(bad[0]), float(info["step_size"][bad[0]])
            raise FloatingPointError(
                f"{self.name}: the log density became {info['lp'][bad[0]]} at step {where} with step_size="
                f"{step_size:.3g}; try step_size={step_size / 10:.1g}, or check the scale of the data"
            )

    def concerns(self, statistics: dict[str, np.ndarray], chains: Sequence[int]) -> tuple[str, ...]:
        """A gradient that is too noisy for its step."""
        ratio = float(statistics["gradient_noise_ratio"].mean())
        if not ratio > _TOO_MUCH:
            return ()
        return (
            f"{self.name}: the minibatches' noise is {ratio:.0%} of the injected noise, so the draws are too wide; use "
            "a smaller step_size, a larger batch_size or control_variates=True",
        )

    def gradients(self, info: dict[str, np.ndarray], data: Data) -> float:
        """One per step, or two with control variates; over a minibatch, its share of the rows."""
        share = 1.0 if self.batch_size is None else self.batch_size / len(data.arrays[0])
        return len(info["lp"]) * share * (1 + self.control_variates)

    def status(self, info: dict[str, np.ndarray], sums: dict[str, float]) -> str:
        """Step size and temperature."""
        temperature = sums["kinetic_temperature"] / sums["count"]
        return f"step size {info['step_size'][-1]:.3g}, kinetic temperature {temperature:.3g}"

    def _look(
        self, target: Target, data: Data, state: State, gradient: Position, key: jax.Array
    ) -> tuple[Settings, Tuning]:
        """Measure noise and curvature and, in the pilot, set preconditioner and step size by them."""
        rows = random_rows(key, self.batch_size, data)

        def other(position: Position) -> Position:
            return estimated_gradient(target, data, position, rows, state.centre)[1]

        def product(vector: Position) -> Position:
            return jax.jvp(other, (state.position,), (vector,))[1]

        tuning = state.tuning.after(gradient, other(state.position), product, state.settings.preconditioner)
        precondition = self.preconditioner is not None
        return state.settings.adapted(tuning, state.iteration, data.temperature * self._damping, precondition), tuning


def _dot(one: Position, other: Position) -> Any:
    return sum(jnp.vdot(one[name], other[name]) for name in one)


@dataclass(frozen=True, kw_only=True)
class SGLD(_StochasticGradient):
    """Stochastic gradient Langevin dynamics, whose draws are biased by the step size; see the module.

    Defaults: 4 chains of 500 draws, one every 20 steps, after 2,000 steps; a pilot of 500 steps finds the step size.
    """

    name: ClassVar[str] = "sgld"


@dataclass(frozen=True, kw_only=True)
class SGHMC(_StochasticGradient):
    """Stochastic gradient HMC, whose draws are biased by the step size; see the module.

    Defaults: 4 chains of 500 draws, one every 20 steps, after 2,000 steps; a pilot of 500 steps finds the step size.

    Attributes:
        friction: a, above 0 and below 1: the share of the momentum that a step takes away.
    """

    name: ClassVar[str] = "sghmc"

    friction: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction("sghmc: friction", self.friction)

    @property
    def _damping(self) -> float:
        return self.friction
