"""Permutations that are never stored: bijective, and as good as random for what minibatches need."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from inference.target.minibatches import permuted


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 17, 100, 1000])
def test_every_row_has_one_place(rows):
    np.testing.assert_array_equal(np.sort(permuted(jax.random.key(3), jnp.arange(rows), rows)), np.arange(rows))


def test_a_slice_is_that_of_the_whole():
    whole = permuted(jax.random.key(5), jnp.arange(103), 103)
    np.testing.assert_array_equal(permuted(jax.random.key(5), jnp.arange(40, 60), 103), whole[40:60])


@pytest.mark.parametrize("rows", [3, 5, 30])
def test_places_pairs_and_neighbours_are_uniform(rows):
    # Chi-squared tests over 20,000 keys; right code fails one of the nine with probability below 1e-5.
    keys = jax.random.split(jax.random.key(0), 20_000)
    found = np.asarray(jax.vmap(lambda key: permuted(key, jnp.arange(rows), rows))(keys))
    for first, second in [(0, 1), (0, rows - 1), (1, 2)]:
        pairs = np.bincount(found[:, first] * rows + found[:, second], minlength=rows**2).reshape(rows, rows)
        assert (np.diag(pairs) == 0).all()
        assert scipy.stats.chisquare(pairs[~np.eye(rows, dtype=bool)]).pvalue > 1e-6
