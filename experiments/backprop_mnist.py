r"""Bayes by Backprop on MNIST: tables 1 and 2 of Blundell et al. (2015).

Two hidden ReLU layers and a softmax, fitted to 50,000 images whose pixels, 0 to 255, are divided by 126. The guide is
one normal per weight, q(w) = N(mu, sigma^2) (see `inference.variational.gaussian`). It minimises the free energy

    F(q) = KL(q || prior) - E_q[log p(y | x, w)]

in minibatches, under each of two priors:

    Gaussian        p(w) = N(w; 0, scale^2)
    scale mixture   p(w) = pi N(w; 0, scale1^2) + (1 - pi) N(w; 0, scale2^2),    scale2 << scale1    (equation 7)

A third network is a point estimate: maximum likelihood by the same optimiser, where the paper has SGD. The test error
is that of the average of the class probabilities over draws from the guide. For table 2 the weights with the lowest
signal-to-noise ratio |mu| / sigma under the scale mixture are set to 0.

The paper searches pi in {1/4, 1/2, 3/4}, -log scale1 in {0, 1, 2} and -log scale2 in {6, 7, 8} on 10,000 validation
images, and does not say what was found. Here they are arguments, and the error on these images is printed too. Adam
takes the place of SGD; the learning rate decays to 0. The paper trains for 600 epochs:

    python -m experiments.backprop_mnist --hidden 1200 --epochs 600

Reference: https://arxiv.org/abs/1505.05424.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import data
import inference
import models
from data import Scaler, Split

__all__ = ["PUBLISHED", "PUBLISHED_PRUNED", "TITLES", "backprop_mnist", "fits", "parts", "wrong"]

PUBLISHED = {
    "point": {400: 1.83, 800: 1.84, 1200: 1.88},
    "gaussian": {400: 1.82, 800: 1.99, 1200: 2.04},
    "mixture": {400: 1.36, 800: 1.34, 1200: 1.32},
}
"""Test error in percent, by the units of a hidden layer: table 1, where the point estimate is SGD's."""

PUBLISHED_PRUNED = {0.0: 1.24, 0.5: 1.24, 0.75: 1.24, 0.95: 1.29, 0.98: 1.39}
"""Test error in percent, by the fraction of weights set to 0, with 1,200 units and the scale mixture: table 2."""

_ROWS = 50_000  # to fit; those that follow, up to the official test part, are for validation
_WHITE = 126  # what pixels are divided by
TITLES = {"point": "point estimate", "gaussian": "Gaussian prior", "mixture": "scale mixture prior"}
"""What each of the three networks is."""


def backprop_mnist(
    hidden: Annotated[int, typer.Option(help="Units of each of the two hidden layers.")] = 400,
    epochs: Annotated[int, typer.Option(help="Of training.")] = 60,
    batch: Annotated[int, typer.Option(help="Images per step.")] = 128,
    train: Annotated[int, typer.Option(min=1, max=_ROWS, help="Images to learn from.")] = _ROWS,
    learning_rate: Annotated[float, typer.Option(help="Of the guides, at its peak.")] = 0.001,
    first_scale: Annotated[float, typer.Option(help="Every standard deviation of the guides at the start.")] = 0.005,
    point_rate: Annotated[float, typer.Option(help="Learning rate of the point estimate, at its peak.")] = 0.001,
    estimator: Annotated[str, typer.Option(help='"weights", "local" or "flipout".')] = "weights",
    kl_weights: Annotated[str, typer.Option(help='"uniform" or "blundell", the equation 9.')] = "uniform",
    scale: Annotated[float, typer.Option(help="Of the Gaussian prior.")] = math.exp(-2),
    pi: Annotated[float, typer.Option(help="Weight of the wide part of the scale mixture.")] = 0.5,
    scale1: Annotated[float, typer.Option(help="Of its wide part.")] = math.exp(-1),
    scale2: Annotated[float, typer.Option(help="Of its narrow part.")] = math.exp(-6),
    draws: Annotated[int, typer.Option(help="From a guide, for its predictions.")] = 10,
    seed: Annotated[int, typer.Option(help="Of starts, minibatches and draws.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The last line is a JSON object.")] = False,
) -> None:
    """Fit the three networks, prune the last, and print ours beside the published errors."""
    console = Console()
    began = time.perf_counter()
    training, validation, test = parts(train)
    batch = min(batch, train)
    steps = train // batch
    console.print(f"MNIST: 2 x {hidden} units, {train} images, {epochs} epochs of {steps} steps", highlight=False)

    common = {"steps": epochs * steps, "batch_size": batch, "seed": seed}
    guided = {
        "estimator": estimator, "kl_weights": kl_weights, "learning_rate": learning_rate, "first_scale": first_scale,
        "draws": draws,
    }  # fmt: skip
    priors = models.Normal(scale), models.ScaleMixture(pi, scale1, scale2)
    errors = {}
    for name, (network, options) in fits(hidden, common, guided, point_rate, *priors).items():
        posterior = inference.run(network, training, progress=False, **options)
        errors[name] = _error(posterior, test)
        console.print(
            f"  {TITLES[name]}: validation error {_error(posterior, validation):.2f} % "
            f"({time.perf_counter() - began:.0f} s)",
            highlight=False,
        )
    pruned = {fraction: _error(inference.prune(posterior, fraction), test) for fraction in PUBLISHED_PRUNED}
    weights = sum(ratio.size for ratio in inference.signal_to_noise(posterior).values())

    console.print(_table(hidden, errors, len(test.y)), _pruning_table(hidden, pruned, weights))
    console.print(f"{time.perf_counter() - began:.0f} seconds", highlight=False)
    if as_json:
        print(json.dumps({"hidden": hidden, "epochs": epochs, "train": train, "error": errors, "pruned": pruned}))


