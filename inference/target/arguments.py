"""The arguments of a model: which are data of a compiled program, which are part of it; and whether the model changed.

Arrays are arguments of the compiled programs; numbers, strings and None are part of them. If a model needs the values
of an array while it is traced, in `np.unique(group)` or `y[mask]` for instance, its arrays become part of the program.

A user's model is a function that may read globals, closures or attributes, and these may change between two calls. So
a compiled program is looked up not by the function alone, but by a fingerprint of what the function does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Arguments", "fingerprint", "settle"]

_NEEDS_VALUES = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)


class _Constant:
    """An array that is part of a program; compared and hashed by its contents."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value
        self._identity = (value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).digest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Constant) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


@dataclass(frozen=True)
class Arguments:
    """How the arguments of a model are put back together from arrays.

    Attributes:
        structure: the pytree of all arguments.
        leaves: for each leaf either (True, position among the arrays) or (False, the value itself).
    """

    structure: Any
    leaves: tuple[tuple[bool, Any], ...]

    @classmethod
    def split(cls, args: tuple[Any, ...], constant: bool = False) -> tuple[Arguments, tuple[np.ndarray, ...]]:
        """Split arguments into their frozen form and their arrays; `constant` freezes the arrays too."""
        leaves, structure = jax.tree.flatten(args, is_leaf=lambda leaf: leaf is None)
        arrays: list[np.ndarray] = []
        described: list[tuple[bool, Any]] = []
        for leaf in leaves:
            if isinstance(leaf, np.generic):
                leaf = leaf.item()  # treated as the Python number that it equals
            if not hasattr(leaf, "__array__"):
                described.append((False, _hashable(leaf)))
                continue
            array = np.asarray(leaf)
            if array.dtype.kind not in "biufc":
                raise TypeError(
                    f"an argument of the model is a {type(leaf).__name__} of dtype {array.dtype}; encode it as numbers"
                )
            if constant:
                described.append((False, _Constant(array)))
            else:
                described.append((True, len(arrays)))
                arrays.append(array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False))
        return cls(structure, tuple(described)), tuple(arrays)

    def fill(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        """The model's arguments, with `arrays` in their places."""
        leaves = [arrays[leaf] if is_array else leaf for is_array, leaf in self.leaves]
        return jax.tree.unflatten(
            self.structure, [leaf.value if isinstance(leaf, _Constant) else leaf for leaf in leaves]
        )


def settle(
    args: tuple[Any, ...], attempt: Callable[[Arguments, tuple[np.ndarray, ...]], Any]
) -> tuple[Arguments, tuple[np.ndarray, ...], Any]:
    """Split the arguments so that `attempt`, which traces the model, succeeds; also returns what it returned."""
    arguments, arrays = Arguments.split(args)
    try:
        return arguments, arrays, attempt(arguments, arrays)
    except _NEEDS_VALUES:
        arguments, arrays = Arguments.split(args, constant=True)
        return arguments, arrays, attempt(arguments, arrays)


def fingerprint(function: Callable[..., Any], *args: Any) -> str:
    """A hash of what `function` computes on arguments shaped like `args`: of its operations and their constants."""
    traced = jax.make_jaxpr(lambda *args: function(*args))(*args)  # a new lambda: JAX caches traces by the function
    text = traced.jaxpr.pretty_print(use_color=False)  # `str` has colours in a notebook and in a terminal, and else not
    digest = hashlib.sha256(re.sub(r"0x[0-9a-f]+", "", text).encode())  # without addresses in memory
    for constant in traced.consts:
        if isinstance(constant, jax.Array) and jnp.issubdtype(constant.dtype, jax.dtypes.prng_key):
            constant = jax.random.key_data(constant)
        digest.update(np.asarray(constant).tobytes())
    return digest.hexdigest()


def _hashable(leaf: Any) -> Any:
    if not isinstance(leaf, Hashable):
        raise TypeError(
            f"an argument of the model is a {type(leaf).__name__}, which is neither an array nor a plain value; pass "
            "arrays, numbers, strings, None, or lists and dicts of them"
        )
    return leaf
