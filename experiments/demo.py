"""The demonstration of `make demo`: one network, one real data set, every method, assayed against HMC.

The network is a perceptron with one hidden layer on scikit-learn's diabetes data. HMC with 4 chains is the reference;
the others are a point estimate, a deep ensemble, Laplace's approximation, Bayes by Backprop, MC dropout, SGLD and NUTS,
which samples the same posterior in another way and should so be as close to HMC as HMC is to itself.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import data
import diagnostics
import inference
import models

__all__ = ["demo"]


def demo(
    report: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("report.html"),
    figure: Annotated[Path | None, typer.Option(help="Where to draw the assay alone, as in the README.")] = None,
) -> None:
    """Fit the same network by eight methods, print their comparison and write the report."""
    console = Console(width=120)
    began = time.perf_counter()
    train, test = data.load("diabetes").split(seed=0)
    model = models.mlp(hidden=(20,), activation="tanh", prior=models.Normal(1.0, fan_in=True))
    console.print(f"diabetes: {len(train)} patients to learn from, {len(test)} to predict")
    posteriors = {
        "map": inference.run(model, train, method="map"),
        "ensemble": inference.run(model, train, method="ensemble", chains=5),
        "laplace": inference.run(model, train, method="laplace"),
        "svi": inference.run(model, train, method="svi"),
        "dropout": inference.run(model, train, method="svi", guide="dropout", rate=0.05),
        "sgld": inference.run(model, train, method="sgld", batch_size=64, draws=200),
        "nuts": inference.run(model, train, method="nuts", warmup=200, draws=250, max_tree_depth=7),
        "hmc": inference.run(model, train, method="hmc", chains=4, draws=4000, until={"ess": 400, "rhat": 1.01}),
    }

    comparison = diagnostics.compare(posteriors, test, reference="hmc")
    console.print(f"\n{test.name} part, in its own units\n\n{comparison}\n\n{comparison.closeness}\n", highlight=False)
    console.print(f"hmc: {diagnostics.convergence(posteriors['hmc']).verdict}\n", highlight=False)
    path = diagnostics.report(
        posteriors, test, path=report, reference="hmc", title="Diabetes: eight posteriors of one network"
    )
    if figure is not None:
        diagnostics.plots.assay(comparison).savefig(figure, dpi=110)
    console.print(f"{time.perf_counter() - began:.0f} seconds; the report is in {path}", highlight=False)


if __name__ == "__main__":
    typer.run(demo)
