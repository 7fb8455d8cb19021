r"""The leapfrog integrator, with sums that are compensated for rounding.

In coordinates scaled by s, with step size e and the gradient g of the log density, one step is

    u <- u + e s p,    p <- p + e s g(u)

A trajectory begins with half a kick of the momentum and ends by taking half a kick back. In float32 a hundred thousand
additions of small increments lose digits; Kahan's sum carries what each addition lost into the next.

References: https://arxiv.org/abs/1206.1901; Kahan 1965, https://doi.org/10.1145/363707.363723.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from inference.target.density import Data
from inference.target.vectors import Flattened

__all__ = ["Path", "kinetic", "land", "launch", "leapfrog"]


class Path(NamedTuple):
    """A trajectory under way; between its first half kick and its last, the momentum is half a step ahead.

    Attributes:
        position: where the trajectory is.
        momentum: its momentum in scaled coordinates.
        gradient: the gradient of the log density at `position`.
        position_rounding: what the position's sums have lost so far.
        momentum_rounding: what the momentum's sums have lost so far.
        kinetic: the kinetic energy that the trajectory started with.
        uniform: a number drawn evenly from 0 to 1; the trajectory's end is accepted if its probability is above it.
        step_size: the integrator's step size.
        steps: how many steps the trajectory has.
        left: how many of its steps are still to be made.
    """

    position: jax.Array
    momentum: jax.Array
    gradient: jax.Array
    position_rounding: jax.Array
    momentum_rounding: jax.Array
    kinetic: jax.Array
    uniform: jax.Array
    step_size: jax.Array
    steps: jax.Array
    left: jax.Array


def launch(
    position: jax.Array,
    gradient: jax.Array,
    momentum: jax.Array,
    scale: jax.Array,
    step_size: jax.Array,
    steps: jax.Array,
    uniform: jax.Array,
) -> Path:
    """Begin a trajectory: p <- p + e/2 s g(u)."""
    nothing = jnp.zeros_like(momentum)
    kicked, lost = _kick(momentum, nothing, 0.5 * step_size, scale, gradient)
    return Path(position, kicked, gradient, nothing, lost, kinetic(momentum), uniform, step_size, steps, steps)


def leapfrog(target: Flattened, data: Data, scale: jax.Array, path: Path) -> Path:
    """u <- u + e s p, then p <- p + e s g(u)."""
    drift = path.step_size * scale * path.momentum
    position, position_rounding = _add(path.position, path.position_rounding, drift)
    gradient = jax.grad(target.log_density)(position, data)
    momentum, momentum_rounding = _kick(path.momentum, path.momentum_rounding, path.step_size, scale, gradient)
    return path._replace(
        position=position, momentum=momentum, gradient=gradient, position_rounding=position_rounding,
        momentum_rounding=momentum_rounding, left=path.left - 1,
    )  # fmt: skip


def land(path: Path, scale: jax.Array) -> jax.Array:
    """The momentum at the end of a trajectory: p - e/2 s g(u)."""
    return _kick(path.momentum, path.momentum_rounding, -0.5 * path.step_size, scale, path.gradient)[0]


def _kick(
    momentum: jax.Array, rounding: jax.Array, step_size: jax.Array, scale: jax.Array, gradient: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """p <- p + e s g, and what the sum has lost."""
    return _add(momentum, rounding, step_size * scale * gradient)


def _add(total: jax.Array, rounding: jax.Array, increment: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Kahan's sum: what the last addition lost is added with the next."""
    increment = increment - rounding
    added = total + increment
    return added, (added - total) - increment


def kinetic(momentum: jax.Array) -> jax.Array:
    """|p|^2 / 2, in float64."""
    with jax.enable_x64(True):
        return 0.5 * jnp.sum(momentum.astype(jnp.float64) ** 2)
