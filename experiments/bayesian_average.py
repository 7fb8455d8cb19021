"""Finding 1 of Izmailov et al. (2021): the Bayesian average beats SGD and deep ensembles.

HMC, one point, and an ensemble of points, all with the same prior, on small parts of MNIST, CIFAR-10 and IMDB and on
the standard splits of boston. The point maximises the posterior density, which is what SGD with weight decay does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import diagnostics
from experiments.references import doubts, ensemble, named, point, reference, together
from experiments.study import Finding, Laboratory, Study, decided, mean_and_error
from inference import Posterior
from inference.display.figures import COLOURS, chart
from inference.display.tables import Table, with_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDIES", "bayesian_average", "verdict"]

METHODS = ("HMC", "SGD", "deep ensemble")

PUBLISHED = {
    "cifar10": {"HMC": (0.907, -0.303), "SGD": (0.833, -0.795), "deep ensemble": (0.893, -0.321)},
    "imdb": {"HMC": (0.868, -0.308), "SGD": (0.829, -0.749), "deep ensemble": (0.859, -0.350)},
    "boston": {"HMC": (3.69, -2.39), "SGD": (4.29, -2.71), "deep ensemble": (float("nan"), float("nan"))},
}
"""Accuracy, for boston the RMSE, and log-likelihood; read off figures (± 0.004 and ± 0.02)."""


def verdict(gains: dict[str, tuple[float, float]]) -> str:
    """The verdict from the mean and the standard error of HMC's gain in each comparison."""
    return together(decided(*gain) for gain in gains.values())


def bayesian_average(lab: Laboratory, tasks: tuple[str, ...], seeds: int, members: int, share: float) -> Finding:
    """Score HMC, a point and an ensemble on every task and seed."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    chains: dict[str, Posterior] = {}
    for task in named(tasks, share):
        found[task.name] = {method: [] for method in METHODS}
        for seed in range(seeds):
            _, test = task.parts(seed)
            chains[f"{task.name}, seed {seed}"] = hmc = reference(lab, task, seed)
            lab.say(f"{task.name}, seed {seed}: a point, and {members} points")
            points = point(lab, task, seed), ensemble(lab, task, seed, members)
            for method, posterior in zip(METHODS, (hmc, *points), strict=True):
                found[task.name][method].append(diagnostics.scores(posterior.predict(test), test))
    gains = {
        f"{name} against {rival}": mean_and_error(_log(scores["HMC"]) - _log(scores[rival]))
        for name, scores in found.items()
        for rival in METHODS[1:]
    }
    listed = ", ".join(f"{name} {with_error(*gain, sign=True)}" for name, gain in gains.items())
    return Finding(
        verdict(gains),
        f"HMC's log score minus that of its rival, in nats per test row: {listed}." + doubts(chains),
        tuple(_table(name, scores) for name, scores in found.items()),
        {"gains": gains, "scores": found},
        partial(_figure, gains),
    )


def _log(scores: list[dict[str, float]]) -> np.ndarray:
    return np.array([each["log_score"] for each in scores])


def _table(name: str, found: dict[str, list[dict[str, float]]]) -> Table:
    first = next(key for key in ("accuracy", "rmse") if key in found["HMC"][0])
    columns = [first, "log_score", "ece" if first == "accuracy" else "coverage"]
    head = [{"accuracy": "accuracy", "rmse": "RMSE"}[first], "log score", columns[2]]
    rows = [
        (
            method,
            *(with_error(*mean_and_error([each[column] for each in scores])) for column in columns),
            *_published(name, method),
        )
        for method, scores in found.items()
    ]
    return Table(f"{name}: mean ± standard error over seeds", ("", *head, f"paper's {head[0]}", "log score"), rows)


def _published(name: str, method: str) -> tuple[str, str]:
    numbers = PUBLISHED.get(name, {}).get(method, (float("nan"), float("nan")))
    return tuple("" if np.isnan(number) else f"{number:g}" for number in numbers)  # type: ignore[return-value]


def _figure(gains: dict[str, tuple[float, float]]) -> Figure:
    figure, (axes,) = chart(["HMC's gain in log score (two standard errors)"], size=(6.2, 1.0 + 0.3 * len(gains)))
    places = np.arange(len(gains))[::-1]
    mean, error = np.array(list(gains.values())).T
    axes.axvline(0, color="0.5", lw=0.8, ls="--")
    axes.errorbar(mean, places, xerr=2 * np.nan_to_num(error), fmt="o", ms=5, lw=1.2, color=COLOURS[0])
    axes.set_yticks(places, list(gains), fontsize=9)
    axes.set_xlabel("nats per test row; right of 0 HMC is better")
    return figure


_RULE = (
    "The log score of HMC minus that of SGD and of the ensemble, paired by seed (another training set each). Confirmed "
    "if every one of these differences is above 2 standard errors, contradicted if one is below -2."
)
_PUBLISHED = (
    "Izmailov et al. 2021, section 6: HMC is better than SGD and deep ensembles in accuracy and log-likelihood on "
    "CIFAR-10, IMDB and UCI data."
)

STUDIES = (
    Study(
        name="bayesian_average",
        title="The Bayesian average against SGD and deep ensembles",
        question="Does the average over HMC's draws predict better than one trained network, and than an ensemble?",
        rule=_RULE,
        published=_PUBLISHED,
        run=bayesian_average,
        full=dict(tasks=("mnist", "boston"), seeds=3, members=5, share=1.0),
        quick=dict(tasks=("boston",), seeds=2, members=2, share=0.02),
        needs=("mnist", "boston"),
        minutes=2,
    ),
    Study(
        name="bayesian_average_pictures_and_text",
        title="The Bayesian average on small parts of CIFAR-10 and IMDB",
        question="Does it with a LeNet on 100 pictures, and with a CNN-LSTM on 500 reviews?",
        rule=_RULE,
        published=_PUBLISHED,
        run=bayesian_average,
        full=dict(tasks=("cifar10", "imdb"), seeds=3, members=5, share=1.0),
        quick=dict(tasks=("imdb",), seeds=2, members=2, share=0.05),
        needs=("cifar10", "imdb"),
    ),
)
