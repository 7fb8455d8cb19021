"""Seeds and keys: what a user gives, what a file can hold, and the numbers of a run's random streams."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.random import key_impl

__all__ = ["Stream", "as_key", "plain_seed"]


class Stream(IntEnum):
    """The number that is folded into the key of a run, or of one fit, for each purpose that the key serves.

    Chains fold in their own numbers, 0, 1, 2 and so on, so the purposes of a run have numbers that no chain has.
    """

    STARTS = 2**30
    PILOT = 2**30 + 1
    PREDICTIONS = 2**31
    CONCLUSION = 1  # for one of several fits: each has a key of its own, which its steps use without folding


def plain_seed(seed: Any) -> int | tuple[int, ...]:
    """The seed that a user gave, as an integer or the words of a key, which a file can hold."""
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key) and seed.shape == ():
        if key_impl(seed) != "threefry2x32":
            raise ValueError(f"seed must be a key of JAX's default generator, threefry2x32, got {key_impl(seed)}")
        return tuple(np.asarray(jax.random.key_data(seed)).tolist())
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"seed must be an integer or one typed key from jax.random.key, got {type(seed).__name__}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be 0 to 2^32 - 1, or a typed key from jax.random.key, got {seed!r}")
    return int(seed)


def as_key(seed: int | tuple[int, ...]) -> jax.Array:
    """The key of a run, from its plain seed: an integer, or the words of a key."""
    if isinstance(seed, int):
        return jax.random.key(seed)
    return jax.random.wrap_key_data(jnp.array(seed, jnp.uint32))
