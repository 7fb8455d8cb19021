"""The schema of a table: what its columns are, and the way from a table to a network's inputs and back.

A row of inputs has three parts, in this order:

    plain    a number each: standardised numbers, booleans, and 0s and 1s, one for each category
    places   for each number that is missing in some rows: 0 if it is there, i > 0 if it is the i-th unknown of the
             network (`models.for_table`), -1 if it is missing in a row that the network was not trained on
    codes    for each embedded column, the number of the category

A missing number itself is 0, which is its mean, until an unknown takes its place.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from data.tabular.columns import Column, Refused, without

__all__ = ["MISSING_POLICIES", "Schema", "TargetColumn"]

MISSING_POLICIES = ("unknown", "drop", "refuse")
_MOST_UNKNOWNS = 2**20  # places are float32, which counts to 2**24
_SHOWN = 3  # columns in a message
_NAMED = 10  # columns of a kind in a remark
_KINDS = {"number": "numbers", "boolean": "booleans", "category": "categories", "embedded": "embedded categories"}


@dataclass(frozen=True)
class TargetColumn:
    """The column that is predicted.

    Attributes:
        name: its name in the table.
        classes: the classes as text, in the order of their labels; None for a number.
        location: for a number, the mean of the training rows.
        scale: for a number, their standard deviation.
    """

    name: str
    classes: tuple[str, ...] | None = None
    location: float = 0.0
    scale: float = 1.0

    def values(self, column: Any) -> np.ndarray:
        """The targets of a table: numbers, or labels from 0 on.

        Raises:
            Refused: for a value that is missing or infinite, or a class that was never seen.
        """
        if self.classes is not None:
            return Column(self.name, "category", self.classes).codes(column).astype(np.int32)
        return Column(self.name, "number").numbers(column)


@dataclass(frozen=True)
class Schema:
    """What the columns of a table are.

    Attributes:
        columns: the columns that are inputs, in the table's order.
        target: the column that is predicted.
        missing: what is done with missing values: "unknown", "drop" or "refuse".
        unknowns: how many numbers are missing in the training rows.
    """

    columns: tuple[Column, ...]
    target: TargetColumn
    missing: str = "unknown"
    unknowns: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each input of a row."""
        plain = [
            f"{column.name}={category}" if category is not None else column.name
            for column in self.columns
            for category in (column.categories if column.kind == "category" else [None] * (column.kind != "embedded"))
        ]
        return (*plain, *(f"{column.name} (missing)" for column in self.incomplete), *(c.name for c in self.embedded))

    @property
    def in_words(self) -> str:
        """What the columns were taken for, in a sentence."""
        parts = []
        for kind, word in _KINDS.items():
            names = [
                repr(column.name) + f" ({len(column.categories)})" * bool(column.categories)
                for column in self.columns
                if column.kind == kind
            ]
            if names:
                few = ", ".join(names[:_NAMED]) + f" and {len(names) - _NAMED} more" * (len(names) > _NAMED)
                parts.append(f"{word}: {few}")
        return "the inputs are " + "; ".join(parts)

    @property
    def incomplete(self) -> tuple[Column, ...]:
        """The numbers that are missing in some rows."""
        return tuple(column for column in self.columns if column.missing)

    @property
    def embedded(self) -> tuple[Column, ...]:
        """The embedded columns."""
        return tuple(column for column in self.columns if column.kind == "embedded")

    @property
    def plain(self) -> int:
        """How many inputs of a row are plain numbers."""
        return sum(
            len(column.categories) if column.kind == "category" else column.kind != "embedded"
            for column in self.columns
        )

    @property
    def codes(self) -> tuple[int, ...]:
        """Which inputs of a row are places or codes, and so have no size."""
        return tuple(range(self.plain, self.plain + len(self.incomplete) + len(self.embedded)))

    @property
    def incomplete_inputs(self) -> tuple[int, ...]:
        """Which inputs of a row hold the numbers of `incomplete`."""
        return tuple(self._position(column) for column in self.incomplete)

    def _position(self, wanted: Column) -> int:
        before = self.columns[: self.columns.index(wanted)]
        return replace(self, columns=before).plain

    def inputs(self, frame: Any) -> Float[np.ndarray, "n d"]:
        """The inputs of a table's rows, standardised; a missing number has the place -1.

        Raises:
            Refused: if the table does not fit the schema, by the name of the column.
        """
        return self.standardised(self.raw(frame))

    def standardised(self, raw: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Inputs as `raw` gives them with numbers standardised, float32; where one is missing it is 0."""
        locations, scales = self.scaling()
        x = (raw - locations) / scales
        x[:, self.incomplete_inputs] = np.where(x[:, self._places()] == 0, x[:, self.incomplete_inputs], 0.0)
        return x.astype(np.float32)

    def raw(self, frame: Any) -> Float[np.ndarray, "n d"]:
        """The inputs of a table's rows before numbers are standardised, float64; where one is missing it is 0."""
        absent = [column.name for column in self.columns if column.name not in frame.columns]
        if absent:
            few = ", ".join(map(repr, absent[:_SHOWN])) + ", ..." * (len(absent) > _SHOWN)
            raise Refused(f"the table has no column {few}; it has {_listed(frame.columns)}")
        plain, places, codes = [np.zeros((len(frame), 0))], [], []
        for column in self.columns:
            values = frame[column.name]
            if column.kind == "category":
                plain.append(np.eye(len(column.categories))[column.codes(values)])
            elif column.kind == "embedded":
                codes.append(column.codes(values)[:, None])
            else:
                numbers = column.numbers(values)[:, None]
                plain.append(np.nan_to_num(numbers))
                if column.missing:
                    places.append(np.where(np.isnan(numbers), -1.0, 0.0))
        return np.concatenate([*plain, *places, *codes], axis=1)

    def _places(self) -> slice:
        return slice(self.plain, self.plain + len(self.incomplete))

    def scaling(self) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
        """Location and scale of each input of a row: 0 and 1 for all that are not numbers."""
        locations, scales = np.zeros(len(self.names)), np.ones(len(self.names))
        for column in self.columns:
            if column.kind == "number":
                at = self._position(column)
                locations[at], scales[at] = column.location, column.scale
        return locations, scales

    def fitted(self, x: np.ndarray, y: np.ndarray) -> Schema:
        """The schema with the means, scales and ranges of training rows, as `raw` gives them, and of their targets.

        Raises:
            ValueError: if a number is missing in all of these rows, or too many are missing.
        """
        missing = x[:, self._places()] != 0
        unknowns = int(missing.sum())
        if unknowns > _MOST_UNKNOWNS:
            raise ValueError(f"{unknowns:,} numbers are missing, and at most {_MOST_UNKNOWNS:,} can be unknowns")
        lacks = {column.name: missing[:, i] for i, column in enumerate(self.incomplete)}
        columns = []
        for column in self.columns:
            if column.kind == "number":
                values = (
                    x[~lacks[column.name], self._position(column)] if column.missing else x[:, self._position(column)]
                )
                if not len(values):
                    raise Refused(
                        f"column {column.name!r} has no value in any of the training rows; {without(column.name)}"
                    )
                location, scale = _location_and_scale(values)
                low, high = float(values.min()), float(values.max())
                column = replace(column, location=location, scale=scale, low=low, high=high)
            columns.append(column)
        target = self.target
        if target.classes is None:
            location, scale = _location_and_scale(y)
            target = replace(target, location=location, scale=scale)
        return replace(self, columns=tuple(columns), target=target, unknowns=unknowns)

    def numbered(self, x: np.ndarray) -> np.ndarray:
        """Training inputs with their missing numbers counted from 1 on, row by row."""
        x = x.copy()
        places = x[:, self._places()]
        places[places != 0] = np.arange(1, self.unknowns + 1)
        return x

    def outside(self, frame: Any) -> list[str]:
        """For each row the columns in which it is beyond the range of the training rows; empty if there are none."""
        found: list[list[str]] = [[] for _ in range(len(frame))]
        for column in self.columns:
            if column.low is not None and column.high is not None:
                numbers = column.numbers(frame[column.name])
                for row in np.flatnonzero((numbers < column.low) | (numbers > column.high)):
                    found[row].append(column.name)
        return ["; ".join(names) for names in found]

    def to_json(self) -> dict[str, Any]:
        """The schema as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Schema:
        """The schema that `to_json` wrote.

        Raises:
            ValueError: if it did not write `values`.
        """
        try:
            columns = tuple(_column(column) for column in values["columns"])
            described = values["target"]
            target = TargetColumn(
                str(described["name"]),
                None if described["classes"] is None else tuple(map(str, described["classes"])),
                _finite(described["location"]),
                _finite(described["scale"]),
            )
            if values["missing"] not in MISSING_POLICIES or not 0 <= int(values["unknowns"]) <= _MOST_UNKNOWNS:
                raise ValueError("it has an impossible value")
            return cls(columns, target, values["missing"], int(values["unknowns"]))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"the schema of the table can't be read, or it is damaged: {error}") from error


def _column(values: dict[str, Any]) -> Column:
    if values["kind"] not in ("number", "boolean", "category", "embedded"):
        raise ValueError(f"a column is of kind {values['kind']!r}")
    return Column(
        str(values["name"]),
        values["kind"],
        tuple(map(str, values["categories"])),
        bool(values["missing"]),
        int(values["units"]),
        _finite(values["location"]),
        _finite(values["scale"]),
        *(None if values[end] is None else _finite(values[end]) for end in ("low", "high")),
    )


def _finite(value: Any) -> float:
    if not math.isfinite(float(value)):
        raise ValueError("a number is not finite")
    return float(value)


def _location_and_scale(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation; a constant has scale 1, whatever rounding makes of its deviation."""
    if values.max() == values.min():
        return float(values[0]), 1.0
    return float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64))


def _listed(names: Any) -> str:
    few = [repr(str(name)) for name in names]
    return ", ".join(few[:10]) + f" and {len(few) - 10} more" * (len(few) > 10)
