"""`touchstone reproduce`: what the papers found, one study per name."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated

import typer

import data
from experiments import catalogue
from experiments.findings import record
from experiments.study import Laboratory
from touchstone.answers import AsJSON, answering

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[str | None, typer.Argument(help="A study; without it, all are listed.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A size that shows that it runs, and decides nothing.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Where to write the figure: a .png, .pdf or .svg file.")] = None,
    runs: Annotated[
        Path | None, typer.Option(help="A folder for runs that are dear, which are then made once and can be resumed.")
    ] = None,
    findings: Annotated[
        Path | None, typer.Option(help="A Markdown document whose section of this study is written anew.")
    ] = None,
    as_json: AsJSON = False,
) -> None:
    """Put a published finding to the test: the published numbers, ours, and a verdict by a rule written before."""
    with answering(as_json) as answer:
        if plot is not None and plot.suffix not in (".png", ".pdf", ".svg"):
            raise ValueError(f"--plot must end in .png, .pdf or .svg, got {str(plot)!r}")
        if name is None:
            if quick or plot or runs or findings:
                raise ValueError("give the name of a study; `touchstone reproduce` alone lists them")
            listed = []
            for study in catalogue.studies():
                missing = [each for each in study.needs if not data.at_hand(each)]
                minutes = None if math.isnan(study.minutes) else study.minutes
                answer.say(
                    f"{study.name:24}{'' if minutes is None else f'{minutes:g} min':>8}  {study.title}"
                    + (f" (not in the cache: {', '.join(missing)})" if missing else "")
                )
                listed.append({"name": study.name, "title": study.title, "minutes": minutes, "needs": study.needs})
            answer.say(studies=listed)
            return
        study = catalogue.study(name)
        if findings is not None and quick:
            raise ValueError("--findings needs the whole study: leave --quick out")
        settings = study.settings(quick)
        answer.say(f"{study.title}\n\nQuestion: {study.question}\nPublished: {study.published}\nRule: {study.rule}\n")
        began = time.perf_counter()
        finding = study.run(Laboratory(answer.say, runs), **settings)
        seconds = time.perf_counter() - began
        for table in finding.tables:
            answer.say(f"\n{table}")
        answer.say(
            f"\n{finding.verdict}: {finding.because}\n{seconds:.0f} seconds"
            + (", the quick size, which decides nothing" if quick else ""),
            study=study.name, quick=quick, settings=settings, verdict=finding.verdict, because=finding.because,
            values=finding.values, seconds=seconds,
            tables=[{"title": each.title, "columns": each.columns, "rows": each.rows} for each in finding.tables],
        )  # fmt: skip
        if plot is not None:
            plot.parent.mkdir(parents=True, exist_ok=True)
            finding.draw().savefig(plot, dpi=150, bbox_inches="tight")
            answer.say(f"written: {plot}", plot=plot)
        if findings is not None:
            record(findings, study, finding, seconds, settings)
            answer.say(f"written: {findings}", findings=findings)
