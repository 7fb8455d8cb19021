"""States of chains as bytes: those of their arrays one after the other; their form is the program's, not the file's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["packed", "unpacked"]


def packed(trees: list[Any]) -> bytes:
    """The bytes of some trees of arrays."""
    return b"".join(leaf.tobytes() for tree in trees for leaf in map(_host, jax.tree.leaves(tree)))


def _host(leaf: Any) -> np.ndarray:
    """An array of a state as NumPy has it."""
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def unpacked(state: bytes, template: Any, chains: int, folder: Path) -> list[Any]:
    """The trees of arrays whose bytes these are."""
    leaves, structure = jax.tree.flatten(template)
    keys = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    shapes = [
        jax.eval_shape(jax.random.key_data, leaf) if is_key else leaf for leaf, is_key in zip(leaves, keys, strict=True)
    ]
    sizes = [int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in shapes]
    if len(state) != chains * sum(sizes):
        raise ValueError(f"{folder}: the state has {len(state)} bytes where this run's has {chains * sum(sizes)}")
    trees, place = [], 0
    with jax.enable_x64(True):  # a float32 program may hold float64 numbers
        for _ in range(chains):
            found: list[Any] = []
            for leaf, shape, is_key, size in zip(leaves, shapes, keys, sizes, strict=True):
                array = np.frombuffer(state, shape.dtype, size // shape.dtype.itemsize, place).reshape(shape.shape)
                place += size
                if isinstance(leaf, np.ndarray):
                    found.append(array.copy())
                else:
                    found.append(jax.random.wrap_key_data(jnp.asarray(array)) if is_key else jnp.asarray(array))
            trees.append(jax.tree.unflatten(structure, found))
    return trees
