"""The first rows of a prediction as a table, from which a reader sees what it is; only these rows are computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from inference.display.tables import Table

__all__ = ["first_rows"]

_ROWS = 8


def first_rows(prediction: Any) -> Table:
    """What a prediction says of its first rows, as text."""
    rows = prediction.at(slice(_ROWS)) if prediction.outputs.size else None
    if rows is None:
        return Table("", (), ())
    labels = prediction.likelihood.classes is not None
    with np.errstate(all="ignore"):
        columns = _of_labels(rows) if labels else _of_targets(rows)
    units = "the data's own units" if prediction.restored else "the units of y"
    title = "uncertainty in nats" if labels else f"in {units}, uncertainty as standard deviations"
    left_out = len(prediction) - len(rows)
    title += f"; the first {len(rows)} rows, {left_out:,} more are left out" if left_out else ""
    cells = ([f"{value:.4g}" if isinstance(value, float) else value for value in column] for column in columns.values())
    return Table(title, tuple(columns), tuple(zip(*cells, strict=True)))


def _of_targets(rows: Any) -> dict[str, list[Any]]:
    """Means and standard deviations, output by output."""
    several = rows.mean.ndim > 1
    names = [f"{row}, output {k}" for row in _names(rows) for k in range(rows.mean.shape[1])] if several else None
    found = {"mean": rows.mean}
    if rows.has_variance:
        found |= {"total": rows.std, "epistemic": np.sqrt(rows.epistemic), "aleatoric": np.sqrt(rows.aleatoric)}
    plain = {name: values.ravel().tolist() for name, values in found.items()}
    return {"row": names or _names(rows), **plain}


def _of_labels(rows: Any) -> dict[str, list[Any]]:
    """The most probable label, and the parts of the uncertainty."""
    labels, classes = rows.probs.argmax(axis=1).tolist(), rows.rows and rows.rows.classes
    return {
        "row": _names(rows),
        "label": [classes[label] if classes else str(label) for label in labels],
        "probability": rows.probs.max(axis=1).tolist(),
        "epistemic": rows.epistemic.tolist(),
        "aleatoric": rows.aleatoric.tolist(),
    }


def _names(rows: Any) -> list[str]:
    """What the rows are called in the table that they came from; else their numbers."""
    known = rows.rows is not None and rows.rows.index is not None
    return list(map(str, rows.rows.index if known else range(len(rows))))
