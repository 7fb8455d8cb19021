"""`touchstone report` and `touchstone compare`: what to make of posteriors that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import data
import diagnostics
import inference
from diagnostics.reports.page import default_reference
from touchstone.answers import AsJSON, answering, verdict_of
from touchstone.choices import rows_to_score
from touchstone.folders import loaded, origin_of

__all__ = ["compare", "report"]

_Files = Annotated[
    list[Path], typer.Argument(help="Saved posteriors, directories of runs, or folders of `touchstone run --out`.")
]
_Data = Annotated[
    str | None, typer.Option("--data", help="The data set or table to score on; by default the run's own test rows.")
]
_Split = Annotated[int, typer.Option(help="Seed of the split of a data set given by --data.")]


def report(
    files: _Files,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    name: _Data = None,
    split: _Split = 0,
    reference: Annotated[str | None, typer.Option(help="Name of the posterior that others are compared with.")] = None,
    as_json: AsJSON = False,
) -> None:
    """Write a report about one posterior, or about several side by side; also about runs that are under way."""
    with answering(as_json) as answer:
        posteriors = loaded(files)
        test = None
        try:
            test = _test_rows(posteriors, name, split)
        except (ValueError, OSError) as error:
            if name is not None:
                raise
            typer.echo(f"note: without scores, because {error}", err=True)
        path = diagnostics.report(posteriors, test, out, reference=reference)
        results = {each: verdict_of(posterior) for each, posterior in posteriors.items()} if as_json else {}
        answer.say(f"written: {path}", out=path, results=results)


def compare(
    files: _Files,
    name: _Data = None,
    split: _Split = 0,
    reference: Annotated[
        str | None, typer.Option(help="Name of the posterior to measure distances to; by default the first exact one.")
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """Print the scores of several posteriors, their paired differences, and their distance to one of them."""
    with answering(as_json) as answer:
        posteriors = loaded(files)
        test = _test_rows(posteriors, name, split)
        if test is None:
            raise ValueError("the posteriors don't know which data they were run on; name the data by --data")
        comparison = diagnostics.compare(posteriors, test, reference or default_reference(posteriors))
        answer.say(f"{comparison}\n\n{comparison.closeness}".rstrip(), rows=comparison.rows, summary=comparison.summary)


def _test_rows(posteriors: dict[str, inference.Posterior], name: str | None, split: int) -> data.Split | None:
    """The test rows that the user names, or those of the data that the posteriors were run on."""
    if name is not None:
        return rows_to_score(name, split, next(iter(posteriors.values())).origin)
    origin = origin_of(posteriors)
    return None if origin is None else origin.splits()[1].flat()
