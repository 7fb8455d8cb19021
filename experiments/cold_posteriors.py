r"""Is a cold posterior better? The temperature study of Izmailov et al. (2021), on a small network and real data.

The posterior is raised to the power 1 / T, likelihood and prior alike, and sampled by full-batch HMC whose trajectory
and step are scaled with it. A cold-posterior effect is a T below 1 that scores better than T = 1. The paper finds none
for a CNN-LSTM on IMDB without augmentation: T = 1 is best in accuracy and log-likelihood, though not in calibration.

    python -m experiments.cold_posteriors --data breast_cancer

The prior's scale, 10, was chosen from 1, 3, 10 and 30 on a part of the training rows, as the paper chose its own.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import data
import inference
import models

__all__ = ["PUBLISHED", "cold_posteriors", "network"]

PUBLISHED = {
    0.03: (0.772, -0.471, 0.012),
    0.1: (0.797, -0.427, 0.012),
    0.3: (0.830, -0.378, 0.021),
    1.0: (0.865, -0.315, 0.034),
    3.0: (0.830, -0.419, 0.101),
    10.0: (0.672, -0.660, 0.133),
}
"""Accuracy, log-likelihood and calibration error on IMDB by temperature, read from the paper's figure (± 0.002)."""


def network(prior_scale: float, hidden: int, classes: int | None) -> models.Network:
    """One hidden tanh layer; the prior's scale is divided by the root of each layer's inputs."""
    likelihood: models.Likelihood = models.Gaussian()
    if classes is not None:
        likelihood = models.Bernoulli() if classes == 2 else models.Categorical(classes)
    return models.mlp((hidden,), "tanh", prior=models.Normal(prior_scale, fan_in=True), likelihood=likelihood)


def cold_posteriors(
    name: Annotated[str, typer.Option("--data", help="A data set.")] = "breast_cancer",
    hidden: Annotated[int, typer.Option(help="Units of the hidden layer.")] = 10,
    prior_scale: Annotated[float, typer.Option(help="Of the weights, times the root of a layer's inputs.")] = 10.0,
    chains: Annotated[int, typer.Option(help="Of each run.")] = 2,
    draws: Annotated[int, typer.Option(help="Of each chain.")] = 1000,
    seeds: Annotated[int, typer.Option(help="Runs at each temperature.")] = 3,
    plot: Annotated[Path | None, typer.Option(help="Where to write the figure.")] = None,
) -> None:
    """Sweep over the paper's temperatures, and print ours beside its finding."""
    console = Console()
    began = time.perf_counter()
    train, test = (part.flat() for part in data.load(name).split(seed=0, test=0.5))
    console.print(f"{name}: {len(PUBLISHED) * seeds} runs of HMC, which take some minutes", highlight=False)
    sweep = inference.sweep(
        network(prior_scale, hidden, train.classes), train, test, temperature=list(PUBLISHED), method="hmc",
        trajectory_length="prior", chains=chains, draws=draws, seeds=seeds, progress=False,
    )  # fmt: skip
    console.print(f"{test.name}, {len(test)} rows\n{sweep}", highlight=False, soft_wrap=True)
    table = Table("temperature", "accuracy", "log-likelihood", "ECE", title="Published: CNN-LSTM on IMDB")
    for temperature, scores in PUBLISHED.items():
        table.add_row(f"{temperature:g}", *(f"{score:.3f}" for score in scores))
    console.print(table)
    console.print(
        f"published: temperature 1 is best in accuracy and log-likelihood\nours: {sweep.conclusion()}\n"
        f"{time.perf_counter() - began:.0f} seconds",
        highlight=False,
    )
    if plot is not None:
        sweep.plot(plot)


if __name__ == "__main__":
    typer.run(cold_posteriors)
