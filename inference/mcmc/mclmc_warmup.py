r"""What a microcanonical chain adapts in its warm-up: step size e, length L and, on request, the scales of coordinates.

**Step size, unadjusted.** The error E of a step has a variance of the order e^6, so x / e^6 with x = E^2 / (d v) does
not depend on e, for d coordinates and the wanted variance per coordinate v (`energy_variance`). The wanted step size is
e = mean(x / e^6)^(-1/6). As in BlackJAX the mean forgets all but the last 150 steps or so, and weighs each by
exp(-(log x / 9)^2 / 2), because the order e^6 holds near the wanted step size; a step whose error is not finite limits
later steps to 0.8 of its size. The errors of a network have heavy tails, which 150 steps may miss and the weights play
down. So, unlike in BlackJAX, the mean of the warm-up's last quarter forgets nothing and weighs all its steps alike.

**Step size, adjusted.** Dual averaging towards `target_acceptance`, as for HMC; see `inference.mcmc.dual_averaging`.

**Length and scales.** The draws of the second and third quarters of the warm-up give each coordinate's variance. With
`mass="diagonal"` the scales s become the square roots of these variances. The length becomes the root of the sum of all
variances in scaled coordinates, the size of the posterior (Robnik et al. 2023), and for the adjusted sampler 1.3 times
that (Robnik et al. 2025). The last quarter adapts the step size to both. In the first quarter the length is the
prior's; in the next two it comes from the draws of the warm-up's second eighth, because a length that is far too long
hardly mixes.

The tuners of both papers then refine the length by autocorrelations; ours do not. For a network of 501 weights the
unadjusted sampler was as fast with twice the length, and a fifth slower with half of it. The adjusted sampler was up to
twice as fast there with half the length or less, but a third as fast on a posterior of 4 unknowns.

References: https://arxiv.org/abs/2212.08549, https://arxiv.org/abs/2503.01707.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.mcmc.dual_averaging import Averaging, collect, shrunk
from inference.target.trees import choose

__all__ = ["Geometry", "Tuning"]

_FIRST = 0.25  # the first step size as a share of the first length: BlackJAX's, and soon corrected
_MEMORY = 150  # steps whose errors count
_TRUST = 9.0  # in logarithms of a squared error: how far from the aim the sixth power is believed
_LEAST_ERROR = 1e-8  # the least x: an error of exactly 0 would ask for an infinite step
_LOWER = 0.8
_WORST_ERROR = 1e30  # the largest x: what float32 can still average
_MOST_STEPS = 1e5  # per length: a step size that needs more is lost
_MOST_AT_FIRST = 1e9  # the same at first, when the length is the prior's, which may be much wider than the posterior
_ADJUSTED_LENGTH = 1.3


class Geometry(NamedTuple):
    """The scales, the length and the step size of a chain, and which of them its warm-up adapts.

    Attributes:
        scale: the scale of each coordinate, relative to `unit`; by site on the host, one vector in a chain.
        unit: the unit of lengths and step sizes, in unconstrained coordinates: the median of the prior's standard
            deviations.
        length: the length over which the direction is forgotten, or the mean length of a trajectory.
        step_size: the integrator's step size.
        find_step_size: whether the warm-up adapts `step_size`.
        find_length: whether the warm-up adapts `length`.
        warmup: how many iterations adapt.
    """

    scale: Any
    unit: Any
    length: Any
    step_size: Any
    find_step_size: Any
    find_length: Any
    warmup: Any

    @classmethod
    def of(cls, scale: Any, unit: float, length: float | None, step_size: float | None, warmup: int) -> Geometry:
        """The geometry that a chain begins with; a `length` or `step_size` of None is found in its warm-up."""
        number = next(iter(scale.values())).dtype.type
        first = unit * math.sqrt(sum(each.size for each in scale.values())) if length is None else length
        return cls(
            scale,
            number(unit),
            number(first),
            number(_FIRST * first if step_size is None else step_size),
            np.bool_(step_size is None),
            np.bool_(length is None),
            np.int32(warmup),
        )


class Tuning(NamedTuple):
    """The part of a chain's state that adapts in its warm-up, and is fixed after it.

    Attributes:
        geometry: the geometry as adapted so far.
        averaging: for an adjusted chain, the state of dual averaging over log step sizes.
        errors: for an unadjusted chain, the weighted sum of x / e^6, the sum of the weights, and the largest step.
        moments: mean and sum of squared deviations of the draws that count for length and scales.
    """

    geometry: Geometry
    averaging: Averaging
    errors: Any
    moments: tuple[jax.Array, jax.Array]

    @classmethod
    def begin(cls, geometry: Geometry, position: jax.Array) -> Tuning:
        """The tuning before the first iteration."""
        geometry = jax.tree.map(jnp.asarray, geometry)
        nothing, first = jnp.zeros_like(position), jnp.log(geometry.step_size)
        zero = jnp.zeros_like(first)
        return cls(geometry, Averaging.begin(first, first), (zero, zero, zero + jnp.inf), (nothing, nothing))

    def adapting(self, iteration: jax.Array) -> jax.Array:
        """Whether `iteration` is in the warm-up."""
        return iteration < self.geometry.warmup

    def after_step(
        self, iteration: jax.Array, ratio: jax.Array, finite: jax.Array, position: jax.Array, find_scales: bool
    ) -> Tuning:
        """The tuning after an unadjusted step in warm-up; `ratio` is its squared energy error over the wanted one."""
        total, weights, largest = self.errors
        step_size = self.geometry.step_size
        ratio = jnp.clip(ratio, _LEAST_ERROR, _WORST_ERROR)
        seeking = self._seeking(iteration)
        weight = jnp.where(finite, jnp.where(seeking, jnp.exp(-0.5 * (jnp.log(ratio) / _TRUST) ** 2), 1.0), 0.0)
        decay = jnp.where(seeking, (_MEMORY - 1) / (_MEMORY + 1), 1.0)
        # In units of the step, whose sixth power may not be a float32 number: total is sum(w x (now / e)^6).
        total, weights = decay * total + jnp.where(finite, weight * ratio, 0.0), decay * weights + weight
        largest = jnp.where(finite, largest, jnp.minimum(largest, _LOWER * step_size))
        wanted = step_size * jnp.where(weights > 0, (total / weights) ** (-1 / 6), 1.0)
        tuning = self._stepping(iteration, jnp.minimum(wanted, largest))
        total = total * (tuning.geometry.step_size / step_size) ** 6
        tuning, again = tuning._shaped(iteration, position, find_scales, 1.0)
        anew = jnp.where(again, 0.0, 1.0)
        return tuning._replace(errors=(anew * total, anew * weights, largest))

    def after_trajectory(
        self, iteration: jax.Array, acceptance: jax.Array, position: jax.Array, find_scales: bool, target: float
    ) -> Tuning:
        """The tuning after an adjusted trajectory in warm-up, which was accepted with probability `acceptance`."""
        averaging = self.averaging.after(target - acceptance)
        last = iteration + 1 == self.geometry.warmup
        tuning = self._stepping(iteration, jnp.exp(jnp.where(last, averaging.mean, averaging.log_step)))
        tuning, again = tuning._shaped(iteration, position, find_scales, _ADJUSTED_LENGTH)
        return tuning._replace(averaging=choose(again, averaging.again(), averaging))

    def _seeking(self, iteration: jax.Array) -> jax.Array:
        """Whether `iteration` is before the warm-up's last quarter, which has the final length and scales."""
        return iteration < 3 * (self.geometry.warmup // 4)

    def _stepping(self, iteration: jax.Array, step_size: jax.Array) -> Tuning:
        """This tuning with `step_size`, kept within bounds, if the step size is to be found."""
        geometry = self.geometry
        most = jnp.where(self._seeking(iteration), _MOST_AT_FIRST, _MOST_STEPS)
        step_size = jnp.clip(step_size, geometry.length / most, geometry.length)
        step_size = jnp.where(geometry.find_step_size, step_size, geometry.step_size)
        return self._replace(geometry=geometry._replace(step_size=step_size))

    def _shaped(
        self, iteration: jax.Array, position: jax.Array, find_scales: bool, factor: float
    ) -> tuple[Tuning, jax.Array]:
        """Count `position` and, at a window's end, set length and scales; also say whether the last window ended."""
        geometry = self.geometry
        quarter = geometry.warmup // 4
        first, last = iteration + 1 == quarter, iteration + 1 == 3 * quarter
        count = iteration + 1 - jnp.where(iteration < quarter, quarter // 2, quarter)
        draws = jnp.maximum(count, 1).astype(geometry.step_size.dtype)
        counts = (count > 0) & (iteration < 3 * quarter)
        moments = choose(counts, collect(self.moments, position, draws), self.moments)
        if find_scales:
            geometry = geometry._replace(scale=choose(last, shrunk(geometry, moments, draws), geometry.scale))
        length = factor * jnp.sqrt(jnp.sum(moments[1] / geometry.scale**2) / jnp.maximum(draws - 1, 1))
        length = jnp.where((first | last) & geometry.find_length & (length > 0), length, geometry.length)
        moments = choose(first, (jnp.zeros_like(position),) * 2, moments)
        return self._replace(geometry=geometry._replace(length=length), moments=moments), last
