r"""MC dropout on UCI regression: the table of Gal & Ghahramani (2016), by the protocol that its authors gave in 2018.

One hidden ReLU layer of 50 units (100 for protein), 20 standard splits (5 for protein). For each split a rate and a
noise precision tau are chosen on the last fifth of the training rows by log-likelihood, then the network is fitted to
all training rows; test rows are seen once, at the end. The log-likelihood of a test row is that of the average over
10,000 stochastic passes, in the units of the data; the RMSE is that of their mean.

The protocol is written for a mean squared error with weight decay l^2 (1 - p) / (2 N tau), l = 0.01, and masks that are
scaled up by 1 / (1 - p). In the terms of a free energy (see `inference.variational.dropout`), with targets standardised
by s_y:

    likelihood   Gaussian(scale = 1 / (sqrt(tau) s_y))
    prior        Normal(scale = sqrt(2) / (l (1 - p) s_y)) on weights, flat on biases
    guide        dropout at rate p on the inputs of both layers, sigma = 0

Adam takes as many steps as 4,000 epochs of batches of 128 have (2,000 for protein). Its learning rate is 0.001 on
average, as there, and here decays from 0.002 to 0. All splits of a grid point are fitted in one compiled call.

    python -m experiments.dropout_uci --data boston
"""

from __future__ import annotations

import json
import math
import time
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import data
import inference
import models
from data import Dataset, Split

__all__ = ["BATCH", "PUBLISHED", "dropout_uci", "fit_and_score", "validation"]

PUBLISHED = {
    "boston": (2.9036, 0.1768, -2.4019, 0.0417),
    "concrete": (4.8265, 0.1605, -2.9367, 0.0248),
    "energy": (0.5389, 0.0135, -1.2115, 0.0053),
    "kin8nm": (0.0789, 0.0006, 1.1364, 0.0066),
    "naval": (0.00074261, 0.0000464, 4.44954, 0.00216),
    "power": (4.0142, 0.0368, -2.8078, 0.0086),
    "protein": (4.2742, 0.0209, -2.8713, 0.0015),
    "wine": (0.6218, 0.0080, -0.9281, 0.0127),
    "yacht": (0.6663, 0.0486, -1.2501, 0.0153),
}
"""RMSE and log-likelihood, each with its standard error over splits, from the result files of the code of 2018."""

_LENGTH = 0.01  # the l of the protocol
BATCH = 128
_LARGE = {"protein": (100, 2000)}  # hidden units and epochs
_USUAL = (50, 4000)
_CHOICE_PASSES = 1000
_FRACTION = 0.8  # of the training rows that a grid point is fitted to; the others choose


