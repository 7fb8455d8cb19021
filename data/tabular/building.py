"""`data.table`: a table as people have it becomes a `Dataset`, and says what it found in it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from data.datasets import Dataset, Scaler, Split
from data.origins import Origin
from data.tabular.columns import (
    FEW_ROWS,
    MOST_CATEGORIES,
    Column,
    Refused,
    examined,
    holds_dates,
    is_missing,
    is_number,
    refuse_infinite,
    refuse_mixtures,
    refuse_objects,
    texts,
)
from data.tabular.reading import as_frame, digest
from data.tabular.schema import MISSING_POLICIES, Schema, TargetColumn

__all__ = ["TASKS", "Table", "scored_rows", "table"]

TASKS = ("regression", "classification")
_FEW_INTEGERS = 20  # different integers up to which a target counts as classes
_SHOWN = 5  # classes in a remark


@dataclass(frozen=True, eq=False, repr=False)
class Table(Dataset):
    """A data set that is a table; what `data.table` gives.

    Attributes:
        schema: what its columns are; a split has the schema with the means and scales of its training rows.
        remarks: what was found in the table, a sentence each.
        frame: the rows as they came, a pandas data frame; those that can't be used are left out.
    """

    schema: Schema = field(default_factory=lambda: Schema((), TargetColumn("")))
    remarks: tuple[str, ...] = ()
    frame: Any = None

    def __repr__(self) -> str:
        return "\n".join([super().__repr__(), *self.remarks])

    def _parts(self, train: np.ndarray, test: np.ndarray, how: dict[str, Any]) -> tuple[Split, Split]:
        schema = self.schema.fitted(self.x[train], self.y[train])
        target = schema.target
        scaler = Scaler(*schema.scaling(), np.asarray(target.location), np.asarray(target.scale))
        assert self.origin is not None
        origin = replace(self.origin, schema=schema, **how)

        def part(rows: np.ndarray, role: str) -> Split:
            x, y = schema.standardised(self.x[rows]), self.y[rows]
            if role == "train":
                x = schema.numbered(x)
            if self.classes is None:
                y = ((y - target.location) / target.scale).astype(np.float32)
            return Split(x, y, scaler, f"{self.name}, {role}", self.classes, origin=origin, rows=rows)

        return part(train, "train"), part(test, "test")


def table(
    frame_or_path: Any,
    target: str,
    *,
    task: str | None = None,
    drop: Sequence[str] = (),
    embed: Sequence[str] = (),
    missing: str = "unknown",
) -> Table:
    """A table as a data set.

    Args:
        frame_or_path: a pandas data frame, a frame of another library, a mapping from names to columns, or a CSV or
            Parquet file.
        target: the column to predict.
        task: "regression" or "classification"; None is classification for text, booleans and at most 20 different
            integers.
        drop: columns to leave out.
        embed: columns whose categories get units that are inferred, instead of an input each; see `models.for_table`.
        missing: what to do with missing inputs. "unknown": a missing number is inferred with the weights, see
            `models.for_table`, and a missing category is a category; "drop": leave such rows out; "refuse": raise.

    Raises:
        TypeError: if it is not a table.
        ValueError: if a column is not there or can't be used, by its name; if there are no rows; if the target has one
            value; if an option is not known.
        FileNotFoundError: if there is no such file.
    """
    _check_words(task, missing)
    target = str(target)  # a frame made of an array has numbers for names
    names = _names("drop", drop), _names("embed", embed)
    frame = as_frame(frame_or_path)
    _check_columns(frame, target, *names)
    remarks: list[str] = []
    used = _rows(frame, [name for name in frame.columns if name not in names[0]], target, missing, remarks)
    frame = used.drop(columns=list(names[0]))
    found, y = _target(frame[target], target, task, remarks)
    columns = _columns(frame.drop(columns=target), names[1], y if found.classes is None else None, remarks)
    schema = Schema(columns, found, missing)
    remarks.append(schema.in_words)
    if isinstance(frame_or_path, str | Path):
        path = Path(frame_or_path).resolve()
        name, where = path.name.split(".")[0], (str(path), digest(path))
    else:
        name, where = "table", ("", "")
    options = {"target": target, "task": task, "drop": names[0], "embed": names[1], "missing": missing}
    return Table(
        name,
        schema.raw(frame),
        y,
        None if found.classes is None else len(found.classes),
        schema.names,
        where[0] or "a data frame",
        origin=Origin(name, tuple(options.items()), *where),
        schema=schema,
        remarks=tuple(remarks),
        frame=used,
    )


def scored_rows(frame_or_path: Any, origin: Origin) -> Split:
    """The rows of another table as a test part, in the units of the training rows that a posterior was run on.

    Raises:
        ValueError: if the table does not fit the schema, by the name of the column, or has no rows.
    """
    schema, frame = origin.schema, as_frame(frame_or_path)
    assert schema is not None
    target = schema.target
    if target.name not in frame.columns:
        raise Refused(f"the table has no column {target.name!r}, the target, to score predictions by")
    if not len(frame):
        raise ValueError("the table has no rows")
    y = target.values(frame[target.name])
    if target.classes is None:
        y = ((y - target.location) / target.scale).astype(np.float32)
    scaler = Scaler(*schema.scaling(), np.asarray(target.location), np.asarray(target.scale))
    name = Path(frame_or_path).name.split(".")[0] if isinstance(frame_or_path, str | Path) else "table"
    return Split(
        schema.inputs(frame), y, scaler, name, None if target.classes is None else len(target.classes), origin=origin
    )


def _check_words(task: str | None, missing: str) -> None:
    if task is not None and task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    if missing not in MISSING_POLICIES:
        raise ValueError(f"missing must be one of {', '.join(MISSING_POLICIES)}, got {missing!r}")


def _names(option: str, given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise TypeError(f"{option} must be a list of columns, got the text {given!r}; write ({given!r},)")
    return tuple(str(name) for name in given)


def _check_columns(frame: Any, target: str, drop: tuple[str, ...], embed: tuple[str, ...]) -> None:
    for what, names in (("target", (target,)), ("drop", drop), ("embed", embed)):
        for name in names:
            if name not in frame.columns:
                near = difflib.get_close_matches(str(name), list(frame.columns), n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                listed = ", ".join(map(repr, frame.columns[:20])) + ", ..." * (len(frame.columns) > 20)
                raise Refused(f"{what}: the table has no column {name!r}; {hint}it has {listed}")
    if target in drop or target in embed:
        raise ValueError(f"the target {target!r} can't be dropped or embedded")
    if both := set(drop) & set(embed):
        raise ValueError(f"column {min(both)!r} can't be both dropped and embedded")


def _rows(frame: Any, columns: list[str], target: str, missing: str, remarks: list[str]) -> Any:
    """The rows that can be used, of a table of which these columns are used."""
    if not len(frame):
        raise ValueError("the table has no rows")
    unlabelled = is_missing(frame[target])
    if unlabelled.all():
        raise Refused(f"the target {target!r} has no value in any row")
    if unlabelled.any() and missing == "refuse":
        raise Refused(f"the target {target!r} has no value in row {int(unlabelled.argmax())}")
    if unlabelled.any():
        remarks.append(f"{unlabelled.sum():,} rows without a value of the target {target!r} are left out")
        frame = frame[~unlabelled]
    lacking = {name: is_missing(frame[name]) for name in columns if is_missing(frame[name]).any()}
    lacking = {name: lacks for name, lacks in lacking.items() if not lacks.all()}  # such a column is left out
    if lacking and missing == "refuse":
        name, lacks = next(iter(lacking.items()))
        raise Refused(f"column {name!r} has no value in row {int(lacks.argmax())}; drop such rows, or fill it in")
    if lacking and missing == "drop":
        gone = np.any(list(lacking.values()), axis=0)
        remarks.append(f"{gone.sum():,} rows with missing values are left out")
        frame = frame[~gone]
        if not len(frame):
            raise ValueError("every row of the table has a missing value, so none is left")
    return frame


def _target(values: Any, name: str, task: str | None, remarks: list[str]) -> tuple[TargetColumn, np.ndarray]:
    """The target's record and its values, and a remark that says what it was taken for."""
    refuse_objects(name, values)
    as_number = is_number(values)
    if values.dtype.kind == "c" or holds_dates(values):
        what = "complex numbers" if values.dtype.kind == "c" else "dates or times"
        raise Refused(f"the target {name!r} holds {what}; turn it into numbers, such as days since a day")
    if as_number:
        refuse_infinite(name, values)
    elif task != "classification":
        refuse_mixtures(f"the target {name!r}", values, "or take it for classes (--task classification, task=...)")
    distinct = values.nunique()
    if task is None:
        integers = as_number and bool((values == values.round()).all())
        task = "classification" if not as_number or (integers and distinct <= _FEW_INTEGERS) else "regression"
        other = TASKS[1 - TASKS.index(task)]
        why = f" (--task {other}, task={other!r} decides otherwise)" if integers else ""
    else:
        why = ", as asked for"
    if task == "regression":
        if not as_number:
            raise Refused(
                f"the target {name!r} holds text, such as {str(values.iloc[0])!r}, and regression needs numbers"
            )
        y = Column(name, "number").numbers(values)
        if distinct < 2:
            raise Refused(f"the target {name!r} has one value, {y[0]:g}, in all rows; there is nothing to predict")
        remarks.append(f"the target {name!r} is a number: regression{why}")
        return TargetColumn(name), y
    if distinct < 2:
        raise Refused(f"the target {name!r} has one class, {texts(values)[0]!r}; there is nothing to predict")
    if distinct > MOST_CATEGORIES:
        raise Refused(
            f"the target {name!r} has {distinct:,} different values, and at most {MOST_CATEGORIES} can be classes"
        )
    if distinct == len(values) >= FEW_ROWS:
        number = "; take it for a number (--task regression, task='regression')" * as_number
        raise Refused(f"the target {name!r} has another class in every row, such as {texts(values)[0]!r}{number}")
    order = sorted(set(values)) if as_number else sorted(set(values), key=str)
    classes = tuple(f"{value:.15g}" if as_number else str(value) for value in order)
    shown = ", ".join(classes[:_SHOWN]) + ", ..." * (len(classes) > _SHOWN)
    remarks.append(f"the target {name!r} has {len(classes)} classes ({shown}): classification{why}")
    found = TargetColumn(name, classes)
    return found, found.values(values)


