"""The mushrooms of the bandit: the UCI set where the cache holds it, else made-up ones of the same schema.

The set has 8,124 rows of 22 attributes, each a category, and says whether a mushroom is edible. It is not downloaded:
no checksum of it is published. A cached file `mushroom.npz` holds `x` (8124, 22), the number of each row's category
within its attribute, from 0, and `y` (8124,), 1 where it is poisonous.

The made-up mushrooms have as many rows, attributes and categories. There are 23 species, as many as the original was
made from; each has its class, one to three categories of each attribute, and so many mushrooms. What tells the classes
apart is what does so in the original: nearly all poisonous species smell of something other than almond or anise, and
the one that smells of nothing has a green spore print, which no edible species has.
"""

from __future__ import annotations

import numpy as np

from data.cache import Archive, cache_directory, load_arrays

__all__ = ["CATEGORIES", "ROWS", "in_cache", "made_up", "mushrooms", "one_hot", "poisonous_by_rule"]

CATEGORIES = {
    "cap shape": 6, "cap surface": 4, "cap colour": 10, "bruises": 2, "odour": 9, "gill attachment": 2,
    "gill spacing": 2, "gill size": 2, "gill colour": 12, "stalk shape": 2, "stalk root": 5,
    "stalk surface above ring": 4, "stalk surface below ring": 4, "stalk colour above ring": 9,
    "stalk colour below ring": 9, "veil type": 1, "veil colour": 4, "ring number": 3, "ring type": 5,
    "spore print colour": 9, "population": 6, "habitat": 7,
}  # fmt: skip
"""The attributes, and how many categories of each occur; 117 in all."""

ROWS = 8124

_SPECIES, _POISONOUS = 23, 11
_HARMLESS = (0, 1, 2)  # odours: none, almond, anise
_GREEN = 0  # the spore print
_MOST = 3  # categories of an attribute in one species
_ARCHIVE = Archive(
    "mushroom",
    {"x": "integers (8124, 22), each row's category of each attribute", "y": "integers (8124,), 1 where poisonous"},
    (),
    None,
    "no public list has a SHA-256 of it",
)


def in_cache() -> bool:
    """Whether the cache holds the set."""
    return (cache_directory() / "mushroom.npz").exists()


def mushrooms() -> tuple[np.ndarray, np.ndarray, str]:
    """Categories (n, 22), whether each is poisonous (n,), and in words which mushrooms they are."""
    if not in_cache():
        return *made_up(), "made-up mushrooms of the UCI set's schema, because the cache does not hold the set"
    arrays = load_arrays(_ARCHIVE)
    x, y = arrays["x"], arrays["y"]
    counts = np.array(list(CATEGORIES.values()))
    if x.shape != (ROWS, len(counts)) or y.shape != (ROWS,) or x.dtype.kind not in "iu" or set(np.unique(y)) != {0, 1}:
        raise ValueError(
            f"the cached 'mushroom' must have integers x of shape {(ROWS, len(counts))} and y of shape {(ROWS,)}, 0 or "
            f"1, got {x.dtype} {x.shape} and {y.dtype} {y.shape}"
        )
    if x.min() < 0 or (x.max(axis=0) >= counts).any():
        raise ValueError("the cached 'mushroom' has a category beyond those that occur in an attribute of the set")
    return x.astype(np.int64), y.astype(bool), "the UCI mushrooms"


def made_up(seed: int = 0, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Categories (rows, 22), and whether each mushroom is poisonous, (rows,)."""
    generator = np.random.default_rng(seed)
    names = list(CATEGORIES)
    odour, spores = names.index("odour"), names.index("spore print colour")
    sizes = generator.dirichlet(np.full(_SPECIES, 3.0))
    species = generator.choice(_SPECIES, rows, p=sizes)
    x = np.empty((rows, len(names)), np.int64)
    for kind in range(_SPECIES):
        mine = np.flatnonzero(species == kind)
        deadly = kind < _POISONOUS
        for column, count in enumerate(CATEGORIES.values()):
            allowed = np.arange(count)
            if column == odour:
                bad = np.setdiff1d(allowed, _HARMLESS)
                allowed = np.array(_HARMLESS) if not deadly else np.array([0]) if kind == 0 else bad
            elif column == spores:
                allowed = np.array([_GREEN]) if kind == 0 else np.setdiff1d(allowed, [_GREEN])
            some = generator.choice(allowed, min(len(allowed), int(generator.integers(1, _MOST + 1))), replace=False)
            x[mine, column] = generator.choice(some, len(mine), p=generator.dirichlet(np.ones(len(some))))
    return x, species < _POISONOUS


def poisonous_by_rule(x: np.ndarray) -> np.ndarray:
    """What the rule of odour and spore print says of made-up mushrooms."""
    names = list(CATEGORIES)
    smells = ~np.isin(x[:, names.index("odour")], _HARMLESS)
    return smells | (x[:, names.index("spore print colour")] == _GREEN)


def one_hot(x: np.ndarray) -> np.ndarray:
    """Categories as 117 inputs of 0 and 1, float32."""
    return np.concatenate(
        [np.eye(count, dtype=np.float32)[x[:, column]] for column, count in enumerate(CATEGORIES.values())], axis=1
    )
