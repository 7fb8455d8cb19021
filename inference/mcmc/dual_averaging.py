r"""What a warm-up computes: step sizes by dual averaging, and the variances of its draws.

Dual averaging (Nesterov 2009; Hoffman & Gelman 2014, section 3.2) moves the log step size x against g, the
mean excess of the target acceptance over the acceptance, and averages x. With t the number of iterations so far:

    g <- (1 - 1 / (t + 10)) g + (target - acceptance) / (t + 10)
    x <- centre - sqrt(t) g / 0.3
    mean <- (1 - t^-3/4) mean + t^-3/4 x

The 0.3 is Hoffman & Gelman's gamma. They set it to 0.05 for trees that hide a bad step; with trajectories of fixed
length, 0.05 makes the step size swing by a factor of ten for ever.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

__all__ = ["Averaging", "collect", "shrunk"]

_GAMMA, _DELAY, _FORGETTING = 0.3, 10, 0.75


class Averaging(NamedTuple):
    """The state of dual averaging.

    Attributes:
        log_step: x, the log step size of the next iteration.
        mean: the weighted mean of the log step sizes; its exponential is the step size after the adaptation.
        excess: g, the mean excess of the target over the acceptance.
        iterations: t, the number of iterations so far.
        centre: the log step size that x is drawn towards.
    """

    log_step: jax.Array
    mean: jax.Array
    excess: jax.Array
    iterations: jax.Array
    centre: jax.Array

    @classmethod
    def begin(cls, first: jax.Array, centre: jax.Array) -> Averaging:
        """The state before the first iteration, whose log step size is `first`."""
        nothing = jnp.zeros((), first.dtype)
        return cls(first, nothing, nothing, jnp.int32(0), centre)

    def after(self, excess: jax.Array) -> Averaging:
        """The state after an iteration whose acceptance was below its target by `excess`."""
        count = self.iterations + 1
        mean_excess = (1 - 1 / (count + _DELAY)) * self.excess + excess / (count + _DELAY)
        log_step = self.centre - (count**0.5) / _GAMMA * mean_excess
        weight = count ** (-_FORGETTING)
        return Averaging(log_step, (1 - weight) * self.mean + weight * log_step, mean_excess, count, self.centre)

    def again(self) -> Averaging:
        """A state that starts over, from the mean of the log step sizes so far."""
        return Averaging.begin(self.mean, self.mean)


def collect(moments: tuple[jax.Array, jax.Array], position: jax.Array, count: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Welford's update of `moments`, the mean and the sum of squared deviations, by the `count`-th draw."""
    before, squares = moments
    mean = before + (position - before) / count
    return mean, squares + (position - before) * (position - mean)


def shrunk(settings: Any, moments: tuple[jax.Array, jax.Array], count: jax.Array) -> jax.Array:
    """Standard deviations in units of `settings.unit`, as if 5 more draws had 0.001 of the prior's variance."""
    variance = moments[1] / (count - 1) / settings.unit**2
    return jnp.sqrt((variance * count + 5e-3 * settings.scale**2) / (count + 5))
