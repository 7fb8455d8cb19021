"""Does a gradient over many rows cost more per row than over few, and what does it hold in memory?

A 2x100 network with 50 inputs: the gradient of 1,000 rows, of 100,000 rows at once and in blocks, and of 1,000,000 rows
in blocks. Goals: at 1,000,000 rows at most 1.2 times the cost per row of 1,000 rows, and a run under 4 GiB.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial

import jax
import numpy as np

import models
from benchmarks.timing import medians, table
from inference.target.binding import bind
from inference.target.density import Data, Position, Target

__all__ = ["main"]

_MODEL = models.mlp((100, 100), "relu", likelihood=models.Gaussian(scale=0.5))
_RUN = """
import resource
import numpy as np
import inference, models
from benchmarks.rows import rows
x, y = rows(1_000_000)
model = models.mlp((100, 100), "relu", likelihood=models.Gaussian(scale=0.5))
inference.run(model, x, y, method="hmc", chains=2, draws=1, warmup=0, step_size=1e-4, trajectory_length=3e-4,
              jitter=0.0, progress=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Data of 50 inputs."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal((count, 50), np.float32)
    return x, np.sin(x[:, 0])


@partial(jax.jit, static_argnames=("target", "repeats"))
def _gradients(target: Target, repeats: int, position: Position, data: Data) -> Position:
    def step(_: int, position: Position) -> Position:
        gradient = jax.grad(target.log_density)(position, data)
        return jax.tree.map(lambda u, g: u + 1e-9 * g, position, gradient)

    return jax.lax.fori_loop(0, repeats, step, position)


def _case(count: int, chunk_size: int | None, repeats: int) -> Callable[[], object]:
    target, data = bind(_MODEL, rows(count), 1.0, "posterior", chunk_size)[:2]
    data = jax.device_put(data)
    position, _ = target.start(jax.random.key(0), data)
    return lambda: jax.block_until_ready(_gradients(target, repeats, position, data))


def main() -> None:
    """Print nanoseconds per row, the ratio, and the memory of a whole run."""
    cases = {
        "1,000 rows": (1000, None, 200),
        "100,000 rows at once": (100_000, 100_000, 2),
        "100,000 rows in blocks": (100_000, None, 2),
        "1,000,000 rows in blocks": (1_000_000, None, 1),
    }
    seconds = medians({name: _case(*case) for name, case in cases.items()}, repeats=3)
    per_row = {name: seconds[name] / (count * repeats) for name, (count, _, repeats) in cases.items()}
    first = per_row["1,000 rows"]
    table(
        [("", "ns per row", "against 1,000 rows")]
        + [(name, f"{each * 1e9:.0f}", f"{each / first:.2f}") for name, each in per_row.items()]
    )
    print(f"1,000,000 rows against 1,000: {per_row['1,000,000 rows in blocks'] / first:.2f} (goal: at most 1.2)")
    memory = float(subprocess.run([sys.executable, "-c", _RUN], capture_output=True, text=True, check=True).stdout)
    print(f"a run on 1,000,000 rows: {memory:.2f} GiB (goal: below 4)")


if __name__ == "__main__":
    main()
