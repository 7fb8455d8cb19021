"""The numbers in a frozen network, such as the scale of a prior or of the noise, taken out and put back.

Two networks that differ in their numbers alone compute the same operations. Put back as traced values, the numbers are
arguments of one compiled program that serves all such networks, side by side if need be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

__all__ = ["numbers_of", "with_numbers"]


def numbers_of(record: Any) -> tuple[float, ...]:
    """Every float in a frozen record and the records in it, in order."""
    if isinstance(record, float):
        return (record,)
    return tuple(number for part in _parts(record) for number in numbers_of(part))


def with_numbers(record: Any, numbers: Iterable[Any]) -> Any:
    """The record with `numbers` in place of its floats; they may be traced, and are not checked."""
    return _rebuilt(record, iter(numbers))


def _parts(record: Any) -> Iterator[Any]:
    if hasattr(record, "values_of"):  # a lifted network, whose numbers are settings
        return
    if is_dataclass(record) and not isinstance(record, type):
        yield from (getattr(record, item.name) for item in fields(record))
    elif isinstance(record, tuple):
        yield from record


def _rebuilt(record: Any, numbers: Iterator[Any]) -> Any:
    if isinstance(record, float):
        return next(numbers)
    if isinstance(record, tuple):
        return tuple(_rebuilt(part, numbers) for part in record)
    if not is_dataclass(record) or isinstance(record, type) or hasattr(record, "values_of"):
        return record
    copy = object.__new__(type(record))
    for item in fields(record):
        object.__setattr__(copy, item.name, _rebuilt(getattr(record, item.name), numbers))
    return copy
