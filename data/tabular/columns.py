"""What a column of a table is, and how its values become numbers.

A column is found out once, from the table that a posterior is run on (`examined`), and is then a frozen record that
encodes the same column of any other table, or refuses it by name.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any

import numpy as np

__all__ = [
    "FEW_ROWS",
    "MOST_CATEGORIES",
    "MOST_EMBEDDED",
    "Column",
    "Refused",
    "examined",
    "holds_dates",
    "is_missing",
    "is_number",
    "refuse_infinite",
    "refuse_mixtures",
    "refuse_objects",
    "texts",
    "without",
]

MOST_CATEGORIES = 100
"""The most categories that are one input each; also the most classes of a target."""

MOST_EMBEDDED = 1000
"""The most categories of an embedded column."""

FEW_ROWS = 10  # from which on categories, or classes, of which every row has another are refused

MISSING = "(missing)"
"""The category of a value that is not there."""

_SHORT = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_MONTH = rf"{_SHORT}[a-z]*\.?"
_YEAR = r"(19|20)\d\d"
_CLOCK = r"([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?( ?[ap]m)?"
_DATE = re.compile(
    r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}|\d{4}-(0[1-9]|1[0-2])"
    rf"|\d{{1,2}}[. -]+{_MONTH}[ -]+\d{{2,4}}|{_MONTH} +\d{{1,2}},? +\d{{4}}"
    rf"|{_MONTH}[ -]+{_YEAR}|{_SHORT}-\d\d|Q[1-4][ -]?{_YEAR}|{_YEAR}[ -]?Q[1-4])([ T].*)?\s*|\s*{_CLOCK}\s*",
    re.IGNORECASE,
)
_LOOKED_AT = 1000  # rows of text that are looked at to see whether they are dates or numbers
_BESIDE_DIGITS = str.maketrans("", "", ",'$€£¥%\u00a0\u202f ")  # how people write 1,200 and $5 and 12 %
_SHOWN = 3  # values in a message


class Refused(ValueError):
    """A column that can't be used; the message says which one, why, and what to do."""