def _columns(frame: Any, embed: tuple[str, ...], y: np.ndarray | None, remarks: list[str]) -> tuple[Column, ...]:
    """The columns that are inputs; those that say nothing, or the same as another, are left out with a remark."""
    kept: list[Column] = []
    refused: list[str] = []
    seen: dict[Any, str] = {} if y is None else {("number", y.tobytes()): "the target"}
    for name in frame.columns:
        values = frame[name]
        try:
            refuse_objects(name, values)
            if nothing := _says_nothing(name, values):
                remarks.append(f"column {name!r} {nothing} and is left out")
                continue
            column = examined(name, values, name in embed)
            numeric = column.kind in ("number", "boolean")
            codes = column.numbers(values) if numeric else column.codes(values)
        except Refused as error:  # the others are looked at too, so that the user hears of all at once
            refused.append(str(error))
            continue
        contents = codes.tobytes() if numeric else (column.categories, codes.tobytes())
        twin = seen.setdefault(("number" if numeric else "category", contents), repr(name))
        if twin != repr(name):
            remarks.append(f"column {name!r} is a copy of {twin} and is left out")
            continue
        if lacks := int(is_missing(values).sum()):
            what = "a category of its own" if column.categories else "an unknown each"
            remarks.append(f"column {name!r}: {lacks:,} of {len(values):,} values are missing, {what}")
        kept.append(column)
    if refused:
        raise Refused("\n".join(refused))
    if not kept:
        raise ValueError("the table has no column that could be an input" + "".join(f"; {text}" for text in remarks))
    return tuple(kept)


def _says_nothing(name: str, values: Any) -> str:
    """Why a column says nothing; empty if it may say something."""
    if is_missing(values).all():
        return "has no values"
    if name.startswith("Unnamed: ") and is_number(values) and (np.diff(values) == 1).all():
        return "counts the rows"
    if values.nunique(dropna=False) == 1:
        return f"has one value, {texts(values)[0]!r}, in all rows"
    return ""
