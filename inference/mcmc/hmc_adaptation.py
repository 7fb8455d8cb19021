r"""What HMC adapts in the rounds of its pilot and in the warm-up of its chains.

**Step size.** Dual averaging, see `inference.mcmc.dual_averaging`. It restarts halfway through a round or a warm-up,
because the first half sees the way from the start to where the posterior's mass is.

**Moments.** In the second half of a round, each chain sums up the positions and gradients of its draws, from which the
host makes scales when the round is over, see `inference.mcmc.shared_scales`.

**Another warm-up.** A chain whose warm-up ends far from the acceptance that it aims at, because it was still falling
into place or is where the pilot's step is far too long, makes half of its warm-up again, up to three times, before its
first draw; these iterations are not counted.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.mcmc.dual_averaging import Averaging
from inference.mcmc.shared_scales import Moments
from inference.target.trees import choose

__all__ = ["MOST_STEPS", "MULTIPLES", "Adaptation", "Settings"]

MOST_STEPS = 1_000_000
"""The most steps of a trajectory whose step size is adapted: a step size that needs more is lost."""

MULTIPLES = tuple(2.0 ** (i / 2) for i in range(6))
"""The lengths that a round tries in turn, over the length that it began with: from 1 to 5.7."""

_FIRST_STEPS = 10  # of the first trajectory: too few are cheap, and the next trajectories learn from it
_ADAPTING_STEPS = 2000  # per trajectory while the step is sought: enough to see the energy error without a runaway
_PILOT_STEPS = 500  # the same in the pilot, which tries lengths that may be far too long
_FEW_STEPS = 64  # per trajectory while scales are unknown, when a trajectory of the prior's length may have thousands
_FAR = 0.25  # below the acceptance that is aimed at: there the averaging has not arrived
_AGAIN = 3  # times that a chain warms up again


class Settings(NamedTuple):
    """What a round of the pilot, or every chain, begins with.

    Attributes:
        scale: the scale of each coordinate, relative to `unit`; by site on the host, one vector in a chain.
        unit: the unit of lengths and step sizes, in unconstrained coordinates: the median of the prior's standard
            deviations.
        lengths: the lengths of trajectories, which iterations take in turn.
        step_size: the largest step size; a trajectory takes one at most as large, which divides its length.
        most_steps: the largest number of steps of a trajectory while the step size is adapted.
        round: the number of the pilot's round; -1 for chains.
        seeking: whether the warm-up of a chain adapts the step size; if not, a refused proposal in warm-up halves the
            next trajectory.
        warmup: iterations of the warm-up, those made again included; 0 for the pilot.
        restart: the iteration before which the averaging restarts; draws from there on count for the moments.
    """

    scale: Any
    unit: Any
    lengths: Any
    step_size: Any
    most_steps: Any
    round: Any
    seeking: Any
    warmup: Any
    restart: Any

    @classmethod
    def of(cls, scale: Any, unit: float, length: float, step_size: float | None) -> Settings:
        """Settings of no round and no chain yet; `of_round` and `of_chains` complete them."""
        number = next(iter(scale.values())).dtype.type
        return cls(
            scale,
            number(unit),
            np.full(len(MULTIPLES), length, number),
            number(length / _FIRST_STEPS if step_size is None else step_size),
            np.int32(_ADAPTING_STEPS),
            np.int32(-1),
            np.bool_(False),
            np.int32(0),
            np.int32(0),
        )

    def of_round(self, number: int, iterations: int, few: bool = False, tried: bool = False) -> Settings:
        """The settings of a round of the pilot, with `few` steps a trajectory, or with several lengths `tried`."""
        multiples = np.array(MULTIPLES if tried else np.ones(len(MULTIPLES)), self.lengths.dtype)
        return self._replace(
            lengths=self.lengths * multiples,
            most_steps=np.int32(_FEW_STEPS if few else _PILOT_STEPS),
            round=np.int32(number),
            restart=np.int32(iterations // 2),
        )

    def of_chains(self, warmup: int, seeking: bool) -> Settings:
        """The settings of chains with `warmup` iterations of warm-up, which adapt the step size if it is sought."""
        return self._replace(
            most_steps=np.int32(_ADAPTING_STEPS),
            round=np.int32(-1),
            seeking=np.bool_(seeking),
            warmup=np.int32(warmup),
            restart=np.int32(warmup // 2),
        )

    def adapts(self, iteration: jax.Array) -> jax.Array:
        """Whether `iteration` adapts the step size."""
        return (iteration >= 0) & ((self.round >= 0) | (self.seeking & (iteration < self.warmup)))

    def length(self, iteration: jax.Array) -> jax.Array:
        """The length of the trajectory of an iteration."""
        return self.lengths[jnp.maximum(iteration, 0) % len(MULTIPLES)]


class Adaptation(NamedTuple):
    """The part of a chain's state that adapts in the pilot and in the warm-up, and is fixed after it.

    Attributes:
        settings: the settings as adapted so far.
        averaging: the state of dual averaging, over log step sizes.
        acceptance: the sum of the acceptances since the averaging restarted.
        moments: the moments of the draws since then.
        again: how many iterations of the warm-up are still to be made again, which are not counted.
        repeats: how often the warm-up was made again.
    """

    settings: Settings
    averaging: Averaging
    acceptance: jax.Array
    moments: Moments
    again: jax.Array
    repeats: jax.Array

    @classmethod
    def begin(cls, settings: Settings, position: jax.Array) -> Adaptation:
        """The adaptation before the first iteration."""
        settings = jax.tree.map(jnp.asarray, settings)
        first = jnp.log(settings.step_size)
        centre = first + jnp.where(settings.round == 0, math.log(10), 0.0).astype(first.dtype)
        nothing = jnp.int32(0)
        averaging = Averaging.begin(first, centre)
        return cls(settings, averaging, jnp.zeros_like(first), Moments.begin(position), nothing, nothing)

    def after(
        self, iteration: jax.Array, acceptance: jax.Array, position: jax.Array, gradient: jax.Array, target: float
    ) -> Adaptation:
        """The adaptation after an iteration that accepted with probability `acceptance` and ended at `position`."""
        settings = self.settings
        averaging = self.averaging.after(target - acceptance)
        count = iteration + 1 - settings.restart
        counts = count > 0
        draws = jnp.maximum(count, 1).astype(acceptance.dtype)
        moments = choose(counts & (settings.round >= 0), self.moments.after(position, gradient, draws), self.moments)
        total = jnp.where(counts, self.acceptance + acceptance, 0.0)
        last = (settings.round < 0) & (iteration + 1 == settings.warmup)
        failed = last & (total / draws < target - _FAR) & (self.repeats < _AGAIN)
        more = jnp.where(failed, settings.warmup - settings.restart, 0)
        step_size = jnp.exp(jnp.where(last & ~failed, averaging.mean, averaging.log_step))
        shortest, longest = jnp.min(settings.lengths) / MOST_STEPS, jnp.max(settings.lengths)
        settings = settings._replace(
            step_size=jnp.clip(step_size, shortest, longest),
            warmup=settings.warmup + more,
            restart=jnp.where(failed, settings.warmup, settings.restart),
        )
        averaging = choose(failed | (count == 0), averaging.again(), averaging)
        again = jnp.maximum(self.again - 1, 0) + more
        return Adaptation(settings, averaging, jnp.where(failed, 0.0, total), moments, again, self.repeats + failed)
