r"""What HMC's pilot and the warm-up of its chains adapt: the step size and, in the pilot, on request a diagonal mass.

The step size follows dual averaging, see `inference.mcmc.dual_averaging`. The averaging restarts halfway, because the
first half sees the way from the start to where the posterior's mass is. The warm-up of a chain does the same, beginning
with the step size that the pilot found.

With a diagonal mass, the draws of the pilot's second and third quarters give each coordinate's variance v, shrunk
towards 0.001 of the prior's variance as in Stan; the scales become sqrt(v), and the last quarter adapts the step size
to them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.mcmc.dual_averaging import Averaging, collect, shrunk
from inference.target.density import Position
from inference.target.trees import choose

__all__ = ["Adaptation", "Settings"]

_FIRST_STEPS = 10  # of the first trajectory: too few are cheap, and the next trajectories learn from it
_MOST_STEPS = 1_000_000  # of a trajectory: a step size that needs more is lost


class Settings(NamedTuple):
    """What the pilot, or every chain, begins with.

    Attributes:
        scale: the scale of each coordinate, relative to `unit`.
        unit: the unit of lengths and step sizes, in unconstrained coordinates: the median of the prior's standard
            deviations.
        length: the length of a trajectory.
        step_size: the largest step size; a trajectory takes one at most as large, which divides its length.
        pilot: whether this is the pilot, all of whose iterations adapt.
        seeking: whether the warm-up of a chain adapts the step size; if not, a refused proposal in warm-up halves the
            next trajectory.
        warmup: iterations of the warm-up; 0 for the pilot.
        first: the first iteration whose draw counts for the mass.
        restart: the iteration before which the averaging restarts, with the new mass if there is one.
    """

    scale: Position
    unit: Any
    length: Any
    step_size: Any
    pilot: Any
    seeking: Any
    warmup: Any
    first: Any
    restart: Any

    @classmethod
    def of(cls, scale: Any, unit: float, length: float, step_size: float | None, tuning: int, mass: str) -> Settings:
        """The first settings, the pilot's if there is one; `of_chains` makes the chains' settings from them."""
        quarter = tuning // 4
        number = next(iter(scale.values())).dtype.type
        return cls(
            scale,
            number(unit),
            number(length),
            number(length / _FIRST_STEPS if step_size is None else step_size),
            np.bool_(step_size is None or mass == "diagonal"),
            np.bool_(False),
            np.int32(0),
            np.int32(quarter),
            np.int32(3 * quarter if mass == "diagonal" else tuning // 2),
        )

    def of_chains(self, warmup: int, step_size: float | None) -> Settings:
        """The settings of chains with `warmup` iterations of warm-up, which adapt the step size if none is given."""
        return self._replace(
            pilot=np.bool_(False),
            seeking=np.bool_(step_size is None),
            warmup=np.int32(warmup),
            restart=np.int32(warmup // 2),
        )

    def adapts(self, iteration: jax.Array) -> jax.Array:
        """Whether `iteration` adapts the step size."""
        return self.pilot | (self.seeking & (iteration < self.warmup))

    def found(self, adaptation: Adaptation, step_size: float | None) -> Settings:
        """These settings with the scales and the step size that the pilot found; a `step_size` that is given stays."""
        number = type(self.length)
        if step_size is None:
            step_size = float(np.clip(math.exp(adaptation.averaging.mean), self.length / _MOST_STEPS, self.length))
        return self._replace(scale=jax.device_get(adaptation.settings.scale), step_size=number(step_size))


class Adaptation(NamedTuple):
    """The part of a chain's state that adapts in the pilot and in the warm-up, and is fixed after it.

    Attributes:
        settings: the settings as adapted so far.
        averaging: the state of dual averaging, over log step sizes.
        moments: mean and sum of squared deviations of the draws that count for a diagonal mass; None without one.
    """

    settings: Settings
    averaging: Averaging
    moments: tuple[Position, Position] | None

    @classmethod
    def begin(cls, settings: Settings, position: Position, mass: str) -> Adaptation:
        """The adaptation before the first iteration."""
        settings = jax.tree.map(jnp.asarray, settings)
        nothing = jax.tree.map(jnp.zeros_like, position)
        first = jnp.log(settings.step_size)
        centre = first + jnp.where(settings.pilot, math.log(10), 0.0).astype(first.dtype)
        return cls(settings, Averaging.begin(first, centre), (nothing, nothing) if mass == "diagonal" else None)

    def after(self, iteration: jax.Array, acceptance: jax.Array, position: Position, target: float) -> Adaptation:
        """The adaptation after an iteration that accepted with probability `acceptance` and ended at `position`."""
        averaging = self.averaging.after(target - acceptance)
        settings, moments = self.settings, self.moments
        again = iteration + 1 == settings.restart
        averaging = choose(again, averaging.again(), averaging)
        if moments is not None:
            count = (iteration + 1 - settings.first).astype(acceptance.dtype)
            counts = (count > 0) & (iteration < settings.restart)
            moments = choose(counts, collect(moments, position, count), moments)
            scale = choose(again & settings.pilot, shrunk(settings, moments, count), settings.scale)
            settings = settings._replace(scale=scale)
        last = ~settings.pilot & (iteration + 1 == settings.warmup)
        step_size = jnp.exp(jnp.where(last, averaging.mean, averaging.log_step))
        step_size = jnp.clip(step_size, settings.length / _MOST_STEPS, settings.length)
        return Adaptation(settings._replace(step_size=step_size), averaging, moments)
