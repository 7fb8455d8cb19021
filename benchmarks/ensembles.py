"""How long does an ensemble of 8 take against one member, and what does showing progress cost?

The 1x50 network on 1,000 rows of 8 inputs, on as many cores as there are. Goals on two cores: at most 3 times one
member; progress at most 3 % of a run.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable

import numpy as np

import inference
import models
from benchmarks.timing import medians, table

__all__ = ["main"]


def main() -> None:
    """Print the seconds of each and the ratios."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1000, 8)).astype(np.float32)
    y = np.sin(2 * x[:, 0]).astype(np.float32)
    model = models.mlp((50,), "tanh")

    def ensemble(members: int, batch_size: int | None) -> Callable[[], object]:
        return lambda: inference.run(
            model, x, y, method="ensemble", chains=members, batch_size=batch_size, progress=False
        )

    def sampler(progress: bool) -> Callable[[], object]:
        def run() -> None:
            with contextlib.redirect_stderr(_Terminal()):
                inference.run(
                    model, x, y, method="hmc", chains=4, draws=100, warmup=0, step_size=0.003, trajectory_length=0.6,
                    jitter=0.0, start="random", progress=progress,
                )  # fmt: skip

        return run

    seconds = medians(
        {
            "one member": ensemble(1, None),
            "8 members": ensemble(8, None),
            "one member, batches of 128": ensemble(1, 128),
            "8 members, batches of 128": ensemble(8, 128),
        }
    )
    table([("", "s"), *((name, f"{each:.2f}") for name, each in seconds.items())])
    print(f"8 members against one: {seconds['8 members'] / seconds['one member']:.2f} (goal: at most 3)")
    ratio = seconds["8 members, batches of 128"] / seconds["one member, batches of 128"]
    print(f"8 members against one, batches of 128: {ratio:.2f}")
    shown = medians({"without": sampler(False), "with": sampler(True)}, repeats=9)
    print(f"progress bars: {shown['with'] / shown['without'] - 1:.1%} of a run (goal: at most 3 %)")


class _Terminal(io.StringIO):
    """Takes what a terminal would show."""

    def isatty(self) -> bool:
        return True


if __name__ == "__main__":
    main()
