"""Run the notebooks anew and store what they show: `python -m notebooks.execute [the beginnings of their names]`.

Each runs from clean in a kernel of this Python, in an empty folder that is thrown away, as a reader would run it. What
is stored has no traces of the machine or the day, and a notebook with a fault is not stored but told of.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

__all__ = ["NOTEBOOKS", "execute", "faults", "main"]

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted(Path(__file__).parent.glob("*.ipynb"))

_MOST_BYTES = 1_000_000
_MOST_SECONDS = 900
_NOT_A_READERS = ("XLA_FLAGS", "MPLBACKEND")  # settings that the tests run with, and that change numbers or figures
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_PATH = re.compile(r"""(?:^|[\s"'(=:])(/(?:home|root|tmp|var|usr|opt|work|mnt|Users|private)/[^\s"')]*|[A-Z]:\\\w+)""")
_DRAWS = re.compile(r"plots\.|\.(?:figure|plot)\(")


def execute(path: Path, before: str = "", settings: Mapping[str, str] = MappingProxyType({})) -> Any:
    """The notebook with the outputs that it has today.

    Args:
        path: the notebook, which is left as it is.
        before: code to run first, which is not a part of the result.
        settings: environment variables of the kernel, besides those of this process.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(before))
    kernel = AsyncKernelManager(kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))  # none but that of this Python
    client = NotebookClient(
        notebook,
        km=kernel,
        extra_arguments=["--log-level=ERROR"],
        timeout=_MOST_SECONDS,
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
    )
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_A_READERS}
    with tempfile.TemporaryDirectory() as folder:
        client.execute(cwd=folder, env={**environment, **settings, "PYTHONPATH": str(ROOT)}, cleanup_kc=True)
    del notebook.cells[0]
    notebook.metadata = nbformat.from_dict(_METADATA)
    for number, cell in enumerate(_code(notebook), start=1):
        cell.execution_count = number
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
    return notebook


def faults(notebook: Any) -> list[str]:
    """What is wrong with a notebook and its outputs, in words; nothing is run."""
    found = []
    size = len(nbformat.writes(notebook).encode())
    if size > _MOST_BYTES:
        found.append(f"it has {size:,} bytes, more than {_MOST_BYTES:,}: draw fewer or smaller figures")
    if "pip install" not in notebook.cells[0].source:
        found.append("its first cell does not say how to install what it needs")
    if notebook.metadata != _METADATA:
        found.append("its metadata are not those of `make notebooks`")
    for number, cell in enumerate(_code(notebook), start=1):
        texts = [cell.source, *_texts(cell)]
        found += [f"cell {number}: error {output.ename}" for output in cell.outputs if output.output_type == "error"]
        found += [f"cell {number}: {output.text}" for output in cell.outputs if output.get("name") == "stderr"]
        found += [f"cell {number}: a path, {path}" for text in texts for path in _PATH.findall(text)]
        if _shows(cell.source) and not cell.outputs:
            found.append(f"cell {number}: what it shows is not stored")
    return found


def _code(notebook: Any) -> list[Any]:
    """The cells with code in them."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def _texts(cell: Any) -> Iterator[str]:
    """What the outputs of a cell say, pictures left aside."""
    for output in cell.outputs:
        yield output.get("text", "")
        yield from (str(value) for kind, value in output.get("data", {}).items() if not kind.startswith("image/"))


def _shows(source: str) -> bool:
    """Whether a cell certainly prints or draws: a call in its last line may return nothing, so not every one counts."""
    if source.startswith("%%writefile"):
        return True  # which file it wrote
    statements = ast.parse(source).body
    last = statements[-1] if statements else None
    ends_with_value = isinstance(last, ast.Expr) and (
        not isinstance(last.value, ast.Call) or bool(_DRAWS.search(ast.unparse(last)))
    )
    return "print(" in source or (ends_with_value and not source.rstrip().endswith(";"))


def main(beginnings: list[str]) -> None:
    """Run the notebooks whose names begin like one of those given, or all, and store their outputs."""
    failed = False
    for path in NOTEBOOKS:
        if beginnings and not path.name.startswith(tuple(beginnings)):
            continue
        began = time.perf_counter()
        notebook = execute(path)
        found = faults(notebook)
        if not found:
            nbformat.write(notebook, path)
        size = len(nbformat.writes(notebook)) / 1e6
        print(f"{path.name}: {time.perf_counter() - began:.0f} s, {size:.2f} MB", *found, sep="\n  ", flush=True)
        failed |= bool(found)
    if failed:
        sys.exit("notebooks with faults are not stored")


if __name__ == "__main__":
    main(sys.argv[1:])
