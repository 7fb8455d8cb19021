r"""MC dropout on UCI regression with two hidden layers beside one: does depth pay?

The protocol is that of `experiments.dropout_uci` (Gal & Ghahramani 2016), for either depth: layers of 50 ReLU units,
one dropout rate, and a noise precision tau that is chosen by split from the set's published grid, on the last fifth of
its training rows. What is shortened: one rate in place of four, and 400 epochs, the authors' first number, or fewer
where a set is large. The published pair that is alike in its protocol is "10x" and "2 layers" of the authors' result
files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

import data
from experiments.deciding import dots, pooled
from experiments.dropout_uci import BATCH, fit_and_score, validation
from experiments.study import Finding, Laboratory, Study, decided, mean_and_error
from inference.display.tables import Table, with_error

__all__ = ["PUBLISHED", "STUDIES", "of_depths"]

PUBLISHED = {
    "boston": ((2.7981, -2.3893), (2.7963, -2.3443)),
    "concrete": ((4.8147, -2.9403), (4.5037, -2.8246)),
    "energy": ((1.0865, -1.7174), (0.4736, -1.4786)),
    "kin8nm": ((0.0946, 0.9726), (0.0800, 1.1013)),
    "naval": ((0.0047, 3.9182), (0.0009, 4.3155)),
    "power": ((3.9980, -2.7866), (3.6288, -2.6746)),
    "protein": ((4.2745, -2.8716), (3.6160, -2.7007)),
    "wine": ((0.6128, -0.9211), (0.6030, -0.8984)),
    "yacht": ((0.7243, -1.3753), (0.6565, -1.3701)),
}
"""RMSE and log-likelihood of one and of two layers, from the result files of the authors' first protocol."""

_UNITS = 50
_CHOICE_PASSES = 500


def dropout_depth(
    lab: Laboratory, sets: Mapping[str, int], rate: float, epochs: int, most_steps: int, passes: int, seed: int
) -> Finding:
    """Both depths on the first splits of each of the `sets`."""
    found = {}
    for name, splits in sets.items():
        found[name] = np.stack(
            [_scores(name, splits, depth, rate, epochs, most_steps, passes, seed) for depth in (1, 2)]
        )
        lab.say(f"{name}: log-likelihood {found[name][:, 1].mean(axis=1).round(3).tolist()} with one and two layers")
    return of_depths(found)


def _scores(
    name: str, splits: int, depth: int, rate: float, epochs: int, most_steps: int, passes: int, seed: int
) -> np.ndarray:
    """RMSE and log-likelihood, (2, split)."""
    dataset = data.load(name)
    if "tau_grid" not in dataset.extras:
        raise ValueError(f"'{name}' came without a grid of tau, from which the precision is chosen; leave it out")
    taus = [float(tau) for tau in dataset.extras["tau_grid"]]
    whole = [dataset.split(index=i) for i in range(splits)]
    inner = [validation(dataset, i) for i in range(splits)]
    epochs = max(1, min(epochs, most_steps // math.ceil(len(whole[0][0]) / BATCH)))
    layers, rates = (_UNITS,) * depth, [rate] * splits
    scores = [fit_and_score(inner, layers, rates, [tau] * splits, epochs, _CHOICE_PASSES, seed)[1] for tau in taus]
    chosen = [taus[k] for k in np.argmax(scores, axis=0)]
    return np.stack(fit_and_score(whole, layers, rates, chosen, epochs, passes, seed))


def of_depths(found: Mapping[str, np.ndarray]) -> Finding:
    """The finding, from RMSE and log-likelihood by set, (depth, 2, split)."""
    effects = {name: mean_and_error(scores[1, 1] - scores[0, 1]) for name, scores in found.items()}
    gain, error = pooled(effects.values())
    rows = []
    for name, scores in found.items():
        for depth in (0, 1):
            ours = [with_error(*mean_and_error(values)) for values in scores[depth]]
            away = with_error(*effects[name], sign=True) if depth else ""
            published = [f"{number:g}" for number in PUBLISHED[name][depth]]
            rows.append((f"{name}, {depth + 1} layer{'s' * depth}", *ours, away, *published))
    columns = ("", "RMSE", "log-likelihood", "two minus one", "RMSE, published", "log-likelihood, published")
    words = {name: PUBLISHED[name][1][1] - PUBLISHED[name][0][1] for name in found}
    return Finding(
        decided(gain, error),
        f"The second layer changes the log-likelihood by {with_error(gain, error, sign=True)} on average over the "
        "sets; "
        + ", ".join(f"{name} {with_error(*each, sign=True)}" for name, each in effects.items()) + ".",
        (Table("MC dropout, mean ± standard error over splits", columns, rows),),
        {name: {"rmse": scores[:, 0], "log_likelihood": scores[:, 1]} for name, scores in found.items()},
        lambda: dots(
            {"log-likelihood, two layers minus one": effects}, {"log-likelihood, two layers minus one": words},
            "nats (cross: published)",
        ),
    )  # fmt: skip


STUDIES = (
    Study(
        "dropout_depth",
        "MC dropout with two hidden layers",
        "Does a second hidden layer of 50 units raise the test log-likelihood of MC dropout?",
        "The differences are paired by split, and their means are averaged over the sets. Confirmed if that is above 0 "
        "by more than two standard errors (of the splits, which share rows), contradicted if it is as far below.",
        "Gal & Ghahramani 2016 and their result files: with two layers the log-likelihood is higher on all nine sets "
        "(boston -2.389 and -2.344, concrete -2.940 and -2.825, naval 3.918 and 4.316, yacht -1.375 and -1.370).",
        dropout_depth,
        {
            "sets": {"boston": 20, "concrete": 20, "yacht": 20, "naval": 3}, "rate": 0.005, "epochs": 400,
            "most_steps": 2000, "passes": 2000, "seed": 0,
        },
        {"sets": {"yacht": 2}, "epochs": 2, "passes": 20},
        needs=("boston", "concrete", "yacht", "naval"),
    ),
)  # fmt: skip
