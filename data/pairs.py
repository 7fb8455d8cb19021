"""Inputs and targets in the forms that users have them: a `Split`, or a tuple or list of two arrays, x and y.

Where inputs alone are wanted, a list is a list of rows, and a pair is a `Split` or a tuple.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from data.datasets import Split

__all__ = ["as_pair", "inputs_of", "is_pair", "targets_of"]


def is_pair(given: Any) -> bool:
    """Whether `given` is inputs with their targets: a `Split`, or a tuple or list of two arrays."""
    if isinstance(given, Split):
        return True
    return isinstance(given, tuple | list) and len(given) == 2 and all(np.ndim(part) > 0 for part in given)


def as_pair(what: str, given: Any) -> tuple[Any, Any]:
    """The inputs and targets of a `Split`, or of a tuple or list of two arrays, as they are.

    Args:
        what: the name of the function that needs them, for the message.
        given: what the user passed.

    Raises:
        TypeError: if `given` is anything else.
    """
    if not is_pair(given):
        raise TypeError(f"{what} needs inputs and targets: a Split, or a pair (x, y), got {type(given).__name__}")
    if isinstance(given, Split):
        return given.x, given.y
    x, y = given
    return x, y


def inputs_of(given: Any) -> Any:
    """The inputs of a `Split` or of a tuple (x, y); anything else is taken for the inputs themselves."""
    if isinstance(given, Split):
        return given.x
    return given[0] if isinstance(given, tuple) and len(given) == 2 else given


def targets_of(given: Any) -> Any:
    """The targets of a `Split` or of a pair (x, y); anything else is taken for the targets themselves."""
    return as_pair("", given)[1] if is_pair(given) else given
