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

from inference.target import Position, standard_normal

__all__ = ["SCHEDULES", "Cycles", "Settings", "Tuning"]

_NOISE, _CURVATURE = 0.05, 0.2
_MEMORY = 0.02  # of the running means, once they have seen 50 values
_DAMPED = 0.1  # of the mean root: what keeps a weight with hardly any gradient from a step of any size
_EXPONENT, _DECAY = -1 / 3, 10.0


@dataclass(frozen=True)
class Cycles(Sequence[int]):
    """The iterations whose draws are kept: every `thin`-th after the `warmup` of each of equal cycles.

    Attributes:
        cycles: how many.
        warmup: of a cycle.
        draws: kept of a cycle.
        thin: iterations per draw.
    """

    cycles: int
    warmup: int
    draws: int
    thin: int

    @property
    def length(self) -> int:
        """Of a cycle, in iterations."""
        return self.warmup + self.draws * self.thin

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
        return cycle * self.length + self.warmup + (draw + 1) * self.thin - 1

    def __contains__(self, iteration: object) -> bool:
        if not isinstance(iteration, int) or not 0 <= iteration < self.cycles * self.length:
            return False
        after = iteration % self.length - self.warmup + 1
        return after > 0 and after % self.thin == 0


class Settings(NamedTuple):
    """What all chains share.

    Attributes:
        step_size: e, at its largest.
        preconditioner: G.
        warmup: iterations of a cycle before its draws.
        length: of a cycle.
        tuning: steps of the pilot that this is; 0 for a chain.
    """

    step_size: Any
    preconditioner: Position
    warmup: Any
    length: Any
    tuning: Any

    @classmethod
    def of(cls, cycles: Cycles, preconditioner: Any, step_size: float | None) -> Settings:
        """Those of a chain; without a step size, of a pilot that has not begun."""
        number = next(iter(preconditioner.values())).dtype.type
        return cls(
            number(step_size or 0.0), preconditioner, np.int32(cycles.warmup), np.int32(cycles.length), np.int32(0)
        )

    def found(self, pilot: Settings, schedule: str, step_size: float | None) -> Settings:
        """The chains', from the pilot's last; where a step size decays, what it is when draws begin is as found."""
        if step_size is None:
            chain = self._replace(tuning=np.int32(0))
            rate, _ = SCHEDULES[schedule](chain, self.warmup)
            step_size = float(pilot.step_size) / max(float(rate), _CURVATURE)  # at most where steps are just stable
        return self._replace(
            step_size=type(self.step_size)(step_size), preconditioner=pilot.preconditioner, tuning=np.int32(0)
        )

    def adapted(self, tuning: Tuning, iteration: jax.Array, heat: jax.Array, precondition: bool) -> Settings:
        """In a pilot, with what it has measured so far: G in its first half, e always. `heat` is a T."""
        adapting = self.tuning > 0
        scale = self.preconditioner
        if precondition:
            changes = adapting & (2 * iteration < self.tuning)
            scale = jax.tree.map(lambda new, old: jnp.where(changes, new, old), tuning.roots(), scale)
        by_noise = _NOISE * 2 * heat / jnp.maximum(tuning.mean_noise(scale), 1e-30)
        step_size = jnp.minimum(by_noise, _CURVATURE / jnp.maximum(tuning.curvature, 1e-30))
        return self._replace(step_size=jnp.where(adapting, step_size, self.step_size), preconditioner=scale)


class Tuning(NamedTuple):
    """What was measured.

    Attributes:
        square: mean square of the gradient, by coordinate.
        noise: V, by coordinate.
        direction: of the largest curvature, of norm 1.
        curvature: the largest.
        made: how many measurements.
    """

    square: Position
    noise: Position
    direction: Position
    curvature: jax.Array
    made: jax.Array

    @classmethod
    def begin(cls, position: Position, key: jax.Array) -> Tuning:
        """Nothing measured yet."""
        nothing = jax.tree.map(jnp.zeros_like, position)
        direction = _normalised(standard_normal(key, position))[0]
        return cls(nothing, nothing, direction, jnp.zeros((), next(iter(position.values())).dtype), jnp.int32(0))

    def after(
        self, gradient: Position, other: Position, product: Callable[[Position], Position], scale: Position
    ) -> Tuning:
        """With one more measurement: two gradients at one position, and products with the Hessian there."""
        rate = jnp.maximum(1 / (self.made + 1), _MEMORY).astype(self.curvature.dtype)
        roots = jax.tree.map(jnp.sqrt, scale)
        turned = product(jax.tree.map(jnp.multiply, roots, self.direction))
        direction, curvature = _normalised(jax.tree.map(jnp.multiply, roots, turned))
        return Tuning(
            jax.tree.map(lambda old, g: old + rate * (jnp.square(g) - old), self.square, gradient),
            jax.tree.map(lambda old, g, o: old + rate * (0.5 * jnp.square(g - o) - old), self.noise, gradient, other),
            direction,
            self.curvature + rate * (curvature - self.curvature),
            self.made + 1,
        )

    def mean_noise(self, scale: Position) -> jax.Array:
        """The mean of G V."""
        total = sum((jnp.vdot(scale[name], noise) for name, noise in self.noise.items()), start=jnp.zeros(()))
        return total / sum(noise.size for noise in self.noise.values())

    def roots(self) -> Position:
        """G = 1 / root mean square, with a mean of 1."""
        roots = jax.tree.map(jnp.sqrt, self.square)
        size = sum(root.size for root in roots.values())
        least = _DAMPED * sum(jnp.sum(root) for root in roots.values()) / size
        inverse = jax.tree.map(lambda root: 1 / (root + least + 1e-30), roots)
        mean = sum(jnp.sum(each) for each in inverse.values()) / size
        return jax.tree.map(lambda each: each / mean, inverse)


def _normalised(vector: Position) -> tuple[Position, jax.Array]:
    norm = jnp.sqrt(sum((jnp.sum(jnp.square(leaf)) for leaf in vector.values()), start=jnp.zeros(())))
    return jax.tree.map(lambda leaf: leaf / jnp.maximum(norm, 1e-30), vector), norm


def _constant(settings: Settings, iteration: Any) -> tuple[Any, Any]:
    return 1.0, 1.0


def _decaying(settings: Settings, iteration: Any) -> tuple[Any, Any]:
    """(1 + 10 t)^(-1/3), t from 0 to 1 after the warm-up."""
    share = jnp.maximum(iteration - settings.warmup, 0) / (settings.length - settings.warmup)
    return (1 + _DECAY * share) ** _EXPONENT, 1.0


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
