"""Predictions for the rows of a table, and predictions as a table.

A posterior that was run on a table knows its schema. So a new table is encoded by it, the prediction is in the target's
own units, and it keeps the table's index and the names of the classes (`Rows`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from data import Schema
from data.tabular.reading import as_frame

__all__ = ["Rows", "encoded", "to_frame"]


@dataclass(frozen=True, eq=False)
class Rows:
    """What is known of the rows that are predicted.

    Attributes:
        index: the index of the data frame; None if there is none.
        classes: the names of the classes; None for numbers.
        outside: for each row the columns in which it is beyond the training rows; None if that is not known.
    """

    index: Any = None
    classes: tuple[str, ...] | None = None
    outside: np.ndarray | None = None

    def at(self, rows: Any) -> Rows:
        """The same of these rows alone."""
        return replace(
            self,
            index=None if self.index is None else self.index[rows],
            outside=None if self.outside is None else self.outside[rows],
        )


def encoded(given: Any, schema: Schema) -> tuple[np.ndarray, Rows]:
    """The inputs of the rows of a table, and what is known of these rows.

    Raises:
        ValueError: if the table does not fit the schema, by the name of the column, or has no rows.
    """
    frame = as_frame(given)
    if not len(frame):
        raise ValueError("the table has no rows to predict")
    x = schema.inputs(frame)
    return x, Rows(frame.index, schema.target.classes, np.array(schema.outside(frame), dtype=object))


def to_frame(prediction: Any, probability: float) -> Any:
    """See `Prediction.to_frame`."""
    import pandas

    rows: Rows = prediction.rows or Rows()
    columns: dict[str, np.ndarray] = {}
    if prediction.likelihood.classes is None:
        lower, upper = prediction.interval(probability)
        parts = {"mean": prediction.mean}
        if prediction.has_variance:
            parts["std"] = prediction.std
        parts |= {"lower": lower, "upper": upper, "epistemic": prediction.epistemic}
        if prediction.has_variance:
            parts["aleatoric"] = prediction.aleatoric
        for name, values in parts.items():
            several = {f"{name} {i}": values[:, i] for i in range(values.shape[1])} if values.ndim > 1 else {}
            columns |= several or {name: values}
    else:
        probs = prediction.probs
        classes = rows.classes or tuple(map(str, range(probs.shape[1])))
        columns["label"] = np.array(classes, dtype=object)[probs.argmax(axis=1)]
        columns |= {f"probability {name}": probs[:, i] for i, name in enumerate(classes)}
        columns |= {"epistemic": prediction.epistemic, "aleatoric": prediction.aleatoric}
    if rows.outside is not None:
        columns["outside"] = rows.outside
    return pandas.DataFrame(columns, index=rows.index)
