"""Single test cases: those of which a prediction is most and least certain, and what happened."""

from __future__ import annotations

import base64
import io
from typing import Any, NamedTuple

import numpy as np

from data import Split
from inference.prediction import Classification, Prediction, Regression
from inference.scoring import in_data_units

__all__ = ["Case", "cases"]

_PIXELS = 96  # the width at which images are shown


class Case(NamedTuple):
    """One test case.

    Attributes:
        row: its number in the test data.
        predicted: in words, such as "153 (90 %: 82 to 224)" or "class 3 with 0.98".
        observed: in words.
        epistemic: the share of the uncertainty that more data would remove.
        right: whether the interval or the top class holds what was observed.
        image: the input as a data URI, empty if it is no image.
    """

    row: int
    predicted: str
    observed: str
    epistemic: float
    right: bool
    image: str


def cases(prediction: Prediction, test: Any, count: int = 5) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """The test cases of the least and of the greatest predictive uncertainty, the most extreme first.

    Uncertainty is the entropy of the label, or the variance of the target. For several targets per row, their sum.

    Args:
        prediction: at the inputs of the test data.
        test: a `Split` or `(x, y)`.
        count: how many of each; fewer if there are fewer than twice as many.
    """
    split = test if isinstance(test, Split) else None
    prediction, targets = in_data_units(prediction, split or test[1])
    assert isinstance(prediction, Classification | Regression)
    total, epistemic = prediction.total, prediction.epistemic
    if total.ndim > 1:
        total, epistemic = total.sum(axis=1), epistemic.sum(axis=1)
    share = np.divide(epistemic, total, out=np.zeros_like(total), where=total > 0)
    order = np.argsort(total, kind="stable")
    count = min(count, len(order) // 2)
    tell = _label if isinstance(prediction, Classification) else _number

    def chosen(rows: np.ndarray) -> tuple[Case, ...]:
        images = _images(split, rows)
        return tuple(
            Case(int(row), *tell(prediction, targets, row), float(share[row]), *rest)
            for row, rest in zip(rows, zip(_right(prediction, targets, rows), images, strict=True), strict=True)
        )

    return chosen(order[:count]), chosen(order[::-1][:count])


def _label(prediction: Any, targets: np.ndarray, row: int) -> tuple[str, str]:
    top = int(prediction.probs[row].argmax())
    return f"class {top} with {prediction.probs[row, top]:.2f}", f"class {int(targets[row])}"


def _number(prediction: Any, targets: np.ndarray, row: int) -> tuple[str, str]:
    lower, upper = prediction.interval(0.9)
    parts = zip(*(np.atleast_1d(values[row]) for values in (prediction.mean, lower, upper)), strict=True)
    words = "; ".join(f"{mean:.3g} (90 %: {low:.3g} to {high:.3g})" for mean, low, high in parts)
    return words, "; ".join(f"{value:.3g}" for value in np.atleast_1d(targets[row]))


def _right(prediction: Any, targets: np.ndarray, rows: np.ndarray) -> list[bool]:
    if isinstance(prediction, Classification):
        return (prediction.probs[rows].argmax(axis=1) == targets[rows]).tolist()
    lower, upper = prediction.interval(0.9)
    inside = (lower[rows] <= targets[rows]) & (targets[rows] <= upper[rows])
    return inside.reshape(len(rows), -1).all(axis=1).tolist()


def _images(split: Split | None, rows: np.ndarray) -> list[str]:
    if split is None or split.picture is None:
        return [""] * len(rows)
    from matplotlib.image import imsave

    found = []
    for values in split.pictures(rows):
        low, high = values.min(), values.max()
        shades = (values - low) / (high - low) if high > low else np.zeros_like(values)
        shades = shades[..., 0] if shades.shape[2:] == (1,) else shades
        times = max(1, _PIXELS // shades.shape[0])
        shades = shades.repeat(times, axis=0).repeat(times, axis=1)
        buffer = io.BytesIO()
        imsave(buffer, shades, cmap="gray_r", vmin=0, vmax=1, format="png")
        found.append("data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode())
    return found