def dropout_uci(
    name: Annotated[str, typer.Option("--data", help="A UCI set, such as boston.")] = "boston",
    splits: Annotated[int | None, typer.Option(min=1, help="Only the first so many.")] = None,
    tau_grid: Annotated[str | None, typer.Option(help='Precisions to choose from: "0.1,0.15,0.2".')] = None,
    rate_grid: Annotated[str | None, typer.Option(help='Rates to choose from: "0.005,0.05".')] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of training.")] = None,
    passes: Annotated[int, typer.Option(min=1, help="Stochastic passes for the test scores.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, help="Of starts, minibatches and masks.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The last line is a JSON object.")] = False,
) -> None:
    """Run the protocol on one data set, and print ours beside the published figures."""
    console = Console()
    began = time.perf_counter()
    dataset = data.load(name)
    taus = _grid("tau", tau_grid, dataset)
    rates = _grid("rate", rate_grid, dataset)
    hidden, usual_epochs = _LARGE.get(name, _USUAL)
    epochs = epochs or usual_epochs
    count = min(splits or dataset.standard_splits, dataset.standard_splits)
    whole = [dataset.split(index=i) for i in range(count)]
    inner = [validation(dataset, i) for i in range(count)]
    console.print(f"{name}: {count} splits, {len(taus) * len(rates)} grid points, {epochs} epochs", highlight=False)

    scores = np.empty((len(rates), len(taus), count))
    for i, rate in enumerate(rates):
        for j, tau in enumerate(taus):
            _, scores[i, j] = fit_and_score(
                inner, (hidden,), [rate] * count, [tau] * count, epochs, _CHOICE_PASSES, seed
            )
            console.print(
                f"  rate {rate:g}, tau {tau:g}: validation log-likelihood {scores[i, j].mean():.4f} "
                f"({time.perf_counter() - began:.0f} s)",
                highlight=False,
            )
    best = [np.unravel_index(int(scores[:, :, k].argmax()), scores.shape[:2]) for k in range(count)]
    chosen = [(rates[i], taus[j]) for i, j in best]
    rmse, log_likelihood = np.empty(count), np.empty(count)
    for rate in sorted({rate for rate, _ in chosen}):  # a rate is part of the program, a precision is not
        mine = [k for k in range(count) if chosen[k][0] == rate]
        rmse[mine], log_likelihood[mine] = fit_and_score(
            [whole[k] for k in mine], (hidden,), [rate] * len(mine), [chosen[k][1] for k in mine], epochs, passes, seed
        )
    console.print(_table(name, rmse, log_likelihood))
    console.print(f"chosen (rate, tau): {chosen}\n{time.perf_counter() - began:.0f} seconds", highlight=False)
    if as_json:
        print(json.dumps({"data": name, "rmse": rmse.tolist(), "log_likelihood": log_likelihood.tolist()}))


def fit_and_score(
    pairs: list[tuple[Split, Split]],
    layers: tuple[int, ...],
    rates: list[float],
    taus: list[float],
    epochs: int,
    passes: int,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Fit all first parts side by side, score all second ones: RMSE and mean log-likelihood in the data's units."""
    networks = [
        _network(layers, rate, tau, float(train.scaler.y_scale))
        for (train, _), rate, tau in zip(pairs, rates, taus, strict=True)
    ]
    rows = len(pairs[0][0])
    posteriors = inference.run_folds(
        networks, [train for train, _ in pairs], method="svi", guide="dropout", rate=rates[0],
        steps=epochs * math.ceil(rows / BATCH), batch_size=min(BATCH, rows), learning_rate=0.002, draws=passes,
        seed=seed, progress=False,
    )  # fmt: skip
    rmse, log_likelihood = np.empty(len(pairs)), np.empty(len(pairs))
    for k, (posterior, (_, test)) in enumerate(zip(posteriors, pairs, strict=True)):
        prediction = test.restore(posterior.predict(test))
        rmse[k] = np.sqrt(np.mean((prediction.mean - test.y_original) ** 2))
        log_likelihood[k] = prediction.log_prob(test.y_original).mean()
    return rmse, log_likelihood


def _network(layers: tuple[int, ...], rate: float, tau: float, scale: float) -> models.Network:
    """The network of the protocol, for targets divided by a scale."""
    width = math.sqrt(2) / (_LENGTH * (1 - rate) * scale)
    return models.mlp(
        layers, "relu", prior={"weight": models.Normal(width), "bias": models.Flat()},
        likelihood=models.Gaussian(scale=1 / (math.sqrt(tau) * scale)),
    )  # fmt: skip


def validation(dataset: Dataset, index: int) -> tuple[Split, Split]:
    """The training part of a standard split, cut into what fits a grid point and what judges it."""
    assert dataset.standard is not None
    rows, _ = dataset.standard(index)
    cut = int(_FRACTION * len(rows))
    parts = np.arange(cut), np.arange(cut, len(rows))
    inner = Dataset(dataset.name, dataset.x[rows], dataset.y[rows], standard=lambda _: parts, standard_splits=1)
    return inner.split()


def _grid(what: str, given: str | None, dataset: Dataset) -> list[float]:
    if given is not None:
        return [float(word) for word in given.split(",")]
    if f"{what}_grid" not in dataset.extras:
        raise typer.BadParameter(f"'{dataset.name}' came without a grid of {what}; give --{what}-grid")
    return [float(value) for value in dataset.extras[f"{what}_grid"]]


def _table(name: str, rmse: np.ndarray, log_likelihood: np.ndarray) -> Table:
    table = Table("", "RMSE", "log-likelihood", title=f"MC dropout on {name}, mean and standard error over splits")
    ours = [f"{values.mean():.5g} ± {values.std() / np.sqrt(len(values)):.2g}" for values in (rmse, log_likelihood)]
    table.add_row(f"ours, {len(rmse)} splits", *ours)
    if name in PUBLISHED:
        error, its, score, own = PUBLISHED[name]
        table.add_row("published", f"{error:.5g} ± {its:.2g}", f"{score:.5g} ± {own:.2g}")
    return table


if __name__ == "__main__":
    typer.run(dropout_uci)
