r"""How much of an energy is rounding.

A Metropolis step compares two energies, and noise in them is noise in what is accepted: a float32 number near 10^7
changes in steps of 1. The noise is measured at a chain's position u. Stretching u by a millionth changes the log
density f, and that change is compared with the one that the gradient g predicts:

    | f(u') - f(u) - g . (u' - u) | / sqrt(2),    u' = (1 + 2^-20) u

The next term of the series is of the order 10^-12, so what is left is the rounding of two values of f. A large constant
in f makes these steps coarse without any noise from point to point, so the size of a step is added.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.target.density import Data
from inference.target.vectors import Flattened

__all__ = ["energy_noise", "exact_log_densities", "stretched", "too_noisy"]

_BEARABLE = 0.05  # nats: acceptance changes by 5 % at most
_STRETCH = 2.0**-20


def stretched(position: Any) -> Any:
    """`position` multiplied by 1 + 2^-20."""
    return jax.tree.map(lambda leaf: leaf * (1 + _STRETCH), position)


def energy_noise(position: Any, gradient: Any, value: jax.Array, stretched_value: jax.Array) -> jax.Array:
    """The rounding in a log density: how far `stretched_value` is from what `value` and `gradient` predict."""
    slopes = jax.tree.map(lambda new, old, g: jnp.sum((new - old) * g), stretched(position), position, gradient)
    expected = jnp.sum(jnp.stack(jax.tree.leaves(slopes)))
    with jax.enable_x64(value.dtype.itemsize == 8):  # energies may be float64 beside a float32 gradient
        difference = (stretched_value - value).astype(expected.dtype)
    return jnp.abs(difference - expected) / math.sqrt(2)


def too_noisy(name: str, noise: np.ndarray, log_density: np.ndarray, remedy: str) -> tuple[str, ...]:
    """The concern that a run's energies are rounded too coarsely, by `noise` and `log_density`; empty if not."""
    values = log_density.astype(np.float64)
    narrow = values.astype(np.float32)
    steps = np.spacing(np.abs(narrow if (values == narrow).all() else values).max())  # float64 may hold float32
    size = float(np.sqrt(np.mean(noise.astype(np.float64) ** 2) + steps**2 / 12))  # rounding is even over a step
    if size <= _BEARABLE:
        return ()
    return (
        f"{name}: rounding moves the energies by {size:.2g} nat, above {_BEARABLE}, so acceptance is partly chance, "
        f"and a smaller step does not help; {remedy}",
    )


def exact_log_densities(
    target: Flattened, data: Data, positions: tuple[jax.Array, ...], count: jax.Array
) -> tuple[jax.Array, ...]:
    """The log density in float64 at the first `count` of the `positions`, by one loop that compiles it once."""
    stacked = jnp.stack(positions)

    def evaluate(i: jax.Array, values: jax.Array) -> jax.Array:
        value = target.exact_log_density(stacked[i], data)
        with jax.enable_x64(True):
            return values.at[i].set(value)

    with jax.enable_x64(True):
        nothing = jnp.zeros(len(positions), jnp.float64)
        # Here too: what a loop over several chains does in float64 would be made float32 by `jax.vmap`.
        return tuple(lax.fori_loop(jnp.zeros_like(count), count, evaluate, nothing))
