"""Every notebook runs from clean, with fewer draws than in its stored outputs, and those outputs are there."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def _small(source: str) -> str:
    return re.sub(r"\b(draws|warmup)=\d+", r"\1=40", source)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_notebook_runs(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = _small(cell.source)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent.parent)}}).execute()
    pictures = [o for c in notebook.cells for o in c.get("outputs", []) if "image/png" in o.get("data", {})]
    assert pictures


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stored_and_clean(path):
    notebook = nbformat.read(path, as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs
    assert all(output.get("name") != "stderr" and output.output_type != "error" for output in outputs)
    assert path.stat().st_size < 1_500_000


def test_there_is_a_notebook():
    assert NOTEBOOKS
