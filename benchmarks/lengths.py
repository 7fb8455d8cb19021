"""Which rule finds a good trajectory length: how far the slowest functions move, or ChEES on the weights?

On each problem HMC runs with six lengths, from pi/2 in scaled coordinates to 5.7 times that, with its pilot's scales.
What a length is worth is known from the whole run: the least bulk or tail ESS of the functions at 30 inputs, per
leapfrog step. A rule sees what a pilot sees, ten draws of each of four chains and length, and takes a length; its score
is what that is worth over what the best one is, the mean over many such pilots. ChEES (Hoffman, Radul & Sountsov 2021)
is the change of the squared distance from the mean, E (|w' - m|^2 - |w - m|^2)^2 / 4, here per leapfrog step. Nothing
is timed.

    python -m benchmarks.lengths --problems diabetes
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import inference
from benchmarks.timing import table
from benchmarks.verdict import PROBLEMS, problem
from inference import mixing
from inference.mcmc.hmc_adaptation import MULTIPLES
from inference.mcmc.hmc_pilot import best_length
from inference.results.network_outputs import function_values, network_outputs

__all__ = ["Runs", "chees", "main"]

_DRAWS, _SEEN = 400, 10


class Runs(NamedTuple):
    """What runs with several lengths drew, each array (length, chain, draw, ...).

    Attributes:
        steps: leapfrog steps of each draw.
        functions: at the probes.
        weights: of the network.
    """

    steps: np.ndarray
    functions: np.ndarray
    weights: np.ndarray

    def seen(self, first: int) -> Runs:
        """The draws from `first` on that a pilot sees."""
        return Runs(*(each[:, :, first : first + _SEEN + 1] for each in self))


def _functions(runs: Runs) -> int:
    """The place that HMC's pilot takes."""
    places = np.broadcast_to(np.arange(len(runs.steps))[:, None, None], runs.steps.shape)

    def rows(values: np.ndarray) -> np.ndarray:
        return values.reshape(-1, *values.shape[2:])

    return best_length(rows(places), rows(runs.steps), rows(runs.functions))[1]


def chees(runs: Runs) -> int:
    """The place of the length with the largest ChEES criterion per leapfrog step."""
    away = ((runs.weights - runs.weights.mean(axis=(0, 1, 2))) ** 2).sum(axis=-1)
    criterion = (np.diff(away, axis=2) ** 2).mean(axis=(1, 2)) / 4
    return int(np.argmax(criterion / runs.steps[:, :, 1:].mean(axis=(1, 2))))


RULES: dict[str, Callable[[Runs], int]] = {
    "functions (HMC's pilot)": _functions,
    "ChEES per step": chees,
    "always pi/2": lambda runs: 0,
    "always the longest": lambda runs: len(runs.steps) - 1,
}


def main() -> None:
    """Print what each length is worth on each problem, and the score of each rule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS), metavar="NAME")
    names = parser.parse_args().problems
    columns = []
    for name in names:
        runs, worth = _made(name)
        pilots = [runs.seen(first) for first in range(0, _DRAWS - _SEEN, _SEEN)]
        scores = [np.mean([worth[rule(pilot)] for pilot in pilots]) / worth.max() for rule in RULES.values()]
        columns.append([*(f"{each:.2f}" for each in worth), *(f"{score:.2f}" for score in scores)])
    heads = [*(f"ESS per 1,000 steps, {multiple:.1f} x pi/2" for multiple in MULTIPLES), *RULES]
    table([("", *names), *((head, *row) for head, *row in zip(heads, *columns, strict=True))])


def _made(name: str) -> tuple[Runs, np.ndarray]:
    """Runs with each length, and what each is worth."""
    model, train, inputs = problem(name)
    made, worth = [], []
    length: str | float = "prior"  # pi/2 in the pilot's coordinates
    for multiple in MULTIPLES:
        method = inference.HMC(
            draws=_DRAWS, mass="tuned", trajectory_length=length if multiple == 1 else multiple * float(length)
        )
        posterior = inference.run(model, train, method=method, seed=0, progress=False)
        if multiple == 1:
            length = float(np.median(posterior.statistics["trajectory_length"]))
        outputs = network_outputs(model, posterior.draws, inputs)
        functions = function_values(model, outputs, posterior.draws).astype(np.float64)
        steps = posterior.statistics["n_steps"]
        weights = [np.asarray(each).reshape(*steps.shape, -1) for each in posterior.draws.values()]
        made.append((steps, functions, np.concatenate(weights, axis=-1)))
        least = min(mixing.ess(functions, kind).min() for kind in ("bulk", "tail"))
        worth.append(1000 * least / steps.sum())
    return Runs(*(np.stack(each) for each in zip(*made, strict=True))), np.array(worth)


if __name__ == "__main__":
    main()
