r"""Step sizes of stochastic gradient samplers: how they change as a chain runs, and how they are found.

Two quantities of the gradient g with preconditioner G are measured: its noise V, half the mean square of the difference
of two minibatches' gradients, and the largest curvature l, by the power method on G^1/2 H G^1/2 over minibatches. The
step size follows as

    e = min( 0.05 * 2 a T / mean(G V),  0.2 / l )

where the first term keeps the gradient's noise at 5 % of the injected noise, and the second keeps the variance along
the stiffest direction, T / (l (1 - e l / 2)), within 10 %.

A pilot from the first chain's start finds G and a first e. Both quantities may grow by orders of magnitude on the way
from a start to the posterior (V as 1 / s^4 where the noise s of the data is learned), so each chain continues to adapt
its own e through its warm-up. After it all is fixed. From the first draw on, V is measured afresh, to say how noisy the
draws' gradients were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["SCHEDULES", "Cycles", "Settings", "Tuning"]

_NOISE, _CURVATURE = 0.05, 0.2
_MEMORY = 0.02  # a new value's share of a running mean after 100 values; until then the k-th has a weight of k
_FIRST = 20  # measurements before the first step: enough for the power method
_LOOK = 10  # steps between two measurements, which take three gradients each; up to ten times that between two draws
_DAMPED = 0.1  # of the mean root is added, so that a weight with hardly any gradient does not get a huge step
_EXPONENT, _DECAY = -1 / 3, 10.0
_TINY = 1e-30


@dataclass(frozen=True)
class Cycles(Sequence[int]):
    """The iterations whose draws are kept: those after the warm-up of each of several equal cycles.

    Attributes:
        cycles: how many cycles there are.
        warmup: iterations of a cycle whose draws are not kept.
        draws: iterations of a cycle whose draws are kept.
    """

    cycles: int
    warmup: int
    draws: int

    @property
    def length(self) -> int:
        """Iterations per cycle."""
        return self.warmup + self.draws

    def __len__(self) -> int:
        return self.cycles * self.draws

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        cycle, draw = divmod(range(len(self))[place], self.draws)
        return cycle * self.length + self.warmup + draw

    def __contains__(self, iteration: object) -> bool:
        inside = isinstance(iteration, int) and 0 <= iteration < self.cycles * self.length
        return inside and iteration % self.length >= self.warmup  # type: ignore[operator]


class Settings(NamedTuple):
    """The settings of all chains; of a pilot, which is all warm-up; or of one chain, as it has adapted them.

    Attributes:
        step_size: e, at its largest.
        preconditioner: G.
        warmup: steps of a cycle before its draws.
        length: steps of a cycle.
        thin: steps per draw.
        seeking: whether the first warm-up looks for e.
    """

    step_size: Any
    preconditioner: Any
    warmup: Any
    length: Any
    thin: Any
    seeking: Any

    @classmethod
    def of(cls, cycles: Cycles, thin: int, preconditioner: np.ndarray, step_size: float | None) -> Settings:
        """The settings of the chains, with a step size of 0 if it is to be found."""
        first = preconditioner.dtype.type(step_size or 0.0)
        warmup, length = np.int32(cycles.warmup * thin), np.int32(cycles.length * thin)
        return cls(first, preconditioner, warmup, length, np.int32(thin), np.bool_(step_size is None))

    def piloted(self, steps: int) -> Settings:
        """The settings of a pilot of `steps` steps."""
        all_steps = np.int32(steps)
        return self._replace(warmup=all_steps, length=all_steps, thin=np.int32(1), seeking=np.bool_(True))

    def found(self, pilot: Settings, schedule: str) -> Settings:
        """The settings of the chains, with what the `pilot`, by its last settings, has found."""
        step_size = self.step_size
        if self.seeking:
            step_size = type(step_size)(self._largest(pilot.step_size, schedule))
        return self._replace(step_size=step_size, preconditioner=pilot.preconditioner)

    @property
    def pilot(self) -> Any:
        """Whether these are a pilot's settings."""
        return self.warmup == self.length

    def draws(self, step: jax.Array) -> jax.Array:
        """Whether `step` is after its cycle's warm-up."""
        return step % self.length >= self.warmup

    def adapts(self, step: jax.Array) -> Any:
        """Whether `step` is in the warm-up that looks for e."""
        return self.seeking & (step < self.warmup)

    def looks(self, step: jax.Array) -> jax.Array:
        """Whether to measure at `step`: always in a pilot, and now and then while e is sought or draws are made."""
        place = step % self.length
        drawing = self.draws(step)
        every = jnp.where(drawing, jnp.clip(self.thin, _LOOK, 10 * _LOOK), jnp.where(self.pilot, 1, _LOOK))
        return ((place - jnp.where(drawing, self.warmup, 0)) % every == 0) & (drawing | self.adapts(step))

    def adapted(self, tuning: Tuning, step: jax.Array, heat: jax.Array, schedule: str, precondition: bool) -> Settings:
        """Set e in the first warm-up, and G in the first half of a pilot, by what was measured; `heat` is a T.

        The first measurements change nothing: the power method begins in any direction, where the curvature is small.
        """
        known = self.adapts(step) & (tuning.made >= jnp.minimum(_FIRST, self.warmup // 2))
        scale = self.preconditioner
        if precondition:
            scale = jnp.where(known & self.pilot & (2 * step < self.warmup), tuning.inverse_roots(), scale)
        by_noise = _NOISE * 2 * heat / jnp.maximum(tuning.mean_noise(scale), _TINY)
        step_size = jnp.minimum(by_noise, _CURVATURE / jnp.maximum(tuning.curvature, _TINY))
        step_size = jnp.where(self.pilot, step_size, self._largest(step_size, schedule))
        return self._replace(step_size=jnp.where(known, step_size, self.step_size), preconditioner=scale)

    def _largest(self, step_size: Any, schedule: str) -> Any:
        """The peak of e, from which it falls to `step_size` when draws begin; at most where steps are just stable."""
        rate, _ = SCHEDULES[schedule](self, self.warmup)
        return step_size / jnp.maximum(rate, _CURVATURE)


class Tuning(NamedTuple):
    """What was measured of the gradient's noise and curvature.

    Attributes:
        square: mean square of the gradient, by coordinate.
        noise: V, by coordinate.
        direction: the direction of the largest curvature, of norm 1.
        curvature: l, the largest curvature.
        made: how many measurements were made.
    """

    square: jax.Array
    noise: jax.Array
    direction: jax.Array
    curvature: jax.Array
    made: jax.Array

    @classmethod
    def begin(cls, direction: jax.Array) -> Tuning:
        """The state before any measurement, with `direction` as the power method's first."""
        nothing, zero = jnp.zeros_like(direction), jnp.zeros((), direction.dtype)
        return cls(nothing, nothing, direction / jnp.linalg.norm(direction), zero, jnp.int32(0))

    def after(self, gradient: jax.Array, other: jax.Array, turned: jax.Array) -> Tuning:
        """The state after one more measurement: two gradients at a position, and the direction times the Hessian."""
        rate = jnp.maximum(2 / (self.made + 2), _MEMORY).astype(gradient.dtype)
        curvature = jnp.linalg.norm(turned)
        return Tuning(
            self.square + rate * (jnp.square(gradient) - self.square),
            self.noise + rate * (0.5 * jnp.square(gradient - other) - self.noise),
            turned / jnp.maximum(curvature, _TINY),
            self.curvature + rate * (curvature - self.curvature),
            self.made + 1,
        )

    def mean_noise(self, scale: jax.Array) -> jax.Array:
        """The mean of G V."""
        return jnp.mean(scale * self.noise)

    def inverse_roots(self) -> jax.Array:
        """G = 1 / root mean square, with a mean of 1."""
        roots = jnp.sqrt(self.square)
        inverse = 1 / (roots + _DAMPED * jnp.mean(roots) + _TINY)
        return inverse / jnp.mean(inverse)


def _constant(settings: Settings, iteration: Any) -> tuple[Any, Any]:
    return 1.0, True


def _decaying(settings: Settings, iteration: Any) -> tuple[Any, Any]:
    """(1 + 10 t)^(-1/3), t from 0 to 1 after the warm-up."""
    share = jnp.maximum(iteration - settings.warmup, 0) / (settings.length - settings.warmup)
    return (1 + _DECAY * share) ** _EXPONENT, True


def _cyclical(settings: Settings, iteration: Any) -> tuple[Any, Any]:
    """(1 + cos(pi t)) / 2, t from 0 to 1 in each cycle, whose warm-up is without noise."""
    place = iteration % settings.length
    return 0.5 * (1 + jnp.cos(jnp.pi * place / settings.length)), place >= settings.warmup


SCHEDULES: dict[str, Callable[[Settings, Any], tuple[Any, Any]]] = {
    "constant": _constant,
    "decaying": _decaying,
    "cyclical": _cyclical,
}
"""Schedules by name: each gives the share of the step size at an iteration, and whether noise is injected."""
