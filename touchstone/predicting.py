"""`touchstone predict`: a table with the predictions of a posterior added to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import data
import inference
from data.tabular.reading import read, write
from inference.display.progress import Display
from touchstone.answers import AsJSON, answering
from touchstone.folders import loaded, with_predictions

__all__ = ["by_blocks", "predict"]

_AT_ONCE = 2**23  # outputs, one for each row and draw; a prediction keeps some 40 bytes for each
_FEWEST = 400  # draws of a point estimate where numbers are missing


def predict(
    posterior: Annotated[Path, typer.Argument(help="A folder of `touchstone run --out`, or a saved posterior.")],
    table: Annotated[Path, typer.Argument(help="The CSV or Parquet file with the rows to predict.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write; by default CSV on standard output.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Which posterior of the folder, if it holds those of several methods.")
    ] = None,
    probability: Annotated[float, typer.Option(help="What the interval from lower to upper holds.")] = 0.9,
    as_json: AsJSON = False,
) -> None:
    """Add the predictions of a posterior to a table like the one that it was run on.

    The columns mean, std, lower, upper, epistemic and aleatoric are added for a number; label, a probability for each
    class, epistemic and aleatoric for classes. The column outside names the columns in which a row is beyond the range
    of the training rows.
    """
    import pandas

    with answering(as_json) as answer:
        if out is not None and out.exists() and out.samefile(table):
            raise ValueError(f"{out} is the table itself; name another file for the predictions")
        found = loaded([posterior])
        if method is not None and method not in found:
            raise ValueError(f"--method must be one of {', '.join(found)}, got {method!r}")
        if method is None and len(found) > 1:
            raise ValueError(f"{posterior} holds several posteriors, {', '.join(found)}; choose one by --method")
        chosen = found[method] if method is not None else next(iter(found.values()))
        schema = chosen.origin.schema if chosen.origin is not None else None
        if schema is None:
            raise ValueError(
                f"{posterior} was not run on a table, so it does not know what the columns of {table} mean"
            )
        rows = read(table)
        predicted = by_blocks(chosen, schema, rows, probability)
        outside = int((predicted["outside"] != "").sum())
        wide = with_predictions(rows, predicted, schema.target.name)
        added = list(wide.columns[len(rows.columns) :])
        written = pandas.concat([read(table, as_text=True), wide[added]], axis=1)  # their cells as they wrote them
        answer.say(rows=len(rows), columns=added, outside=outside, out=out)
        if out is None:
            given = wide.astype(object).where(wide.notna(), None)  # which has no other word for what is missing
            answer.say("" if as_json else written.to_csv(index=False).rstrip(), predictions=given.to_dict("records"))
            return
        write(written if out.suffix not in (".parquet", ".pq") else wide, out)
        beyond = f"; outside the range of the training rows in some column: {outside:,}" if outside else ""
        answer.say(f"written: {out}, {len(rows):,} rows with {', '.join(added)}{beyond}")


def by_blocks(posterior: inference.Posterior, schema: data.Schema, rows: Any, probability: float) -> Any:
    """The predictions of a table as a data frame, by blocks of rows, so that memory is bounded."""
    import pandas

    chains, draws = posterior.shape
    outputs = max(chains * draws, _FEWEST) * len(schema.target.classes or (0,))
    size = max(_AT_ONCE // outputs, 1)
    if len(rows) > size:  # what does not fit is told before the first block, by its row in the table
        schema.raw(rows.head(1))
        for column in schema.columns:
            (column.codes if column.categories else column.numbers)(rows[column.name])
    predicted = []
    with Display("predict", len(rows), counted="row", enabled=len(rows) > size) as display:
        for first in range(0, max(len(rows), 1), size):
            predicted.append(posterior.predict(rows.iloc[first : first + size]).to_frame(probability))
            display.update(min(first + size, len(rows)))
    return pandas.concat(predicted)
