"""How long does `import inference` take, against `import numpyro, arviz` alone? At most 1.3 times as long is the goal.

Each import runs in a process of its own, the two kinds in turn; the medians are compared.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

__all__ = ["main"]

_REPEATS = 7


def main() -> None:
    """Print both medians and their ratio."""
    statements = {"numpyro, arviz": "import numpyro, arviz", "inference": "import inference"}
    seconds: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(_REPEATS):
        for name, statement in statements.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, "-W", "ignore", "-c", statement], check=True)
            seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, median in medians.items():
        print(f"import {name:16} {median:.2f} s")
    print(f"ratio {medians['inference'] / medians['numpyro, arviz']:.2f} (goal: at most 1.3)")


if __name__ == "__main__":
    main()
