r"""What HMC's pilot and the warm-up of its chains adapt: the step size and, in the pilot, on request a diagonal mass.

The step size follows dual averaging (Hoffman & Gelman 2014, section 3.2) by NumPyro's implementation: log e is moved
against the running mean of (target acceptance - acceptance), and what is handed on is a weighted mean of the log e,
which forgets the first ones. It begins anew halfway, because the first half sees the way from the start to where the
posterior's mass is. The warm-up of a chain does the same, from the step size that the pilot found.

With a diagonal mass the draws of the second and third quarter of the pilot give each coordinate's variance v, shrunk
towards 0.001 of the prior's as in Stan; the scales become sqrt(v), and the last quarter adapts the step to them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.hmc_util import dual_averaging

from inference.target.density import Position

__all__ = ["Adaptation", "Settings", "averaged", "averaging_from", "choose", "collect", "shrunk"]

_FIRST_STEPS = 10  # of the first trajectory: too few are cheap, and the next ones learn from it
_MOST_STEPS = 1_000_000  # of a trajectory: a step size below that is lost

# NumPyro's gamma = 0.05 is for trees that hide a bad step; here it would swing the step by a factor of ten for ever.
_begin_averaging, _average = dual_averaging(gamma=0.3)


class Settings(NamedTuple):
    """What all chains share.

    Attributes:
        scale: of each coordinate, relative to the unit in which lengths are.
        unit: of lengths and step sizes, in unconstrained coordinates: the median of the prior's standard deviations.
        length: of a trajectory.
        step_size: the largest; a trajectory's is what divides its length.
        pilot: whether this is the pilot, all of which adapts.
        seeking: whether the warm-up of a chain adapts the step size; if not, a refused proposal halves the next
            trajectory there.
        warmup: iterations of the warm-up; 0 for the pilot.
        first: the first iteration whose draw counts for the mass.
        restart: the iteration before which the averaging begins anew, with the new mass if there is one.
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
        """Those of the pilot; without one, those of the chains."""
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
        """Those of chains that warm up for so long; a step size that the user has given is not adapted."""
        return self._replace(
            pilot=np.bool_(False),
            seeking=np.bool_(step_size is None),
            warmup=np.int32(warmup),
            restart=np.int32(warmup // 2),
        )

    def adapts(self, iteration: jax.Array) -> jax.Array:
        """Whether an iteration adapts the step size."""
        return self.pilot | (self.seeking & (iteration < self.warmup))

    def found(self, adaptation: Adaptation, step_size: float | None) -> Settings:
        """What the pilot's last adaptation hands on; a step size that the user has given stays."""
        number = type(self.length)
        if step_size is None:
            step_size = float(np.clip(math.exp(adaptation.averaging[1]), self.length / _MOST_STEPS, self.length))
        return self._replace(scale=jax.device_get(adaptation.settings.scale), step_size=number(step_size))


class Adaptation(NamedTuple):
    """What of a chain's state adapts in the pilot and in the warm-up, and stands still after it.

    Attributes:
        settings: as they are now.
        averaging: the state of dual averaging, over log step sizes.
        moments: mean and sum of squared deviations of the draws that count for the mass; None without one.
    """

    settings: Settings
    averaging: Any
    moments: tuple[Position, Position] | None

    @classmethod
    def begin(cls, settings: Settings, position: Position, mass: str) -> Adaptation:
        """Before the first iteration."""
        settings = jax.tree.map(jnp.asarray, settings)
        nothing = jax.tree.map(jnp.zeros_like, position)
        first = jnp.log(settings.step_size)
        centre = first + jnp.where(settings.pilot, math.log(10), 0.0).astype(first.dtype)
        return cls(settings, averaging_from(centre, first), (nothing, nothing) if mass == "diagonal" else None)

    def after(self, iteration: jax.Array, acceptance: jax.Array, position: Position, target: float) -> Adaptation:
        """After an iteration that adapts, which accepted its proposal with this probability and ended here."""
        averaging = averaged(target - acceptance, self.averaging)
        settings, moments = self.settings, self.moments
        again = iteration + 1 == settings.restart
        averaging = choose(again, averaging_from(averaging[1], averaging[1]), averaging)
        if moments is not None:
            count = (iteration + 1 - settings.first).astype(acceptance.dtype)
            counts = (count > 0) & (iteration < settings.restart)
            moments = choose(counts, collect(moments, position, count), moments)
            scale = choose(again & settings.pilot, shrunk(settings, moments, count), settings.scale)
            settings = settings._replace(scale=scale)
        last = ~settings.pilot & (iteration + 1 == settings.warmup)
        step_size = jnp.exp(jnp.where(last, averaging[1], averaging[0]))
        step_size = jnp.clip(step_size, settings.length / _MOST_STEPS, settings.length)
        return Adaptation(settings._replace(step_size=step_size), averaging, moments)


def averaging_from(centre: jax.Array, first: jax.Array) -> Any:
    """Dual averaging that begins at a log step size and is drawn towards a centre."""
    _, mean, slope, count, _ = _begin_averaging(centre)
    return first, mean.astype(first.dtype), slope.astype(first.dtype), count.astype(jnp.int32), centre


def averaged(excess: jax.Array, averaging: Any) -> Any:
    """The state of dual averaging after a step whose acceptance was so much below its target."""
    return _average(excess, averaging)


def collect(moments: tuple[Position, Position], position: Position, count: jax.Array) -> tuple[Position, Position]:
    """Welford's update of the mean and the sum of squared deviations by the `count`-th draw."""
    mean = jax.tree.map(lambda m, u: m + (u - m) / count, moments[0], position)
    squares = jax.tree.map(lambda s, m, n, u: s + (u - m) * (u - n), moments[1], moments[0], mean, position)
    return mean, squares


def shrunk(settings: Any, moments: tuple[Position, Position], count: jax.Array) -> Position:
    """Standard deviations in units of the lengths, with 5 draws' worth of 0.001 of the prior's variance."""
    return jax.tree.map(
        lambda scale, squares: jnp.sqrt(
            (squares / (count - 1) / settings.unit**2 * count + 5e-3 * scale**2) / (count + 5)
        ),
        settings.scale,
        moments[1],
    )


def choose(condition: jax.Array, new: Any, old: Any) -> Any:
    """One of two trees of arrays."""
    return jax.tree.map(lambda n, o: jnp.where(condition, n, o), new, old)
