"""What do the scales of a pilot gain? ESS per 1,000 gradients with the prior's scales, a chain's own, and a pilot's.

The least bulk or tail ESS of the functions at 30 inputs over all gradients that a run took, of starts, pilot, warm-up
and draws: nothing here is timed. Four chains of 500 draws on three of the problems of `benchmarks.verdict`.

    python -m benchmarks.scales --problems diabetes
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import inference
from benchmarks.timing import table
from benchmarks.verdict import PROBLEMS, problem
from inference import mixing
from inference.results.network_outputs import function_values, network_outputs

__all__ = ["main"]

_RUNS: dict[str, dict[str, Any]] = {
    "hmc, prior": {"method": "hmc", "trajectory_length": "prior"},
    "hmc, tuned": {"method": "hmc"},
    "nuts, adapted": {"method": "nuts"},
    "nuts, tuned": {"method": "nuts", "mass": "tuned", "warmup": 100},
    "mclmc adjusted, prior": {"method": "mclmc", "adjusted": True},
    "mclmc adjusted, tuned": {"method": "mclmc", "adjusted": True, "mass": "tuned", "warmup": 200},
    "mclmc, prior": {"method": "mclmc", "warmup": 5000, "thin": 20},
    "mclmc, tuned": {"method": "mclmc", "warmup": 5000, "thin": 20, "mass": "tuned"},
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS)[:3], choices=list(PROBLEMS), metavar="NAME")
    names = parser.parse_args().problems
    rows: list[tuple[str, ...]] = [("ESS per 1,000 gradients (R-hat)", *names)]
    for run, options in _RUNS.items():
        rows.append((run, *(_worth(name, options) for name in names)))
    table(rows)


def _worth(name: str, options: dict[str, Any]) -> str:
    """The least ESS per 1,000 gradients and the largest R-hat of a run."""
    model, train, inputs = problem(name)
    posterior = inference.run(model, train, seed=0, progress=False, **options)
    outputs = network_outputs(model, posterior.draws, inputs)
    functions = function_values(model, outputs, posterior.draws).astype(np.float64)
    least = min(mixing.ess(functions, kind).min() for kind in ("bulk", "tail"))
    return f"{1000 * least / posterior.cost.gradients:.1f} ({mixing.rhat(functions).max():.3f})"


if __name__ == "__main__":
    main()
