"""The records every data set is made of: `Dataset`, `Split` and the `Scaler` between a split and the data's own units.

A `Dataset` holds the data as they came. `Dataset.split` cuts it into a training and a test `Split`, both standardised
by the training part, so that no test row touches a statistic. A `Split` knows its way back: `Split.restore` turns a
prediction in standardised units into one in the data's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped

from data.origins import Origin

__all__ = ["Dataset", "Scaler", "Split", "official_split"]


@runtime_checkable
class _Rescalable(Protocol):
    """What `Split.restore` needs of a prediction."""

    def rescaled(self, location: np.ndarray, scale: np.ndarray) -> Any: ...


_Prediction = TypeVar("_Prediction", bound=_Rescalable)


@dataclass(frozen=True, eq=False)
class Scaler:
    """Location and scale of the inputs and, for regression, of the targets.

    Attributes:
        x_location: the training mean of each input, or of each channel of images.
        x_scale: the training standard deviation of each input or channel; 1 where it is constant.
        y_location: the training mean of each target; 0 for labels.
        y_scale: the training standard deviation of each target; 1 for labels.
    """

    x_location: Float[np.ndarray, "..."]
    x_scale: Float[np.ndarray, "..."]
    y_location: Float[np.ndarray, "*k"]
    y_scale: Float[np.ndarray, "*k"]

    @classmethod
    def fit(cls, x: np.ndarray, y: np.ndarray, *, labels: bool, scaling: str = "column") -> Scaler:
        """Measure a training part; labels, and inputs with scaling "none", get location 0 and scale 1."""
        if scaling == "none":
            inputs = np.zeros(()), np.ones(())
        elif scaling == "channel":
            inputs = _location_and_scale(x.reshape(-1, x.shape[3]) if x.ndim == 4 else x.reshape(-1))
        else:
            inputs = _location_and_scale(x)
        return cls(*inputs, *((np.zeros(()), np.ones(())) if labels else _location_and_scale(y)))

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Standardised inputs, float32; codes such as word numbers, which have no scale, as int32."""
        if x.dtype.kind in "iu" and self.x_scale.ndim == 0 and self.x_scale == 1 and self.x_location == 0:
            return x.astype(np.int32)
        if x.dtype == np.uint8:  # images: float32 holds 8 bits exactly, and float64 would take twice the memory
            return (x - self.x_location.astype(np.float32)) / self.x_scale.astype(np.float32)
        return ((x - self.x_location) / self.x_scale).astype(np.float32)


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """One part of a data set, standardised by the training part.

    Iterating gives `x` and `y`, so `x, y = split` works, and a split can stand wherever `(x, y)` can.

    Attributes:
        x: inputs, float32, standardised; word numbers int32.
        y: targets, float32 and standardised for regression; labels, int32, for classification.
        scaler: how `x` and `y` came from the data's own units.
        name: the data set and the part, such as "diabetes, test".
        classes: the number of classes, None for regression.
        picture: the shape of a row as an image, (height, width) or (height, width, channels); None if it is not one.
        origin: where the split came from, so that it can be made again; None if that is not known.
        rows: which rows of the data set these are; None if that is not known.
    """

    x: Shaped[np.ndarray, "n ..."]
    y: Shaped[np.ndarray, "n ..."]
    scaler: Scaler
    name: str = "data"
    classes: int | None = None
    picture: tuple[int, ...] | None = None
    origin: Origin | None = None
    rows: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"<Split '{self.name}': {_in_words(self)}>"

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

    def pictures(self, rows: Any) -> np.ndarray:
        """The rows that `rows` selects, as images in the data's own units."""
        if self.picture is None:
            raise ValueError(f"the rows of '{self.name}' are not images")
        location, scale = self.scaler.x_location, self.scaler.x_scale
        by_column = scale.shape == (int(np.prod(self.picture)),)
        inputs = self.x[rows].reshape(-1, *(scale.shape if by_column else self.picture)) * scale + location
        return inputs.reshape(-1, *self.picture)

    def flat(self) -> Split:
        """The same split with each row's inputs flattened, as `models.mlp` takes images."""
        return replace(self, x=self.x.reshape(len(self), -1))

    def restore(self, prediction: _Prediction) -> _Prediction:
        """The same prediction in the data's own units.

        A density in those units is the standardised density divided by the scale of `y`, so log scores shift by
        minus the log of the scale, summed over outputs. For classification nothing changes.
        """
        if self.classes is not None:
            if hasattr(prediction, "cdf"):
                raise ValueError(f"'{self.name}' has labels, so it can't restore the prediction of a regression")
            return prediction
        return prediction.rescaled(self.scaler.y_location, self.scaler.y_scale)


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set as it came, in its own units.

    Attributes:
        name: the name `data.load` knows it by.
        x: inputs, one row per example.
        y: targets (n,) or (n, outputs), or integer labels (n,).
        classes: the number of classes, None for regression.
        inputs: names of the input columns, empty if they have none.
        source: where the set comes from, in a sentence.
        standard: maps the number of a standard split to its training and test rows; None if the set has no such split.
        standard_splits: the number of standard splits. A set with exactly one has an official test part.
        scaling: how inputs are standardised: "column" each on its own, "channel" images by channel, "none" not at all.
        extras: further arrays that came with the set, such as the grids of a published protocol.
        picture: the shape of a row as an image, if it is one; by default the shape of a row of `x` if `x` has 3 or 4
            dimensions.
        origin: where the set came from; `data.load` and `data.table` know.
    """

    name: str
    x: Shaped[np.ndarray, "n ..."]
    y: Shaped[np.ndarray, "targets ..."]
    classes: int | None = None
    inputs: tuple[str, ...] = ()
    source: str = ""
    standard: Callable[[int], tuple[np.ndarray, np.ndarray]] | None = None
    standard_splits: int = 0
    scaling: Literal["column", "channel", "none"] = "column"
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)
    picture: tuple[int, ...] | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        for name in ("x", "y"):
            values = np.asarray(getattr(self, name))
            object.__setattr__(self, name, values)
            if values.dtype.kind not in "biuf":
                raise TypeError(f"'{self.name}': {name} must hold real numbers, got dtype {values.dtype}")
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                row = int(np.argwhere(~np.isfinite(values))[0][0])
                raise ValueError(f"'{self.name}': {name} must be finite, row {row} is not; drop it or fill it in")
        if self.picture is None and self.x.ndim in (3, 4):
            object.__setattr__(self, "picture", self.x.shape[1:])
        if len(self.x) != len(self.y):
            raise ValueError(f"x and y need one row per example each, got {len(self.x)} and {len(self.y)} rows")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} '{self.name}': {_in_words(self)}>"

    def __len__(self) -> int:
        return len(self.x)

    def split(self, seed: int = 0, test: float | None = None, index: int | None = None) -> tuple[Split, Split]:
        """A training and a test part, standardised by the training part.

        Args:
            seed: the seed of the permutation of the rows, for a random split.
            test: the fraction of rows in the test part of a random split, above 0 and below 1; at least one row goes to
                each part. By default a set with an official test part is split there, and others at 0.1.
            index: the number of a standard split, for sets that have them: 0 to 19 for UCI regression.
        """
        if index is None and test is None and self.standard_splits == 1:
            index = 0
        if index is not None:
            if test is not None:
                raise ValueError("index picks a standard split, which has its own test part; leave test out")
            return self._standard(index)
        fraction = 0.1 if test is None else test
        if not 0 < fraction < 1:
            raise ValueError(f"test must be a fraction above 0 and below 1, got {test!r}")
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ValueError(f"the seed of a split must be an integer of 0 or above, got {seed!r}")
        if len(self) < 2:
            raise ValueError(f"'{self.name}' has {len(self)} rows; a split needs at least 2")
        rows = np.random.default_rng(seed).permutation(len(self))
        size = min(max(round(fraction * len(self)), 1), len(self) - 1)
        return self._parts(rows[size:], rows[:size], {"seed": int(seed), "test": test})

    def _standard(self, index: int) -> tuple[Split, Split]:
        if self.standard is None:
            raise ValueError(f"index picks one of a set's standard splits, but '{self.name}' has none; leave it out")
        if isinstance(index, bool) or not isinstance(index, int | np.integer):
            raise TypeError(f"index must be an integer, got {type(index).__name__} {index!r}")
        if not 0 <= index < self.standard_splits:
            raise ValueError(f"index must be 0 to {self.standard_splits - 1} for '{self.name}', got {index!r}")
        return self._parts(*self.standard(index), {"index": int(index)})

    def whole(self) -> Split:
        """All rows as one split, standardised by themselves."""
        return self._parts(np.arange(len(self)), np.arange(0), {"whole": True})[0]

    def _parts(self, train: np.ndarray, test: np.ndarray, how: dict[str, Any]) -> tuple[Split, Split]:
        """The training and the test part with these rows; `how` are the fields of `Origin` that say which they are."""
        origin = None if self.origin is None else replace(self.origin, **how)
        scaler = Scaler.fit(self.x[train], self.y[train], labels=self.classes is not None, scaling=self.scaling)

        def part(rows: np.ndarray, role: str) -> Split:
            x = scaler.inputs(self.x[rows])
            if self.classes is None:
                y = ((self.y[rows] - scaler.y_location) / scaler.y_scale).astype(np.float32)
            else:
                y = self.y[rows].astype(np.int32)
            return Split(x, y, scaler, f"{self.name}, {role}", self.classes, self.picture, origin, rows)

        return part(train, "train"), part(test, "test")


def _in_words(rows: Split | Dataset) -> str:
    """How many rows there are, and of what."""
    targets = "1 target" if rows.y.ndim == 1 else f"{rows.y.shape[1]} targets"
    shape = " x ".join(map(str, rows.x.shape[1:]))
    inputs = f"{shape} input{'' if shape == '1' else 's'}"
    return f"{len(rows.x):,} rows of {inputs}, {targets if rows.classes is None else f'{rows.classes} classes'}"


def _location_and_scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation over rows; a constant has scale 1, whatever rounding makes of its deviation."""
    constant = values.max(axis=0) == values.min(axis=0)
    location = np.where(constant, values[0], values.mean(axis=0, dtype=np.float64))
    return location, np.where(constant, 1.0, values.std(axis=0, dtype=np.float64))


