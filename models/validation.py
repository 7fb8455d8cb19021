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
    "in_precision",
    "lost_digits",
    "nonnegative_number",
    "one_of",
    "plain_numbers",
    "positive_integer",
    "positive_number",
]

_ROWS_LOOKED_AT = 10_000  # rows of a column that are searched for lost digits
_LEAST_SPREAD, _LEAST_DISTINCT = 1e-5, 0.9  # as a share of a column's size; as a share of its distinct values


def plain_numbers(record: Any) -> None:
    """Make the numbers among the fields of a frozen record Python's own, so that any file can hold them.

    An integer in a float field becomes a float: `Normal(1)` is `Normal(1.0)`.
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
    """Require one of the words `known`; the error suggests the nearest of them."""
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


def in_precision(name: str, array: np.ndarray, precision: str) -> np.ndarray:
    """`array`, which is finite, in `precision`, float32 or float64; raise if a value is too large for it."""
    if array.size and np.abs(array).max() > np.finfo(precision).max:
        largest = np.abs(array).max()
        raise ValueError(f"{name} has values up to {largest:.3g}, too large for {precision}; standardise it")
    return array.astype(precision)


def lost_digits(name: str, array: np.ndarray) -> str:
    """What `array` loses as float32, in words; an empty string if the loss does not matter.

    The loss of a column matters if its spread is less than 1e-5 of its size, which float32 rounds to a share of 6e-8,
    or if more than a tenth of its distinct values become equal to others.
    """
    if array.dtype.kind not in "fiu" or array.dtype.itemsize <= 4 or array.ndim == 0 or array.size == 0:
        return ""
    columns = array.reshape(len(array), -1).astype(np.float64)
    for column in range(columns.shape[1]):
        values = columns[:_ROWS_LOOKED_AT, column]
        distinct, left = len(np.unique(values)), len(np.unique(values.astype(np.float32)))
        flat = 0 < values.std() < _LEAST_SPREAD * np.abs(values).max()
        if flat or left < _LEAST_DISTINCT * distinct:
            which = f"column {column} of {name}" if array.ndim > 1 else name
            return (
                f"{which} loses digits in float32: of {distinct:,} distinct values {left:,} are left, and its spread "
                f"{values.std():.2g} is small beside its size {np.abs(values).max():.2g}; subtract its mean and divide "
                'by its standard deviation, or use precision="float64"'
            )
    return ""