@dataclass(frozen=True)
class Column:
    """One column of a table's inputs.

    Attributes:
        name: its name in the table.
        kind: "number", "boolean", "category" (an input for each category) or "embedded" (units that are inferred).
        categories: the categories as text, in the order of their codes.
        missing: for a number, whether it is missing in some rows.
        units: for an embedded column, the units of a category.
        location: for a number, the mean of the training rows that have one.
        scale: for a number, their standard deviation; 1 if it is 0.
        low: for a number, the least of the training rows.
        high: for a number, the largest.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    missing: bool = False
    units: int = 0
    location: float = 0.0
    scale: float = 1.0
    low: float | None = None
    high: float | None = None

    def numbers(self, values: Any) -> np.ndarray:
        """The values of a number or a boolean, float64, with NaN where one is missing and may be.

        Raises:
            Refused: if a value is not a number, is infinite, or is missing although none was when the column was
                found out.
        """
        if not (is_number(values) or _is_boolean(values)) and not is_missing(values).all():
            raise Refused(f"column {self.name!r} must hold {_KINDS[self.kind]}, got {_first_in_words(values)}")
        array = np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        refuse_infinite(self.name, values)
        if self.kind == "boolean" and not np.isin(array[~np.isnan(array)], (0.0, 1.0)).all():
            raise Refused(f"column {self.name!r} must hold booleans, got other numbers")
        if not self.missing and np.isnan(array).any():
            raise Refused(
                f"column {self.name!r} has no value in row {int(np.isnan(array).argmax())}, and had one in every row "
                "that the network was trained on; fill it in, or leave the row out"
            )
        return array

    def codes(self, values: Any) -> np.ndarray:
        """The number of each value's category.

        Raises:
            Refused: if a value is in no category.
        """
        known = {category: code for code, category in enumerate(self.categories)}
        names = texts(values)
        if is_number(values) or _is_boolean(values):  # as a file reads whose "01" and "02" have no "2A" beside them
            read = [_as_read(category) for category in self.categories]
            known = {name: code for code, name in enumerate(read) if read.count(name) == 1}
        codes = np.array([known.get(name, -1) for name in names], np.int64)
        if (codes < 0).any():
            row = int((codes < 0).argmax())
            if names[row] == MISSING:
                raise Refused(
                    f"column {self.name!r} has no value in row {row}, and had one in every row of the table that the "
                    "network was trained on; fill it in, or leave the row out"
                )
            few = ", ".join(map(repr, self.categories[:_SHOWN])) + ", ..." * (len(self.categories) > _SHOWN)
            raise Refused(f"column {self.name!r} has {names[row]!r} in row {row}, which is not one of {few}")
        return codes


_KINDS = {"number": "numbers", "boolean": "booleans"}


def examined(name: str, values: Any, embed: bool = False) -> Column:
    """The record of a column, from a pandas series.

    Args:
        name: its name.
        values: the column.
        embed: give its categories units that are inferred, instead of an input each.

    Raises:
        Refused: for dates, for text that is mostly numbers, and for too many categories.
    """
    if holds_dates(values):
        raise Refused(
            f"column {name!r} holds dates or times, such as {_first_text(values)!r}; turn it into numbers that you "
            f"think count, such as the year, the month or days since a day, or {without(name)}"
        )
    if values.dtype.kind == "c":
        raise Refused(f"column {name!r} holds complex numbers; make two columns of them, or {without(name)}")
    missing = bool(is_missing(values).any())
    if _is_boolean(values) and not missing and not embed:
        return Column(name, "boolean")
    if is_number(values) and not embed:
        return Column(name, "number", missing=missing)
    if not embed:
        codes = f"embed it if they are codes (--embed {name!r}, embed=[{name!r}])"
        refuse_mixtures(f"column {name!r}", values, f"{codes}, or {without(name)}")
    categories = tuple(sorted(set(texts(values)), key=lambda text: (text == MISSING, text)))
    most = MOST_EMBEDDED if embed else MOST_CATEGORIES
    if len(categories) > most:
        other = "" if embed else f"embed it (--embed or embed=..., at most {MOST_EMBEDDED:,}), or "
        raise Refused(
            f"column {name!r} has {len(categories):,} different values, such as {categories[0]!r}, and at most "
            f"{most:,} can be inputs; put rare ones together, {other}{without(name)}"
        )
    present = values[~is_missing(values)]
    if not (embed or _is_categorical(values)) and len(present) >= FEW_ROWS and present.nunique() == len(present):
        raise Refused(
            f"column {name!r} has another value in every row, such as {categories[0]!r}, so it names rows and says "
            f"nothing about new ones; turn it into something that rows share, or {without(name)}"
        )
    units = min(8, math.ceil(math.sqrt(len(categories)))) if embed else 0
    return Column(name, "embedded" if embed else "category", categories, units=units)


def without(name: str) -> str:
    """How to leave a column out, by the command and in Python."""
    return f"leave it out (--drop {name!r}, drop=[{name!r}])"


def is_missing(values: Any) -> np.ndarray:
    """Which values of a pandas series are missing."""
    return np.asarray(values.isna())


def is_number(values: Any) -> bool:
    """Whether a pandas series holds real numbers; booleans are not."""
    from pandas.api import types

    return bool(types.is_numeric_dtype(values.dtype) and not types.is_bool_dtype(values.dtype))


def texts(values: Any) -> list[str]:
    """The values as the names of categories; an integer that is stored as a float is written as an integer."""
    if is_number(values):
        return [MISSING if lacks else f"{value:.15g}" for value, lacks in zip(values, is_missing(values), strict=True)]
    return [MISSING if lacks else str(value) for value, lacks in zip(values, is_missing(values), strict=True)]


def _is_boolean(values: Any) -> bool:
    if values.dtype.kind == "b":
        return True
    present = values[~is_missing(values)]
    return values.dtype == object and len(present) > 0 and all(isinstance(value, bool | np.bool_) for value in present)


def _some_texts(values: Any) -> list[str]:
    """Some values that are text; none if the column holds something else."""
    present = [value for value in values[~is_missing(values)].head(_LOOKED_AT)]
    return present if all(isinstance(value, str) for value in present) else []


def _is_categorical(values: Any) -> bool:
    """Whether the user has said that the values are categories, whatever they look like."""
    from pandas import CategoricalDtype

    return isinstance(values.dtype, CategoricalDtype)


def holds_dates(values: Any) -> bool:
    """Whether the values are dates or times, or text that looks like them."""
    from pandas import PeriodDtype

    if values.dtype.kind in "Mm" or isinstance(values.dtype, PeriodDtype):
        return True
    if is_number(values) or _is_categorical(values):
        return False
    some = list(values[~is_missing(values)].head(_LOOKED_AT))
    return bool(some) and (
        all(isinstance(value, date | time | timedelta) for value in some)
        or all(isinstance(value, str) and _DATE.fullmatch(value) is not None for value in some)
    )


def refuse_infinite(name: str, values: Any) -> None:
    """Raise `Refused` if a number of a column is infinite."""
    infinite = np.isinf(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if infinite.any():
        raise Refused(f"column {name!r} is infinite in row {int(infinite.argmax())}")


def refuse_objects(name: str, values: Any) -> None:
    """Raise `Refused` for values such as lists, which are neither numbers nor text; dates are refused elsewhere."""
    if values.dtype != object or holds_dates(values):
        return
    plain = (str, bool, int, float, np.generic)
    odd = next((value for value in values[~is_missing(values)].head(_LOOKED_AT) if not isinstance(value, plain)), None)
    if odd is not None:
        raise Refused(
            f"column {name!r} holds {type(odd).__name__} {str(odd)[:40]!r}, which is neither a number nor text; turn "
            f"it into one of them, or {without(name)}"
        )


def refuse_mixtures(what: str, values: Any, otherwise: str) -> None:
    """Raise `Refused` for text that is mostly numbers, unless the user has said that it is categories.

    The message calls the column `what`, and its advice ends with `otherwise`.
    """
    some = [] if _is_categorical(values) else _some_texts(values)
    no_numbers = [text for text in some if not _is_float(text.translate(_BESIDE_DIGITS))]
    if some and len(no_numbers) < len(some) / 2:
        shown = ", ".join(map(repr, dict.fromkeys(no_numbers[:_SHOWN])))
        written = next((text for text in some if not _is_float(text)), some[0])
        raise Refused(
            f"{what} is mostly numbers, but "
            + (f"holds text too, such as {shown}" if shown else f"they are written as text, such as {written!r}")
            + "; leave such cells empty if they are missing, write numbers with a point before their decimals and "
            f"nothing else between or beside their digits; {otherwise}"
        )


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_read(category: str) -> str:
    """The category that text becomes if all of its column are numbers, or booleans."""
    if category.lower() in ("true", "false"):
        return category.capitalize()
    return f"{float(category):.15g}" if _is_float(category) else category


def _first_in_words(values: Any) -> str:
    text = isinstance(values[~is_missing(values)].iloc[0], str)
    return "the text " * text + repr(_first_text(values))


def _first_text(values: Any) -> str:
    present = values[~is_missing(values)]
    return str(present.iloc[0]) if len(present) else ""
