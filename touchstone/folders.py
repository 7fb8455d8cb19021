"""Where the command keeps what it made: the folder of `run --out`, and how posteriors are found again."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import data
import diagnostics
import inference
from data.tabular.reading import write
from touchstone.choices import Chosen

__all__ = ["check_free", "fill", "folder_for", "in_one_step", "loaded", "origin_of", "with_predictions"]


def check_free(out: Path) -> None:
    """Raise ValueError if something is already where a folder or a file is to be made; an empty folder may be."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"{out} is there already; choose another --out, or remove it first")


@contextmanager
def folder_for(out: Path) -> Iterator[None]:
    """Make the folder that `out` is to be in before the block, and remove what was made of it if the block fails."""
    missing = [parent for parent in out.parents if not parent.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for parent in missing:  # the innermost is the first
            if parent.is_dir() and not any(parent.iterdir()):
                parent.rmdir()
        raise


@contextmanager
def in_one_step(out: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `out` when the block ends, and is removed if the block fails."""
    temporary = out.with_name(f".{out.name}.{secrets.token_hex(6)}")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if out.is_dir():
            out.rmdir()  # it is empty
        os.replace(temporary, out)
    finally:
        if temporary.exists():
            shutil.rmtree(temporary)


def fill(folder: Path, posteriors: dict[str, inference.Posterior], chosen: Chosen, scores: dict[str, Any]) -> None:
    """Write posteriors, the predictions of the test rows, the scores and the report into a folder."""
    for name, posterior in posteriors.items():
        posterior.save(folder / f"{name}.npz")
        if posterior.complete:
            write(_predictions(posterior, chosen), folder / f"{name}.csv")
    (folder / "scores.json").write_text(json.dumps(scores, indent=1) + "\n")
    diagnostics.report(posteriors, chosen.test, folder / "report.html")


def _predictions(posterior: inference.Posterior, chosen: Chosen) -> Any:
    """The test rows of a table as they came, or the observed targets of another set, with the predictions."""
    import pandas

    test = chosen.test
    if isinstance(chosen.dataset, data.Table):
        rows = chosen.dataset.frame.iloc[test.rows]
        return with_predictions(rows, posterior.predict(rows).to_frame(), chosen.dataset.schema.target.name)
    predicted = test.restore(posterior.predict(test)).to_frame()
    observed = test.y_original
    named = {f"observed {i}": observed[:, i] for i in range(observed.shape[1])} if observed.ndim > 1 else {}
    return pandas.concat([pandas.DataFrame({"row": test.rows} | (named or {"observed": observed})), predicted], axis=1)


def with_predictions(table: Any, predicted: Any, target: str) -> Any:
    """A table with the columns of its predictions added; their names get the target's in front if one is taken."""
    import pandas

    if set(predicted.columns) & set(table.columns):
        predicted = predicted.rename(columns={name: f"{target} {name}" for name in predicted.columns})
    return pandas.concat([table, predicted], axis=1)


def loaded(files: list[Path]) -> dict[str, inference.Posterior]:
    """The posteriors in files, in directories of runs and in folders of the command, by name.

    The name is that of the file or directory or, where two share a name, its path.
    """
    paths = [path for file in files for path in _inside(file)]
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        names = [str(path.with_suffix("")) for path in paths]
    return {name: inference.load(path) for name, path in zip(names, paths, strict=True)}


def _inside(path: Path) -> list[Path]:
    """The posteriors of a folder that the command made; a file, or the directory of a run, itself."""
    if not path.is_dir() or (path / "run.json").exists():
        return [path]
    found = sorted(path.glob("*.npz")) or sorted(file.parent for file in path.glob("*/run.json"))
    return found or [path]


def origin_of(posteriors: dict[str, inference.Posterior]) -> data.Origin | None:
    """Where the data of the posteriors came from; None if they don't know.

    Raises:
        ValueError: if they came from different places.
    """
    origins = {name: posterior.origin for name, posterior in posteriors.items()}
    first, *others = origins.values()
    if any(other != first for other in others):
        raise ValueError(f"the posteriors {', '.join(origins)} were not run on the same data; name the data by --data")
    return first
