"""What do several devices bring, and what do sums cost whose bits don't depend on the number of devices?

HMC on a 2x100 tanh network with 8 inputs, float32, on virtual CPU devices; each number of devices is a process of its
own. Goals: 4 chains on 2 devices, or in threads, at least 1.6 times as fast as one after the other on one device; and a
chain whose rows are summed slot by slot, as sharded chains do, at most 1.15 times as slow on one device as one in
threads, which sums as it likes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

__all__ = ["main"]

_STEPS, _STEP, _INPUTS = 50, 0.002, 8
_CHILD = "import sys; from benchmarks.devices import measure; measure(sys.argv[1])"


def _data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, _INPUTS)).astype(np.float32)
    return x, np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]


def _case(arrangement: str, chains: int, rows: int) -> Callable[[int], int]:
    import inference
    import models

    x, y = _data(rows)
    model = models.mlp((100, 100), "tanh", prior=models.Normal(1.0, fan_in=True), likelihood=models.Gaussian(scale=0.8))

    def run(draws: int) -> int:
        posterior = inference.run(
            model, x, y, method="hmc", draws=draws, chains=chains, warmup=0, step_size=_STEP, jitter=0.0, start="prior",
            trajectory_length=_STEP * _STEPS, progress=False, arrangement=arrangement,
        )  # fmt: skip
        return posterior.cost.gradients

    return run


def measure(what: str) -> None:
    """In a process of its own: print the seconds per gradient of each case, as JSON."""
    from benchmarks.timing import slopes

    cases: dict[str, Callable[[int], int]] = {
        " ".join(map(str, case)): _case(*case) for case in map(tuple, json.loads(what))
    }
    print(json.dumps({name: slope for name, (slope, _) in slopes(cases, 2, 12).items()}))


def _on(devices: int, *cases: tuple[Any, ...]) -> list[float]:
    """Microseconds per gradient of each case, (arrangement, chains, rows), in a process with so many devices."""
    flags = f"--xla_force_host_platform_device_count={devices} {os.environ.get('XLA_FLAGS', '')}"
    child = [sys.executable, "-W", "ignore", "-c", _CHILD, json.dumps(cases)]
    output = subprocess.run(child, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, check=True)
    return [1e6 * seconds for seconds in json.loads(output.stdout.splitlines()[-1]).values()]


def main() -> None:
    """Print microseconds per gradient, and ratios."""
    from benchmarks.timing import table

    alone = partial(_on, 1)
    one, threads = alone(("sharded", 4, 1000), ("threads", 4, 1000))
    (two,) = _on(2, ("sharded", 4, 1000))
    rows: list[tuple[str, ...]] = [("4 chains, 1,000 rows", "us per gradient", "times as fast as one device")]
    for name, cost in (("sharded, 1 device", one), ("sharded, 2 devices", two), ("threads", threads)):
        rows.append((name, f"{cost:.0f}", f"{one / cost:.2f}"))
    table(rows)
    print(f"2 devices {one / two:.2f}, threads {one / threads:.2f} (goal: one of them at least 1.6)\n")
    rows = [("1 chain, 1 device", "sums in slots, us", "as it likes, us", "ratio")]
    ratios = []
    for count in (1_000, 10_000):
        slots, free = alone(("sharded", 1, count), ("threads", 1, count))
        ratios.append(slots / free)
        rows.append((f"{count:,} rows", f"{slots:.0f}", f"{free:.0f}", f"{slots / free:.2f}"))
    table(rows)
    print(f"the sums cost {max(ratios):.2f} times (goal: at most 1.15)")


if __name__ == "__main__":
    main()
