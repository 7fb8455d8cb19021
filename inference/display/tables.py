"""Tables as text: numbers with their standard errors, in columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Table", "aligned", "with_error"]


class Table(NamedTuple):
    """A table as text: its title, the names of its columns, its rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        return "\n".join([*([self.title] if self.title else []), *aligned([self.columns, *self.rows])])


def with_error(mean: float, error: float, sign: bool = False) -> str:
    """A number with its standard error, both rounded to the error's second digit."""
    plus = "+" if sign else ""
    if np.isnan(mean):
        return "nan"
    if not (np.isfinite(error) and error > 0):
        return f"{mean:{plus}.4g}"
    digits = min(max(1 - math.floor(math.log10(error)), 0), 6)
    return f"{mean:{plus}.{digits}f} ± {error:.{digits}f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines of text, the first column aligned to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
        for row in rows
    ]
