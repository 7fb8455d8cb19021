"""Permutations that are never stored: bijective, and as good as random for what minibatches need."""

from __future__ import annotations

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import inference
import models
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


def test_the_compiled_steps_of_an_optimiser_use_every_row_once_an_epoch():
    """The parameters stay where they are, and the loss of a step says which rows it saw: the i-th counts 2^i."""
    rows, batch, epochs = 12, 4, 3
    x, y = np.zeros((rows, 1)), np.sqrt(2.0 ** np.arange(1, rows + 1))
    model = models.linear(models.Normal(1e-3), models.Gaussian(scale=1.0))
    found = inference.run(
        model, x, y, method="map", batch_size=batch, steps=epochs * rows // batch, learning_rate=1e-30,
        progress=False,
    )  # fmt: skip
    unknowns = np.array([found.draws[name].item() for name in ("output.bias", "output.weight")])
    log_prior = scipy.stats.norm(0, 1e-3).logpdf(unknowns).sum()
    terms = scipy.stats.norm(unknowns[0], 1.0).logpdf(y)
    subsets = [set(chosen) for chosen in combinations(range(rows), batch)]
    values = -log_prior - rows / batch * np.array([terms[list(subset)].sum() for subset in subsets])
    away = np.abs(found.curves["loss"][0][:, None] - values)
    assert (away.min(axis=1) < 0.5).all()  # and two subsets differ by 3 at least
    seen = [subsets[i] for i in away.argmin(axis=1)]
    for first in range(0, len(seen), rows // batch):
        assert set.union(*seen[first : first + rows // batch]) == set(range(rows))
    assert len({tuple(map(tuple, seen[first : first + 3])) for first in (0, 3, 6)}) == epochs


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_compiled_steps_of_a_sampler_see_as_many_rows_as_they_should(precision):
    """Every row has a weight of its own, and in the cold a step moves those of its rows alone.

    Rows that are not a slice of one permutation would repeat, or lie beyond the last one.
    """
    rows, batch, draws = 29, 8, 400
    model = models.linear(models.Normal(1e4), models.Gaussian(scale=1.0))
    with pytest.warns(inference.TouchstoneWarning, match="the minibatches' noise"):
        found = inference.run(
            model, np.eye(rows), np.full(rows, 1e3), method="sgld", batch_size=batch, step_size=1e-6, draws=draws,
            thin=1, warmup=0, chains=2, start="random", temperature=1e-12, control_variates=False, precision=precision,
            progress=False,
        )  # fmt: skip
    moved = np.diff(found.draws["output.weight"][..., 0], axis=1) > 1e-4
    assert (moved.sum(axis=2) == batch).all()
    share = moved.mean(axis=(0, 1))
    error = np.sqrt(batch / rows * (1 - batch / rows) / (2 * (draws - 1)))
    assert (np.abs(share - batch / rows) < 5 * error).all()
    assert not np.array_equal(moved[0], moved[1])
