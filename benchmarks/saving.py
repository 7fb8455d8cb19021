"""What does saving into a directory cost, at the default interval, against the same run in memory?

HMC on the 1x50 network and 1,000 rows (draws of 2 kB), and a 2x400 network on 200 rows (draws of 0.65 MB, one every few
leapfrog steps). Each run takes several intervals. Goal: at most 3 % of a run.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import inference
import models
from benchmarks.timing import medians, table

__all__ = ["main"]


def _case(units: tuple[int, ...], rows: int, draws: int, steps: int, durable: bool) -> Callable[[], object]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 8)).astype(np.float32)
    y = np.sin(2 * x[:, 0]).astype(np.float32)
    model = models.mlp(units, "tanh", likelihood=models.Gaussian(scale=0.5))

    def run() -> None:
        folder = Path(tempfile.mkdtemp())
        inference.run(
            model, x, y, method="hmc", chains=2, draws=draws, warmup=0, step_size=1e-3, trajectory_length=1e-3 * steps,
            jitter=0.0, start="random", progress=False, directory=folder / "run" if durable else None,
        )  # fmt: skip
        shutil.rmtree(folder)

    return run


def main() -> None:
    """Print seconds and what saving adds."""
    sizes = {
        "1x50, 1,000 rows, 200 steps a draw": ((50,), 1000, 1500, 200),
        "2x400, 200 rows, 20 steps a draw": ((400, 400), 200, 400, 20),
    }
    rows: list[tuple[str, ...]] = [("", "in memory s", "in a directory s", "more time (goal: at most 3 %)")]
    for name, size in sizes.items():
        found = medians({"memory": _case(*size, False), "directory": _case(*size, True)}, repeats=3)
        more = found["directory"] / found["memory"] - 1
        rows.append((name, f"{found['memory']:.1f}", f"{found['directory']:.1f}", f"{more:.1%}"))
    table(rows)


if __name__ == "__main__":
    main()
