r"""Both kinds of uncertainty against the share of the training data, and on other data (Kendall & Gal 2017, table 3).

A network with two outputs, mean and noise, is fitted to 1/8, 1/4, 1/2 and all of its training rows by MC dropout, as in
the paper, and by HMC. Test rows are of the same kind as the training rows; the other data are those rows of the set
whose inputs are farthest from the mean of all, of which the network has seen none. Variances are in the data's own
units, and their slopes are of log variance against log rows: a part that vanishes as 1 / n has the slope -1, one that
stays has 0. The paper has two data sets of images; here one table is cut in two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import data
import diagnostics
import inference
import models
from data import Dataset, Split
from experiments.deciding import on_all
from experiments.study import Finding, Laboratory, Study, mean_and_error
from inference.display.tables import Table, with_error

__all__ = ["MODEL", "PUBLISHED", "SHARES", "STUDIES", "by_dropout", "by_hmc", "cut", "of_variances", "slopes"]

SHARES = (0.125, 0.25, 0.5, 1.0)
"""Of the training rows."""

PUBLISHED = {0.25: (0.506, 7.73), 0.5: (0.521, 4.38), 1.0: (0.485, 2.78)}
"""Aleatoric and epistemic variance on Make3D, by the share of its training images."""

MODEL = models.mlp((50,), "relu", models.Normal(1.0, fan_in=True), models.HeteroscedasticGaussian())
"""Mean and noise by 50 ReLU units, N(0, 1 / inputs) on the weights."""

_FAR, _TEST = 0.1, 0.2  # of all rows are other data, of the rest are test rows
_PARTS = ("aleatoric", "epistemic")


def by_dropout(model: models.Network, train: list[Split], steps: int, rate: float, draws: int) -> list[Any]:
    """MC dropout on data sets of one shape, side by side."""
    return inference.run_folds(
        model, train, method="svi", guide="dropout", rate=rate, steps=steps, batch_size=min(128, len(train[0])),
        draws=draws, progress=False,
    )  # fmt: skip


def by_hmc(lab: Laboratory, model: models.Network, train: list[Split], draws: int) -> tuple[list[Any], int]:
    """HMC on each data set, and how many of them have not converged."""
    found = [lab.posterior("hmc", model, each, method="hmc", draws=draws) for each in train]
    return found, sum(not diagnostics.convergence(each).passed for each in found)


def cut(dataset: Dataset, share: float, seed: int) -> tuple[Split, Split, int]:
    """Training rows, then test rows and behind them the other data; and how many of these are test rows."""
    distance = np.square((dataset.x - dataset.x.mean(axis=0)) / np.maximum(dataset.x.std(axis=0), 1e-12)).sum(axis=1)
    order = np.argsort(distance, kind="stable")
    near, other = np.split(order, [len(order) - round(_FAR * len(order))])
    near = np.random.default_rng(seed).permutation(near)
    test, pool = np.split(near, [round(_TEST * len(near))])
    rows = pool[: round(share * len(pool))], np.concatenate([test, other])
    train, rest = Dataset(dataset.name, dataset.x, dataset.y, standard=lambda _: rows, standard_splits=1).split()
    return train, rest, len(test)


def uncertainty_share(
    lab: Laboratory, name: str, splits: int, steps: int, rate: float, draws: int, hmc_splits: int, hmc_draws: int
) -> Finding:
    """Fit all shares of all splits by both methods."""
    dataset = data.load(name)
    found: dict[str, list[Any]] = {"MC dropout": [], "HMC": []}
    rows, failed = [], 0
    for share in SHARES:
        cuts = [cut(dataset, share, seed) for seed in range(splits)]
        train = [each for each, _, _ in cuts]
        rows.append(len(train[0]))
        by = {"MC dropout": by_dropout(MODEL, train, steps, rate, draws)}
        by["HMC"], wrong = by_hmc(lab, MODEL, train[:hmc_splits], hmc_draws)
        failed += wrong
        for method, posteriors in by.items():
            found[method].append([_variances(*each) for each in zip(posteriors, cuts, strict=False)])
        lab.say(f"{rows[-1]} rows are done")
    return of_variances({method: np.array(each).transpose(1, 0, 2, 3) for method, each in found.items()}, rows, failed)


def _variances(posterior: inference.Posterior, parts: tuple[Split, Split, int]) -> np.ndarray:
    """Mean aleatoric and epistemic variance on test rows and on other data, (part, place)."""
    _, rest, count = parts
    prediction = rest.restore(posterior.predict(rest))
    return np.array(
        [[values[:count].mean(), values[count:].mean()] for values in (prediction.aleatoric, prediction.epistemic)]
    )


def slopes(variances: np.ndarray, rows: list[int]) -> np.ndarray:
    """The slope of log variance, (..., share), against log rows, by least squares."""
    logs = np.log(rows) - np.log(rows).mean()
    return np.log(variances) @ logs / (logs @ logs)


def of_variances(found: Mapping[str, np.ndarray], rows: list[int], failed: int = 0) -> Finding:
    """The finding, from variances by method, (split, share, part, place), and the training rows of each share."""
    table, effects = [], {}
    said = []
    for method, each in found.items():
        slope = slopes(each[..., 0].transpose(0, 2, 1), rows)  # on test rows, (split, part)
        away = np.log(each[:, -1, 1, 1] / each[:, -1, 1, 0])
        effects[method] = [mean_and_error(slope[:, 0] - slope[:, 1]), mean_and_error(away)]
        for i, count in enumerate(rows):
            cells = [with_error(*mean_and_error(each[:, i, part, place])) for place in (0, 1) for part in (0, 1)]
            table.append((f"{method}, {count} rows", *cells))
        means = [with_error(*mean_and_error(slope[:, part]), sign=True) for part in (0, 1)]
        said.append(
            f"{method}: slopes of log variance {means[0]} (aleatoric) and {means[1]} (epistemic); on other data the "
            f"epistemic part is {np.exp(away.mean()):.2g} times as large."
        )
    their = slopes(np.array(list(PUBLISHED.values())).T, [1, 2, 4])
    said.append(f"Published, by its three sizes: {their[0]:+.2f} and {their[1]:+.2f}.")
    if failed:
        said.append(f"{failed} of HMC's runs have not converged.")
    columns = ("", *(f"{part}, {place}" for place in ("test rows", "other data") for part in _PARTS))
    lines = {f"{part}, {method}": each[:, :, i, 0] for method, each in found.items() for i, part in enumerate(_PARTS)}
    return Finding(
        on_all(effects["MC dropout"]),
        " ".join(said),
        (Table("Mean variance ± standard error over splits", columns, table),),
        {method: {"rows": rows, "variances": each} for method, each in found.items()} | {"not_converged": failed},
        lambda: diagnostics.plots.lines(
            rows, {name: values if len(values) > 1 else values[0] for name, values in lines.items()},
            xlabel="training rows", ylabel="mean variance on test rows", title="Both kinds of uncertainty", log="xy",
        ),
    )  # fmt: skip


STUDIES = (
    Study(
        "uncertainty_share",
        "Epistemic and aleatoric variance against the share of the data",
        "Does more data lower the epistemic variance and leave the aleatoric one, and is the epistemic one larger "
        "on other data?",
        "Of MC dropout, as published: the slope of the logarithm of the aleatoric variance minus that of the "
        "epistemic one, on test rows, and the logarithm of the epistemic variance on other data over that on test "
        "rows. Confirmed if both means are above 0 by more than two standard errors over splits, contradicted if "
        "one is as far below. HMC is beside it; no rule is about it.",
        "Kendall & Gal 2017, table 3: with 1/4, 1/2 and all of Make3D the epistemic variance is 7.73, 4.38, 2.78 "
        "and the aleatoric one .506, .521, .485; on NYUv2 the epistemic one is 15.0 and 4.87 (1/4 and all).",
        uncertainty_share,
        {
            "name": "concrete", "splits": 6, "steps": 4000, "rate": 0.1, "draws": 500, "hmc_splits": 2,
            "hmc_draws": 500,
        },
        {"splits": 2, "steps": 20, "draws": 10, "hmc_splits": 1, "hmc_draws": 10, "name": "diabetes"},
        needs=("concrete",),
    ),
)  # fmt: skip
