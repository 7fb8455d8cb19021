"""States of chains as the bytes of their arrays, one after the other; the program, not the file, knows their form."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["packed", "packed_size", "unpacked"]


def packed(trees: list[Any]) -> bytes:
    """The bytes of the arrays in `trees`, one after the other."""
    return b"".join(leaf.tobytes() for tree in trees for leaf in map(_host, jax.tree.leaves(tree)))


def _host(leaf: Any) -> np.ndarray:
    """An array of a state as a NumPy array; a key as its words."""
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _plain(leaf: Any) -> Any:
    """The shape and dtype that `_host` gives to an array of a state."""
    return jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def packed_size(template: Any) -> int:
    """How many bytes a tree of arrays in the form of `template` takes."""
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in map(_plain, jax.tree.leaves(template)))


def unpacked(state: bytes, template: Any, chains: int) -> list[Any]:
    """The `chains` trees of arrays in the form of `template` whose bytes are `state`."""
    leaves, structure = jax.tree.flatten(template)
    shapes = [_plain(leaf) for leaf in leaves]
    trees, place = [], 0
    with jax.enable_x64(True):  # a float32 program may hold float64 numbers
        for _ in range(chains):
            found: list[Any] = []
            for leaf, shape in zip(leaves, shapes, strict=True):
                count = int(np.prod(shape.shape))
                array = np.frombuffer(state, shape.dtype, count, place).reshape(shape.shape)
                place += count * shape.dtype.itemsize
                if isinstance(leaf, np.ndarray):
                    found.append(array.copy())
                else:
                    found.append(jnp.asarray(array) if shape is leaf else jax.random.wrap_key_data(jnp.asarray(array)))
            trees.append(jax.tree.unflatten(structure, found))
    return trees
