r"""Step sizes of stochastic gradient samplers: how they change as a chain runs, and how a pilot finds them.

A pilot measures two quantities of the gradient g with preconditioner G at every step: its noise V, half the mean square
of the difference of two minibatches' gradients, and the largest curvature l, by the power method on G^1/2 H G^1/2 over
minibatches. The step size follows as

    e = min( 0.05 * 2 a T / mean(G V),  0.2 / l )

where the first keeps the gradient's noise at 5 % of the injected noise, and the second the variance along the stiffest
direction, T / (l (1 - e l / 2)), within 10 %.
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
_MEMORY = 0.02  # of the running means, once they have seen 50 values
_DAMPED = 0.1  # of the mean root: what keeps a weight with hardly any gradient from a step of any size
_EXPONENT, _DECAY = -1 / 3, 10.0
_TINY = 1e-30


@dataclass(frozen=True)
class Cycles(Sequence[int]):
    """The iterations whose draws are kept: those after the warm-up of each of several equal cycles.

    Attributes:
        cycles: how many.
        warmup: iterations of a cycle that are not kept.
        draws: those that are.
    """

    cycles: int
    warmup: int
    draws: int

    @property
    def length(self) -> int:
        """Of a cycle."""
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
    """What all chains share.

    Attributes:
        step_size: e, at its largest.
        preconditioner: G.
        warmup: steps of a cycle before its draws.
        length: steps of a cycle.
        thin: steps of a draw.
        tuning: steps of the pilot that this is; 0 for a chain.
    """

    step_size: Any
    preconditioner: Any
    warmup: Any
    length: Any
    thin: Any
    tuning: Any

    @classmethod
    def of(cls, cycles: Cycles, thin: int, preconditioner: np.ndarray, step_size: float | None) -> Settings:
        """Those of a chain; without a step size, of a pilot that has not begun."""
        first = preconditioner.dtype.type(step_size or 0.0)
        counts = cycles.warmup * thin, cycles.length * thin, thin, 0
        return cls(first, preconditioner, *(np.int32(count) for count in counts))

    def found(self, pilot: Settings, schedule: str, step_size: float | None) -> Settings:
        """The chains', from the pilot's last; where a step size decays, what it is when draws begin is as found."""
        if step_size is None:
            rate, _ = SCHEDULES[schedule](self, self.warmup)
            step_size = float(pilot.step_size) / max(float(rate), _CURVATURE)  # at most where steps are just stable
        return self._replace(step_size=type(self.step_size)(step_size), preconditioner=pilot.preconditioner)

    def adapted(
        self, tuning: Tuning, iteration: jax.Array, heat: jax.Array, precondition: bool
    ) -> tuple[Settings, Tuning]:
        """In a pilot, with what it has measured so far: G in its first half, e always. `heat` is a T."""
        adapting = self.tuning > 0
        scale = self.preconditioner
        if precondition:
            scale = jnp.where(adapting & (2 * iteration < self.tuning), tuning.inverse_roots(), scale)
        tuning = tuning._replace(mean_noise=jnp.mean(scale * tuning.noise))
        by_noise = _NOISE * 2 * heat / jnp.maximum(tuning.mean_noise, _TINY)
        step_size = jnp.minimum(by_noise, _CURVATURE / jnp.maximum(tuning.curvature, _TINY))
        return self._replace(step_size=jnp.where(adapting, step_size, self.step_size), preconditioner=scale), tuning


class Tuning(NamedTuple):
    """What was measured.

    Attributes:
        square: mean square of the gradient, by coordinate.
        noise: V, by coordinate.
        mean_noise: the mean of G V.
        direction: of the largest curvature, of norm 1.
        curvature: the largest.
        made: how many measurements.
    """

    square: jax.Array
    noise: jax.Array
    mean_noise: jax.Array
    direction: jax.Array
    curvature: jax.Array
    made: jax.Array

    @classmethod
    def begin(cls, direction: jax.Array) -> Tuning:
        """Nothing measured yet."""
        nothing, zero = jnp.zeros_like(direction), jnp.zeros((), direction.dtype)
        return cls(nothing, nothing, zero, direction / jnp.linalg.norm(direction), zero, jnp.int32(0))

    def after(
        self, gradient: jax.Array, other: jax.Array, product: Callable[[jax.Array], jax.Array], scale: jax.Array
    ) -> Tuning:
        """With one more measurement: two gradients at one position, and products with the Hessian there."""
        rate = jnp.maximum(1 / (self.made + 1), _MEMORY).astype(gradient.dtype)
        turned = jnp.sqrt(scale) * product(jnp.sqrt(scale) * self.direction)
        curvature = jnp.linalg.norm(turned)
        return Tuning(
            self.square + rate * (jnp.square(gradient) - self.square),
            self.noise + rate * (0.5 * jnp.square(gradient - other) - self.noise),
            self.mean_noise,
            turned / jnp.maximum(curvature, _TINY),
            self.curvature + rate * (curvature - self.curvature),
            self.made + 1,
        )

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
"""By name: the share of the step size at an iteration, and whether noise is injected."""