def fits(
    hidden: int,
    common: Mapping[str, Any],
    guided: Mapping[str, Any],
    point_rate: float,
    gaussian: models.Prior,
    mixture: models.Prior,
) -> dict[str, tuple[models.Network, dict[str, Any]]]:
    """The three networks and the options of their runs: those `common` to all, and those of what is `guided`."""
    svi = {"method": "svi", "guide": "gaussian", "start": "random", "first_scale": 0.005, **common, **guided}

    def network(prior: models.Prior) -> models.Network:
        return models.mlp((hidden, hidden), "relu", prior=prior, likelihood=models.Categorical(10))

    return {
        "point": (network(models.Flat()), {"method": "mle", "learning_rate": point_rate, **common}),
        "gaussian": (network(gaussian), svi),
        "mixture": (network(mixture), svi),
    }


def parts(train: int) -> tuple[Split, Split, Split]:
    """Images to fit, to validate and to test, scaled as in the paper and not standardised."""
    dataset = data.load("mnist")
    assert dataset.standard is not None
    known, test = dataset.standard(0)
    scaler = Scaler(np.zeros(()), np.array(float(_WHITE)), np.zeros(()), np.ones(()))

    def part(rows: np.ndarray, role: str) -> Split:
        x = dataset.x[rows].reshape(len(rows), -1) / np.float32(_WHITE)
        return Split(x, dataset.y[rows], scaler, f"mnist, {role}", dataset.classes)

    return part(known[:train], "train"), part(known[_ROWS:], "validation"), part(test, "test")


def wrong(posterior: inference.Posterior, part: Split) -> np.ndarray:
    """Which images have another label than the most probable one under the average over draws."""
    return posterior.predict(part.x).mean.argmax(axis=1) != part.y


def _error(posterior: inference.Posterior, part: Split) -> float:
    """How many images are wrong, in percent."""
    return float(100 * np.mean(wrong(posterior, part)))


def _table(hidden: int, errors: dict[str, float], images: int) -> Table:
    table = Table("", "ours", "published", title=f"Test error in % with 2 x {hidden} units, and its standard error")
    for name, error in errors.items():
        deviation = math.sqrt(error * (100 - error) / images)
        published = PUBLISHED[name].get(hidden)
        table.add_row(TITLES[name], f"{error:.2f} ± {deviation:.2f}", "" if published is None else f"{published:.2f}")
    return table


def _pruning_table(hidden: int, pruned: dict[float, float], weights: int) -> Table:
    table = Table(
        "removed", "weights left", f"ours, 2 x {hidden}", "published, 2 x 1200", title="Test error in %, pruned"
    )
    for fraction, error in pruned.items():
        left = weights - round(fraction * weights)
        table.add_row(f"{fraction:.0%}", f"{left:,}", f"{error:.2f}", f"{PUBLISHED_PRUNED[fraction]:.2f}")
    return table


if __name__ == "__main__":
    typer.run(backprop_mnist)
