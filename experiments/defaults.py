"""What a user who changes nothing gets: every method with its own defaults on every set that needs no download.

One network per set, 20 units (30 on digits) with the library's default activation and prior. Each run is judged by
`diagnostics.convergence`, timed, and scored on the fifth of the rows that was held out, beside HMC with the same seed.

    python -m experiments.defaults
    python -m experiments.defaults --methods hmc,mclmc --sets gap,diabetes --option mclmc.thin=50

The table is in docs/defaults.md; a change of a default is tried here first, on all sets and three seeds. Six sets take
an hour on two cores, and the digits as long again without NUTS; `--results FILE` goes on where it was stopped.
"""

from __future__ import annotations

import ast
import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

import data
import diagnostics
import inference
import models

__all__ = ["METHODS", "SETS", "Result", "defaults", "network", "result", "table"]

METHODS = ("hmc", "nuts", "mclmc", "sgld", "sghmc", "svi", "laplace", "map", "ensemble")
SETS = ("diabetes", "gap", "heteroscedastic_sine", "moons", "wine_cultivars", "breast_cancer", "digits")


@dataclass(frozen=True)
class Result:
    """One run.

    Attributes:
        method: its name.
        name: the name of the data set.
        seed: of the split and of the run.
        passed: the verdict; None where there is nothing to judge.
        numbers: worst R-hat and least ESS of the functions, or k-hat, in a few words.
        seconds: of the run, compilation included.
        log_score: the mean over the test rows.
    """

    method: str
    name: str
    seed: int
    passed: bool | None
    numbers: str
    seconds: float
    log_score: float


def network(split: data.Split) -> models.Network:
    """The network of a set, with the library's default activation and prior."""
    likelihood: models.Likelihood = models.Gaussian()
    if split.classes is not None:
        likelihood = models.Bernoulli() if split.classes == 2 else models.Categorical(split.classes)
    elif split.name.startswith("heteroscedastic"):
        likelihood = models.HeteroscedasticGaussian()
    return models.mlp((30 if split.classes == 10 else 20,), likelihood=likelihood)


def result(method: str, name: str, seed: int, options: dict[str, Any]) -> tuple[Result, diagnostics.Convergence]:
    """Run a method on a set, and judge it."""
    train, test = (part.flat() for part in data.load(name).split(seed=seed, test=0.2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the verdict repeats what a run warns of
        posterior = inference.run(network(train), train, method=method, seed=seed, progress=False, **options)
    judged = diagnostics.convergence(posterior)
    numbers = ""
    if judged.judged is not None:
        numbers = f"{judged.judged.worst_rhat:.3f}, {judged.judged.least_ess:.0f}"
    elif np.isfinite(judged.pareto_k):
        numbers = f"k {judged.pareto_k:.1f}"
    log_score = diagnostics.scores(posterior.predict(test), test)["log_score"]
    return Result(method, name, seed, judged.passed, numbers, posterior.cost.seconds, log_score), judged


def table(results: list[Result]) -> str:
    """Method by set, in Markdown: verdicts of all seeds, median seconds, mean log score minus HMC's."""
    methods, sets = (tuple(dict.fromkeys(getattr(each, by) for each in results)) for by in ("method", "name"))
    hmc = {(each.name, each.seed): each.log_score for each in results if each.method == "hmc"}
    lines = [f"| | {' | '.join(sets)} |", "|---" * (len(sets) + 1) + "|"]
    for method in methods:
        cells = []
        for name in sets:
            runs = [each for each in results if (each.method, each.name) == (method, name)]
            verdicts = " ".join({True: "pass", False: "fail", None: "-"}[each.passed] for each in runs)
            seconds = f"{np.median([each.seconds for each in runs]):.0f} s" if runs else ""
            away = [each.log_score - hmc[name, each.seed] for each in runs if (name, each.seed) in hmc]
            score = f"{np.mean(away):+.3f}" if away and method != "hmc" else ""
            if method == "hmc":
                score = f"log score {np.mean([each.log_score for each in runs]):.3f}"
            cells.append("; ".join(part for part in (verdicts, seconds, score) if part))
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def defaults(
    methods: Annotated[str, typer.Option(help="Names of methods, with commas.")] = ",".join(METHODS),
    sets: Annotated[str, typer.Option(help="Names of data sets, with commas.")] = ",".join(SETS),
    seeds: Annotated[int, typer.Option(help="Runs of each method on each set.")] = 3,
    option: Annotated[
        list[str] | None, typer.Option(help="Another value than the default, such as mclmc.thin=50; repeatable.")
    ] = None,
    verdicts: Annotated[bool, typer.Option(help="Print each verdict and its advice.")] = False,
    results: Annotated[Path | None, typer.Option(help="A file to add results to; what it holds is not run.")] = None,
) -> None:
    """Run the grid, a line per run, then print the table."""
    console = Console(width=160)
    tried: dict[str, dict[str, Any]] = {}
    for each in option or ():
        where, _, value = each.partition("=")
        method, _, name = where.partition(".")
        tried.setdefault(method, {})[name] = ast.literal_eval(value)
    every = _read(results)
    for seed in range(seeds):
        for name in sets.split(","):
            for method in methods.split(","):
                if any((each.method, each.name, each.seed) == (method, name, seed) for each in every):
                    continue
                found, judged = result(method, name, seed, tried.get(method, {}))
                every.append(found)
                if results is not None:
                    with results.open("a") as file:
                        file.write(f"{json.dumps(asdict(found))}\n")
                word = {True: "pass", False: "FAIL", None: "-"}[found.passed]
                console.print(
                    f"{method:9} {name:21} seed {seed}: {word:4} {found.numbers:14} {found.seconds:6.1f} s, "
                    f"log score {found.log_score:.3f}",
                    highlight=False,
                )
                if verdicts:
                    console.print(f"{judged}\n", highlight=False)
    chosen = [each for each in every if each.name in sets.split(",") and each.method in methods.split(",")]
    chosen.sort(key=lambda each: (methods.split(",").index(each.method), sets.split(",").index(each.name), each.seed))
    console.print(f"\n{table(chosen)}", highlight=False, soft_wrap=True)


def _read(path: Path | None) -> list[Result]:
    if path is None or not path.exists():
        return []
    return [Result(**json.loads(line)) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    typer.run(defaults)
