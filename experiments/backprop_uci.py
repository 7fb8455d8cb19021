r"""Bayes by Backprop on UCI regression: log-likelihoods beside the published column (Wu et al. 2019, table 3).

One hidden layer of 50 ReLU units with two outputs, mean and scale of the noise, N(0, 1 / inputs) on the weights, and
one normal per weight as the guide, fitted to all standard splits side by side (`inference.run_folds`). The published
numbers are those of Monte Carlo variational inference with a noise by input; its prior is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import data
import inference
import models
from experiments.deciding import dots, on_all
from experiments.study import Finding, Laboratory, Study, mean_and_error
from inference.display.tables import Table, with_error

__all__ = ["PUBLISHED", "STUDIES", "of_sets"]

PUBLISHED = {
    "boston": (-2.46, -2.27), "concrete": (-3.07, -2.72), "energy": (-1.03, -0.93), "kin8nm": (1.14, 1.35),
    "naval": (5.94, 7.31), "power": (-2.80, -2.70), "protein": (-2.87, -2.77), "wine": (-0.92, -0.91),
    "yacht": (-0.68, -1.62),
}  # fmt: skip
"""Log-likelihood of Bayes by Backprop, and of HMC (with one noise for all inputs: Bui et al. 2016)."""

_MARGIN = 0.05  # nats: what is called equal


def backprop_uci(lab: Laboratory, sets: Mapping[str, int], steps: int, draws: int, seed: int) -> Finding:
    """Fit the guide to the first splits of each of the `sets`."""
    model = models.mlp((50,), "relu", models.Normal(1.0, fan_in=True), models.HeteroscedasticGaussian())
    found = {}
    for name, splits in sets.items():
        dataset = data.load(name)
        pairs = [dataset.split(index=index) for index in range(splits)]
        options: dict[str, Any] = {"batch_size": min(256, len(pairs[0][0])), "steps": steps, "learning_rate": 0.01}
        posteriors = inference.run_folds(
            model, [train for train, _ in pairs], method="svi", guide="gaussian", estimator="local", draws=draws,
            seed=seed, progress=False, **options,
        )  # fmt: skip
        scores = []
        for posterior, (_, test) in zip(posteriors, pairs, strict=True):
            prediction, y = test.restore(posterior.predict(test)), test.y_original
            scores.append((np.sqrt(np.mean((prediction.mean - y) ** 2)), prediction.log_prob(y).mean()))
        found[name] = np.array(scores).T
        lab.say(f"{name}: log-likelihood {found[name][1].mean():.3f}")
    return of_sets(found)


def of_sets(found: Mapping[str, np.ndarray]) -> Finding:
    """The finding, from RMSE and log-likelihood by set, (2, split)."""
    ours = {name: mean_and_error(scores[1]) for name, scores in found.items()}
    effects = {name: (mean - PUBLISHED[name][0] + _MARGIN, error) for name, (mean, error) in ours.items()}
    rows = [
        (
            name, with_error(*mean_and_error(scores[0])), with_error(*ours[name]), f"{PUBLISHED[name][0]:g}",
            f"{PUBLISHED[name][1]:g}",
        )
        for name, scores in found.items()
    ]  # fmt: skip
    return Finding(
        on_all(effects.values()),
        "Ours minus the published log-likelihood: "
        + ", ".join(f"{name} {mean - PUBLISHED[name][0]:+.2f} ± {error:.2f}" for name, (mean, error) in ours.items())
        + ".",
        (Table(
            "Bayes by Backprop, mean ± standard error over splits",
            ("", "RMSE", "log-likelihood", "published", "published, HMC"), rows,
        ),),
        {name: {"rmse": scores[0], "log_likelihood": scores[1]} for name, scores in found.items()},
        lambda: dots(
            {name: {"Bayes by Backprop": ours[name]} for name in found},
            {name: {"Bayes by Backprop": PUBLISHED[name][0]} for name in found}, "log-likelihood (cross: published)",
        ),
    )  # fmt: skip


STUDIES = (
    Study(
        "backprop_uci",
        "Bayes by Backprop on UCI regression",
        "Are the published log-likelihoods of Bayes by Backprop met?",
        f"On a set: met if ours is above the published mean minus {_MARGIN} by more than two standard errors over the "
        "splits, missed if it is as far below. Confirmed if all are met, contradicted if one is missed.",
        "Wu et al. 2019, table 3 (Monte Carlo variational inference, noise by input): boston -2.46, concrete -3.07, "
        "naval 5.94, yacht -0.68.",
        backprop_uci,
        {"sets": {"boston": 20, "concrete": 20, "yacht": 20, "naval": 3}, "steps": 4000, "draws": 500, "seed": 0},
        {"sets": {"yacht": 2}, "steps": 20, "draws": 5},
        needs=("boston", "concrete", "yacht", "naval"),
        minutes=3,
    ),
)  # fmt: skip
