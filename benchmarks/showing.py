"""What does it cost to show progress, in a notebook, in a terminal and in a log?

HMC with four chains on a 1x50 network and 1,000 rows, for some seconds, with bars and without, in turn, in a kernel, in
a process whose errors go to a terminal, and in one whose errors go nowhere. Beside the ratio of the medians, which
can't tell less than about a per cent, is the share of the time that the main thread spent on bars; the chains run on
meanwhile, so a run is longer by less than that. Goal: less than 1 %.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
import numpy as np

import inference
import models
from benchmarks.timing import medians, table
from inference.display.progress import Display
from notebooks.execute import ROOT, execute

__all__ = ["main", "measured"]

_CODE = "from benchmarks.showing import measured; print(measured())"


def measured() -> str:
    """Seconds with bars and without, and the share of the time that was spent on them, in this process."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1000, 8)).astype(np.float32)
    y = np.sin(2 * x[:, 0]).astype(np.float32)
    model = models.mlp((50,), "tanh", likelihood=models.Gaussian(scale=0.5))
    run = partial(
        inference.run, model, x, y, method="hmc", chains=4, draws=200, warmup=0, step_size=1e-3, trajectory_length=0.2,
        jitter=0.0, start="random",
    )  # fmt: skip
    found = medians({name: partial(run, progress=name == "bars") for name in ("nothing", "bars")})
    spent = 0.0

    def timed(function: Any, *args: Any) -> Any:
        nonlocal spent
        began = time.perf_counter()
        try:
            return function(*args)
        finally:
            spent += time.perf_counter() - began

    methods = {name: getattr(Display, name) for name in ("__enter__", "__exit__", "begin", "update")}
    began = time.perf_counter()
    with patch.multiple(Display, **{name: _wrapped(timed, method) for name, method in methods.items()}):
        run()
    return json.dumps([found["nothing"], found["bars"], spent / (time.perf_counter() - began)])


def _wrapped(timed: Any, method: Any) -> Any:
    return lambda *args: timed(method, *args)


def _in_a_kernel() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "showing.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(_CODE)]), path)
        outputs = execute(path).cells[0].outputs
    return str(next(output.text for output in outputs if output.get("name") == "stdout"))


def _in_a_terminal() -> str:
    outside, inside = os.openpty()
    drain = threading.Thread(target=_drain, args=(outside,), daemon=True)
    drain.start()
    try:
        return _in_a_process(inside)
    finally:
        os.close(inside)


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 65536):
            pass
    except OSError:  # the other end is closed
        os.close(descriptor)


def _in_a_process(errors: int) -> str:
    process = subprocess.run(
        [sys.executable, "-c", _CODE], stdout=subprocess.PIPE, stderr=errors, text=True, check=True, cwd=ROOT
    )
    return process.stdout


def main() -> None:
    """Print what progress adds, in each place."""
    places: dict[str, Callable[[], str]] = {
        "notebook": _in_a_kernel,
        "terminal": _in_a_terminal,
        "log": partial(_in_a_process, subprocess.DEVNULL),
    }
    rows: list[tuple[str, ...]] = [("", "without s", "with bars s", "more time", "on bars (goal: less than 1 %)")]
    for name, place in places.items():
        without, bars, share = json.loads(place().splitlines()[-1])
        rows.append((name, f"{without:.2f}", f"{bars:.2f}", f"{bars / without - 1:+.1%}", f"{share:.2%}"))
    table(rows)


if __name__ == "__main__":
    main()
