r"""A random permutation of the rows that is never stored: each of its places is computed when it is asked for.

A generalised Feistel network (Black & Rogaway 2002) permutes range(a b) with a = ceil(sqrt(n)) and b = ceil(n / a): a
number x = l b + r is turned, round by round, by

    l <- l + hash(r) mod a,    r <- r + hash(l) mod b

each of which can be undone, so all of them together are a permutation. A result that is not below n goes through again
until it is, which permutes range(n). A minibatch is so a slice of the epoch's permutation, at the cost of the slice
alone: no sort, and nothing to carry from step to step.

Reference: https://doi.org/10.1007/3-540-45760-7_9.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["SALTS", "permuted", "salted"]

_ROUNDS = 6  # of two halves each; test_shuffling looks at single places, pairs and neighbours
SALTS = 2 * _ROUNDS
"""How many random words make a permutation."""


def permuted(key: jax.Array, places: jax.Array, rows: int) -> jax.Array:
    """What a random permutation of range(rows), one for each key, has at these places."""
    return salted(jax.random.bits(key, (SALTS,)), places, rows)


def salted(salts: jax.Array, places: jax.Array, rows: int) -> jax.Array:
    """The same for `SALTS` random words in place of a key."""
    high = math.isqrt(rows - 1) + 1
    low = -(-rows // high)

    def turn(value: jax.Array) -> jax.Array:
        left, right = value // low, value % low
        for i in range(_ROUNDS):
            left = (left + _hash(right, salts[2 * i]) % high) % high
            right = (right + _hash(left, salts[2 * i + 1]) % low) % low
        return left * low + right

    first = turn(places.astype(jnp.uint32))
    inside = lax.while_loop(
        lambda value: jnp.any(value >= rows), lambda value: jnp.where(value >= rows, turn(value), value), first
    )
    return inside.astype(jnp.int32)


def _hash(value: jax.Array, salt: jax.Array) -> jax.Array:
    """The finaliser of MurmurHash3: every bit of the input changes every bit of the output."""
    value = value ^ salt
    value = (value ^ (value >> 16)) * jnp.uint32(0x85EBCA6B)
    value = (value ^ (value >> 13)) * jnp.uint32(0xC2B2AE35)
    return value ^ (value >> 16)
