"""The demonstration of `make demo`: one network, one real data set, three methods, one table and one report.

The network is a perceptron with one hidden layer on scikit-learn's diabetes data. A deep ensemble gives five sets of
weights, Gaussian SVI a cheap posterior, HMC with 4 chains the one that the others are compared with.
"""

from __future__ import annotations

import time
from pathlib import Path

import typer
from rich.console import Console

import data
import diagnostics
import inference
import models

__all__ = ["demo"]


def demo(report: Path = Path("report.html")) -> None:
    """Fit the same network by an ensemble, SVI and HMC, print one table and write the report."""
    console = Console()
    began = time.perf_counter()
    train, test = data.load("diabetes").split(seed=0)
    model = models.mlp(hidden=(20,), activation="tanh", prior=models.Normal(1.0, fan_in=True))
    console.print(f"diabetes: {len(train)} patients to learn from, {len(test)} to predict")
    posteriors = {
        "ensemble": inference.run(model, train, method="ensemble", chains=5),
        "svi": inference.run(model, train, method="svi"),
        "hmc": inference.run(model, train, method="hmc", chains=4, draws=4000, until={"ess": 400, "rhat": 1.01}),
    }

    comparison = diagnostics.compare(posteriors, test, reference="hmc")
    console.print(f"\n{test.name} part, in its own units\n{comparison}\n", highlight=False)
    console.print(f"hmc: {diagnostics.convergence(posteriors['hmc']).verdict}", highlight=False)
    path = diagnostics.report(
        posteriors, test, path=report, reference="hmc", title="Diabetes: three posteriors of one network"
    )
    console.print(f"{time.perf_counter() - began:.0f} seconds; the report is in {path}", highlight=False)


if __name__ == "__main__":
    typer.run(demo)
