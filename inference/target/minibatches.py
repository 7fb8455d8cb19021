r"""Minibatches: slices of a random permutation of the rows, which is never stored.

Each place of the permutation is computed when it is asked for. A generalised Feistel network (Black & Rogaway 2002)
permutes range(a b) with a = ceil(sqrt(n)) and b = ceil(n / a): a number x = l b + r is changed, round by round, by

    l <- l + hash(r) mod a,    r <- r + hash(l) mod b

each of which can be undone, so all of them together are a permutation. A result that is not below n goes through again
until it is, which permutes range(n). So a minibatch is a slice of the epoch's permutation, at the cost of the slice
alone: no sort, and nothing to carry from step to step.

Going through again ends after at most a b - n + 1 turns: a permutation of a finite set leads every number back to
itself, and a place is below n. All turns are the same permutation, because the random words in `hash` are integers: the
compiler may compute them twice, but can't round them differently.

Reference: https://doi.org/10.1007/3-540-45760-7_9.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.target.density import Data, Target
from inference.target.plates import Subsampled
from models import Network

__all__ = ["SALTS", "Minibatch", "check_batch", "check_rows", "permuted", "salted"]

_ROUNDS = 6  # each of two halves; the tests look at single places, pairs and neighbours
SALTS = 2 * _ROUNDS
"""How many random words make a permutation."""


def permuted(key: jax.Array, places: jax.Array, rows: int) -> jax.Array:
    """The entries at `places` of a random permutation of range(rows), which `key` determines."""
    return salted(jax.random.bits(key, (SALTS,)), places, rows)


def salted(salts: jax.Array, places: jax.Array, rows: int) -> jax.Array:
    """The entries at `places` of the permutation of range(rows) that `salts`, `SALTS` random words, determine."""
    high = math.isqrt(rows - 1) + 1
    low = -(-rows // high)

    def turn(value: jax.Array) -> jax.Array:
        left, right = value // low, value % low
        for i in range(_ROUNDS):
            left = (left + _hash(right, salts[2 * i]) % high) % high
            right = (right + _hash(left, salts[2 * i + 1]) % low) % low
        return left * low + right

    first = turn(places.astype(jnp.uint32))
    # Ends: see the top of the file.
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


class Minibatch(NamedTuple):
    """The rows that a step sees.

    Attributes:
        rows: the numbers of the rows; None for all rows.
        place: which minibatch of its epoch this is, from 0.
        epoch: how many minibatches an epoch has.
    """

    rows: jax.Array | None
    place: Any
    epoch: int


def check_batch(name: str, batch_size: int | None, target: Target, data: Data) -> None:
    """Raise ValueError if `batch_size` is given for a model that is not a network, or exceeds the number of rows."""
    if batch_size is None:
        return
    if not isinstance(target.model, Network):
        raise ValueError(
            f"{name}: batch_size needs a network of models, whose rows are known; for your own NumPyro model "
            "leave it out"
        )
    check_rows(name, batch_size, target, data)


def check_rows(name: str, batch_size: int | None, target: Target, data: Data) -> None:
    """Raise ValueError if `batch_size` is given for a model without rows to take, or exceeds their number."""
    if batch_size is None:
        return
    if isinstance(target.model, Subsampled) and target.model.inside:
        raise ValueError(
            f"{name}: the site '{target.model.inside[0]}' is inside the plate '{target.model.plate}', so it has a "
            "value per row, which a minibatch can't move; leave batch_size out"
        )
    if not isinstance(target.model, Network | Subsampled):
        raise ValueError(
            f"{name}: batch_size needs a network of models, or a NumPyro model of your own that subsamples a plate and "
            f"takes its rows: with numpyro.plate(name, size, subsample_size={batch_size}) as rows"
        )
    if batch_size > target.rows(data):
        raise ValueError(
            f"{name}: batch_size must be at most the number of rows, {target.rows(data)}, got {batch_size}; None "
            "uses all rows"
        )
