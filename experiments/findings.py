"""The document of what the studies found: one section per study, which the command writes and nobody edits.

A section begins with a comment that carries the study's name, verdict and size, so that a study that is run again
replaces its own section and no other, and the table at the top can be made from the sections.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data.files import replacing
from experiments.study import Finding, Study
from inference.display.tables import Table
from inference.host.versions import version_of

__all__ = ["record", "section"]

_HEAD = """# What the papers found, and what we find

Each section is written by `touchstone reproduce NAME --findings docs/findings.md`: the question, the rule that was
written down before the study was run, our numbers beside the published ones, and the verdict. `touchstone reproduce`
lists the studies. Confirmed, contradicted and undecided are said of the published claim, at the size that ran here.

Most studies have a hundred to a few hundred training rows where the papers have tens of thousands, so that they take
minutes on two cores. A contradiction says that the finding does not show at that size; it does not say that the paper
is wrong about its own.

Times leave out reference chains that an earlier study had already made, so a study on its own may take longer.
"""

_MARK = re.compile(r"^<!-- study (\S+) \| (\w+) \| (.*) \| (.*) -->$", re.MULTILINE)
_PACKAGES = ("touchstone-bnn", "jax", "numpyro", "numpy")


def section(study: Study, finding: Finding, seconds: float, settings: Mapping[str, Any], figure: str) -> str:
    """The section of a study.

    Args:
        study: what was asked.
        finding: what was found.
        seconds: how long it took.
        settings: those that it was run with.
        figure: where its figure is, as the document names it.
    """
    chosen = ", ".join(f"{name} {_word(value)}" for name, value in settings.items())
    versions = ", ".join(f"{name} {version_of(name)}" for name in _PACKAGES)
    parts = [
        f"<!-- study {study.name} | {finding.verdict} | {study.title} | {_duration(seconds)} -->",
        f"## {study.title}",
        f"**Question.** {study.question}",
        f"**Published.** {study.published}",
        f"**Rule.** {study.rule}",
        *map(_markdown, finding.tables),
        f"![{study.title}]({figure})",
        f"**{finding.verdict.capitalize()}.** {finding.because}",
        f"`touchstone reproduce {study.name}`: {_duration(seconds)}, with {chosen}. "
        f"Python {platform.python_version()}, {versions}.",
    ]
    return "\n\n".join(parts) + "\n"


def record(path: str | Path, study: Study, finding: Finding, seconds: float, settings: Mapping[str, Any]) -> None:
    """Write a study's section, and its figure beside it, into the document at `path`, new or not."""
    path = Path(path)
    sections = _sections(path.read_text() if path.exists() else "")
    figure = f"{path.stem}/{study.name}.png"
    (path.parent / path.stem).mkdir(parents=True, exist_ok=True)
    finding.draw().savefig(path.parent / figure, dpi=110)
    sections[study.name] = section(study, finding, seconds, settings, figure)
    rows = [_MARK.search(text) for text in sections.values()]
    listed = [
        f"| [{row[3]}](#{_anchor(row[3])}) | {row[2]} | {row[4]} | `{row[1]}` |" for row in rows if row is not None
    ]
    head = "\n".join([_HEAD, "| study | verdict | time on two cores | name |", "|---|---|---|---|", *listed, ""])
    with replacing(path) as temporary:
        temporary.write_text("\n".join([head, *sections.values()]))


def _sections(text: str) -> dict[str, str]:
    """The sections of a document, by the name of their study."""
    marks = list(_MARK.finditer(text))
    ends = [*(mark.start() for mark in marks), len(text)][1:]
    return {mark[1]: text[mark.start() : end].rstrip("\n") + "\n" for mark, end in zip(marks, ends, strict=True)}


def _markdown(table: Table) -> str:
    """A table as Markdown, its title above it."""
    rows = [table.columns, ["---"] + ["---:"] * (len(table.columns) - 1), *table.rows]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([table.title, "", *lines] if table.title else lines)


def _anchor(title: str) -> str:
    """The anchor that a heading has in rendered Markdown."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _word(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
