"""Checks at the door. Each names the argument, what was expected, what came and, where there is one, the remedy."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np

__all__ = [
    "finite_array",
    "fraction",
    "in_float32",
    "nonnegative_number",
    "one_of",
    "plain_numbers",
    "positive_integer",
    "positive_number",
]


def plain_numbers(record: Any) -> None:
    """Make the numbers among the fields of a frozen record Python's own, so that any file can hold them.

    An integer where a field is a float becomes one: `Normal(1)` is `Normal(1.0)`.
    """
    for item in fields(record):
        value = getattr(record, item.name)
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, int) and not isinstance(value, bool) and str(item.type).startswith("float"):
            value = float(value)
        object.__setattr__(record, item.name, value)


def positive_number(name: str, value: Any) -> None:
    """Require a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating | np.integer):
        raise TypeError(f"{name} must be a number above 0, got {type(value).__name__} {value!r}")
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")


def nonnegative_number(name: str, value: Any) -> None:
    """Require a finite number, 0 or above."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number, 0 or above, got {value!r}")


def fraction(name: str, value: Any) -> None:
    """Require a number above 0 and below 1."""
    positive_number(name, value)
    if value >= 1:
        raise ValueError(f"{name} must be below 1, got {value!r}")


def positive_integer(name: str, value: Any, least: int = 1) -> None:
    """Require an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer of at least {least}, got {type(value).__name__} {value!r}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value!r}")


def one_of(name: str, value: Any, known: Iterable[str]) -> None:
    """Require one of the known words, and suggest the nearest if it is another."""
    known = tuple(known)
    if isinstance(value, str) and value in known:
        return
    near = difflib.get_close_matches(str(value), known, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise ValueError(
        f"{name} must be one of {', '.join(repr(word) for word in known)}, got {value!r}; {hint}".rstrip("; ")
    )


def finite_array(name: str, value: Any) -> np.ndarray:
    """A numeric NumPy array without NaN or infinity; the error names the first bad row and column."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise TypeError(f"{name} must be an array of numbers with rows of equal length: {error}") from error
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must hold real numbers, got dtype {array.dtype}; convert it, for instance with "
            f"np.asarray({name}, dtype=np.float32), after encoding any text or categories as numbers"
        )
    bad = ~np.isfinite(array) if array.dtype.kind == "f" else np.zeros((), bool)
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        rows = int(bad.reshape(len(bad), -1).any(axis=1).sum()) if bad.ndim else 1
        place = "".join(f", {word} {i}" for word, i in zip(("row", "column"), index, strict=False))
        what = "NaN" if np.isnan(array[index]) else "infinity"
        raise ValueError(
            f"{name} must be finite, got {what} at {place[2:] or 'its only value'} ({rows} of "
            f"{len(array) if array.ndim else 1} rows are affected); drop those rows or fill the values in"
        )
    return array


def in_float32(name: str, array: np.ndarray) -> np.ndarray:
    """A finite array as float32; raise if a value is too large for it."""
    if array.size and np.abs(array).max() > np.finfo(np.float32).max:
        raise ValueError(f"{name} has values up to {np.abs(array).max():.3g}, too large for float32; standardise it")
    return array.astype(np.float32)
