"""Single test cases: the ones that a prediction is most and least certain of, and what happened."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from data import Split
from inference.results.prediction import Classification, Prediction, Regression
from inference.results.scores import in_data_units

__all__ = ["Case", "cases"]

_ALIKE = 1e-6  # uncertainties that differ by no more than this share count as equal
_PIXELS = 96  # the width at which images are shown
_CHANNELS = 1, 3  # of images that can be shown: grey, and red, green and blue


class Case(NamedTuple):
    """One test case.

    Attributes:
        row: the number of its row in the test data.
        predicted: the prediction in words, such as "153 (90 %: 82 to 224)" or "class 3 with 0.98".
        observed: the target in words.
        epistemic: the share of the uncertainty that more data would remove.
        right: whether the interval holds the target, or the top class is the label.
        image: the input as a data URI, empty if it is not an image.
    """

    row: int
    predicted: str
    observed: str
    epistemic: float
    right: bool
    image: str


def cases(prediction: Prediction, test: Any, count: int = 5) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """The test cases of the least and of the greatest predictive uncertainty, the most extreme first.

    Uncertainty is the entropy of the label, or the variance of the target; for several targets per row, their sum. No
    case is given if all are alike, as under a point estimate with one noise, or if the noise has no variance.

    Args:
        prediction: the prediction at the inputs of the test data.
        test: a `Split` or `(x, y)`.
        count: the number of cases of each kind; half of all cases if there are fewer than 2 * `count`.
    """
    split = test if isinstance(test, Split) else None
    prediction, targets = in_data_units(prediction, split or test[1])
    assert isinstance(prediction, Classification | Regression)
    if not prediction.has_variance:
        return (), ()
    total, epistemic = prediction.total, prediction.epistemic
    if total.ndim > 1:
        total, epistemic = total.sum(axis=1), epistemic.sum(axis=1)
    share = np.divide(epistemic, total, out=np.zeros_like(total), where=total > 0)
    order = np.argsort(total, kind="stable")
    count = min(count, len(order) // 2) if np.ptp(total) > _ALIKE * total.max() else 0
    if not count:
        return (), ()
    tell = partial(_label, _class_names(split)) if isinstance(prediction, Classification) else _number

    def chosen(rows: np.ndarray) -> tuple[Case, ...]:
        told = tell(prediction.at(rows), targets[rows])
        return tuple(
            Case(int(row), predicted, observed, float(share[row]), right, image)
            for row, (predicted, observed, right), image in zip(rows, told, _images(test, rows), strict=True)
        )

    return chosen(order[:count]), chosen(order[::-1][:count])


def _class_names(split: Split | None) -> Sequence[str]:
    """The names of the classes of a table; empty if they have none."""
    schema = split.origin.schema if split is not None and split.origin is not None else None
    return (schema.target.classes or ()) if schema is not None else ()


def _label(names: Sequence[str], prediction: Any, targets: np.ndarray) -> list[tuple[str, str, bool]]:
    tops = prediction.probs.argmax(axis=1)
    words = names or [f"class {i}" for i in range(prediction.probs.shape[1])]
    return [
        (f"{words[top]} with {probs[top]:.2f}", words[label], bool(top == label))
        for probs, top, label in zip(prediction.probs, tops, targets, strict=True)
    ]


def _number(prediction: Any, targets: np.ndarray) -> list[tuple[str, str, bool]]:
    found = []
    for mean, low, high, target in zip(prediction.mean, *prediction.interval(0.9), targets, strict=True):
        parts = zip(*map(np.atleast_1d, (mean, low, high)), strict=True)
        words = "; ".join(f"{centre:.3g} (90 %: {lower:.3g} to {upper:.3g})" for centre, lower, upper in parts)
        observed = "; ".join(f"{value:.3g}" for value in np.atleast_1d(target))
        found.append((words, observed, bool(np.all((low <= target) & (target <= high)))))
    return found


def _images(test: Any, rows: np.ndarray) -> list[str]:
    """Rows of the test data as data URIs; empty if they are no images."""
    if isinstance(test, Split):
        pictures = test.pictures(rows) if test.picture is not None else None
    else:  # arrays: (n, height, width, channels), as convolutional networks take them
        x = np.asarray(test[0])
        pictures = x[rows].astype(np.float64) if x.ndim == 4 and x.shape[3] in _CHANNELS else None
    if pictures is None:
        return [""] * len(rows)
    from matplotlib.image import imsave

    found = []
    for values in pictures:
        low, high = values.min(), values.max()
        shades = (values - low) / (high - low) if high > low else np.zeros_like(values)
        shades = shades[..., 0] if shades.shape[2:] == (1,) else shades
        times = max(1, _PIXELS // shades.shape[0])
        shades = shades.repeat(times, axis=0).repeat(times, axis=1)
        buffer = io.BytesIO()
        imsave(buffer, shades, cmap="gray_r", vmin=0, vmax=1, format="png")
        found.append("data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode())
    return found
