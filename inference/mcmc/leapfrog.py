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

from inference.target.density import Data, Position, Target

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

    position: Position
    momentum: Position
    gradient: Position
    position_rounding: Position
    momentum_rounding: Position
    kinetic: jax.Array
    uniform: jax.Array
    step_size: jax.Array
    steps: jax.Array
    left: jax.Array


def launch(
    position: Position,
    gradient: Position,
    momentum: Position,
    scale: Position,
    step_size: jax.Array,
    steps: jax.Array,
    uniform: jax.Array,
) -> Path:
    """Begin a trajectory: p <- p + e/2 s g(u)."""
    nothing = jax.tree.map(jnp.zeros_like, momentum)
    kicked, lost = _kick(momentum, nothing, 0.5 * step_size, scale, gradient)
    return Path(position, kicked, gradient, nothing, lost, kinetic(momentum), uniform, step_size, steps, steps)


def leapfrog(target: Target, data: Data, scale: Position, path: Path) -> Path:
    """u <- u + e s p, then p <- p + e s g(u)."""
    drift = jax.tree.map(lambda s, p: path.step_size * s * p, scale, path.momentum)
    position, position_rounding = _add(path.position, path.position_rounding, drift)
    gradient = jax.grad(target.log_density)(position, data)
    momentum, momentum_rounding = _kick(path.momentum, path.momentum_rounding, path.step_size, scale, gradient)
    return path._replace(
        position=position, momentum=momentum, gradient=gradient, position_rounding=position_rounding,
        momentum_rounding=momentum_rounding, left=path.left - 1,
    )  # fmt: skip


def land(path: Path, scale: Position) -> Position:
    """The momentum at the end of a trajectory: p - e/2 s g(u)."""
    return _kick(path.momentum, path.momentum_rounding, -0.5 * path.step_size, scale, path.gradient)[0]


def _kick(
    momentum: Position, rounding: Position, step_size: jax.Array, scale: Position, gradient: Position
) -> tuple[Position, Position]:
    """p <- p + e s g, and what the sum has lost."""
    return _add(momentum, rounding, jax.tree.map(lambda s, g: step_size * s * g, scale, gradient))


def _add(total: Position, rounding: Position, increment: Position) -> tuple[Position, Position]:
    """Kahan's sum: what the last addition lost is added with the next."""
    increment = jax.tree.map(lambda i, lost: i - lost, increment, rounding)
    added = jax.tree.map(lambda t, i: t + i, total, increment)
    return added, jax.tree.map(lambda a, t, i: (a - t) - i, added, total, increment)


def kinetic(momentum: Position) -> jax.Array:
    """|p|^2 / 2, in float64."""
    with jax.enable_x64(True):
        squares = [jnp.sum(leaf.astype(jnp.float64) ** 2) for leaf in jax.tree.leaves(momentum)]
        return 0.5 * jnp.sum(jnp.stack(squares))
