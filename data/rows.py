"""Which rows to take where all of them would be too many."""

from __future__ import annotations

import numpy as np

__all__ = ["spaced"]


def spaced(available: int, count: int) -> np.ndarray:
    """The numbers of `count` rows, evenly spaced from the first to the last of `available`; all if there are fewer."""
    return np.linspace(0, available - 1, min(count, available)).round().astype(int)
