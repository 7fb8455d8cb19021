"""The records every data set is made of: `Dataset`, `Split` and the `Scaler` between a split and the data's own units.

A `Dataset` holds the data as they came. `Dataset.split` cuts it into a training and a test `Split`, both standardised
by the training part, so that no test row touches a statistic. A `Split` knows its way back: `Split.restore` turns a
prediction in standardised units into one in the data's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped

__all__ = ["Dataset", "Scaler", "Split"]


@runtime_checkable
class _Rescalable(Protocol):
    """What `Split.restore` needs of a prediction."""

    def rescaled(self, location: np.ndarray, scale: np.ndarray) -> Any: ...


_Prediction = TypeVar("_Prediction", bound=_Rescalable)


@dataclass(frozen=True, eq=False)
class Scaler:
    """Location and scale of the inputs and, for regression, of the targets.

    Attributes:
        x_location: the training mean of each input.
        x_scale: the training standard deviation of each input, 1 where an input is constant.
        y_location: the training mean of each target; 0 for labels.
        y_scale: the training standard deviation of each target; 1 for labels.
    """

    x_location: Float[np.ndarray, " d"]
    x_scale: Float[np.ndarray, " d"]
    y_location: Float[np.ndarray, "*k"]
    y_scale: Float[np.ndarray, "*k"]

    @classmethod
    def fit(cls, x: np.ndarray, y: np.ndarray, *, labels: bool) -> Scaler:
        """Measure a training part. Labels are left as they are."""
        x_location, x_scale = _location_and_scale(x)
        if labels:
            return cls(x_location, x_scale, np.zeros(()), np.ones(()))
        return cls(x_location, x_scale, *_location_and_scale(y))


@dataclass(frozen=True, eq=False)
class Split:
    """One part of a data set, standardised by the training part.

    Iterating gives `x` and `y`, so `x, y = split` works, and a split can stand wherever `(x, y)` can.

    Attributes:
        x: inputs, float32, standardised.
        y: targets, float32 and standardised for regression; labels, int32, for classification.
        scaler: how `x` and `y` came from the data's own units.
        name: the data set and the part, such as "diabetes, test".
        classes: the number of classes, None for regression.
    """

    x: Float[np.ndarray, "n ..."]
    y: Shaped[np.ndarray, "n ..."]
    scaler: Scaler
    name: str = "data"
    classes: int | None = None

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.x, self.y))

    def __len__(self) -> int:
        return len(self.x)

    @property
    def y_original(self) -> np.ndarray:
        """The targets in the data's own units (float64); labels as they are."""
        if self.classes is not None:
            return self.y
        return self.y.astype(np.float64) * self.scaler.y_scale + self.scaler.y_location

    def restore(self, prediction: _Prediction) -> _Prediction:
        """The same prediction in the data's own units.

        A density in those units is the standardised one divided by the scale of `y`, so log scores shift by
        minus the log of the scale, summed over outputs. For classification nothing changes.
        """
        if self.classes is not None:
            return prediction
        return prediction.rescaled(self.scaler.y_location, self.scaler.y_scale)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set as it came, in its own units.

    Attributes:
        name: the name `data.load` knows it by.
        x: inputs, one row per example.
        y: targets (n,) or (n, outputs), or integer labels (n,).
        classes: the number of classes, None for regression.
        inputs: names of the input columns, empty if they have none.
        source: where it comes from, in a sentence.
    """

    name: str
    x: Float[np.ndarray, "n ..."]
    y: Shaped[np.ndarray, "targets ..."]
    classes: int | None = None
    inputs: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"x and y need one row per example each, got {len(self.x)} and {len(self.y)} rows")

    def __len__(self) -> int:
        return len(self.x)

    def split(self, seed: int = 0, test: float = 0.1, index: int | None = None) -> tuple[Split, Split]:
        """A random training and test part, standardised by the training part.

        Args:
            seed: of the permutation of the rows.
            test: the fraction of rows in the test part, above 0 and below 1; at least one row goes to each part.
            index: the number of a standard split, for sets that have them (UCI regression).
        """
        if index is not None:
            raise ValueError(f"index picks one of a set's standard splits, but '{self.name}' has none; leave it out")
        if not 0 < test < 1:
            raise ValueError(f"test must be a fraction above 0 and below 1, got {test!r}")
        rows = np.random.default_rng(seed).permutation(len(self))
        size = min(max(round(test * len(self)), 1), len(self) - 1)
        if size < 1:
            raise ValueError(f"'{self.name}' has {len(self)} rows; a split needs at least 2")
        return self._parts(train=rows[size:], test=rows[:size])

    def whole(self) -> Split:
        """All rows as one split, standardised by themselves."""
        return self._parts(train=np.arange(len(self)), test=np.arange(0))[0]

    def _parts(self, train: np.ndarray, test: np.ndarray) -> tuple[Split, Split]:
        scaler = Scaler.fit(self.x[train], self.y[train], labels=self.classes is not None)

        def part(rows: np.ndarray, role: str) -> Split:
            x = ((self.x[rows] - scaler.x_location) / scaler.x_scale).astype(np.float32)
            if self.classes is None:
                y = ((self.y[rows] - scaler.y_location) / scaler.y_scale).astype(np.float32)
            else:
                y = self.y[rows].astype(np.int32)
            return Split(x, y, scaler, f"{self.name}, {role}", self.classes)

        return part(train, "train"), part(test, "test")


def _location_and_scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(values, np.float64)
    scale = values.std(axis=0)
    return np.asarray(values.mean(axis=0)), np.where(scale > 0, scale, 1.0)