def official_split(
    name: str,
    arrays: Mapping[str, np.ndarray],
    shape: tuple[int, ...],
    *,
    classes: int,
    source: str,
    scaling: Literal["column", "channel", "none"],
) -> Dataset:
    """A labelled set that came as `x_train`, `y_train`, `x_test` and `y_test`: these parts are its one standard split.

    Raises:
        ValueError: if inputs are not integer rows of shape `shape`, or do not have one integer label 0 .. classes - 1
            each.
    """
    for part in ("train", "test"):
        x, y = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if x.shape[1:] != shape or x.dtype.kind not in "iu":
            raise ValueError(
                f"'{name}': x_{part} must be integers of shape (n, {str(shape)[1:-1]}), got {x.dtype} {x.shape}"
            )
        if y.shape != x.shape[:1] or y.dtype.kind not in "iu" or (len(y) and not 0 <= y.min() <= y.max() < classes):
            raise ValueError(f"'{name}': y_{part} must be {len(x)} labels 0 to {classes - 1}, got {y.dtype} {y.shape}")
    rows = len(arrays["x_train"])
    parts = np.arange(rows), np.arange(rows, rows + len(arrays["x_test"]))
    return Dataset(
        name,
        np.concatenate([arrays["x_train"], arrays["x_test"]]),
        np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(np.int32),
        classes,
        source=source,
        standard=lambda index: parts,
        standard_splits=1,
        scaling=scaling,
        extras={key: values for key, values in arrays.items() if not key.startswith(("x_", "y_"))},
    )
