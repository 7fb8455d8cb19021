r"""Finding 3 of Izmailov et al. (2021): no cold posterior effect without data augmentation, and one with it.

The posterior is raised to the power 1 / T, likelihood and prior alike. With K fixed transforms of each row the
log-likelihood of a row is the mean over its K copies, so that the data still count as N rows and not as K N:

    log p(w | data) / T = 1 / (K T) sum_i sum_k log p(y_i | t_k(x_i), w) + 1 / T log p(w) + constant

That is the posterior given all K N copies, with its likelihood alone at the temperature K T (`tempering="likelihood"`)
and a normal prior that is sqrt(T) times as wide. No row is augmented when a prediction is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import diagnostics
from data import Split
from experiments.references import TASKS, Task, doubts
from experiments.study import Finding, Laboratory, Study, decided, mean_and_error
from inference import Posterior
from inference.display.tables import Table, with_error
from models import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SHIFTS", "STUDIES", "augmented", "tempered", "tempering", "verdict"]

SHIFTS = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
"""The fixed transforms: shifts by so many pixels down and to the right; what comes in is background."""


def augmented(split: Split, shifts: Sequence[tuple[int, int]] = SHIFTS) -> Split:
    """All copies of the images of a split, one copy of all rows after the other."""
    assert split.picture is not None
    height, width = split.picture[:2]
    images = split.x.reshape(len(split), height, width, -1)
    most = max(abs(step) for shift in shifts for step in shift)
    padded = np.pad(images, ((0, 0), (most, most), (most, most), (0, 0)))
    moved = [padded[:, most - down :, most - right :][:, :height, :width] for down, right in shifts]
    x = np.concatenate(moved).reshape(-1, *split.x.shape[1:])
    return replace(split, x=x, y=np.tile(split.y, len(shifts)), rows=None)


def tempered(model: Network, copies: int, temperature: float) -> tuple[Network, dict[str, Any]]:
    """The network, and the options of a run given all copies of the rows, whose posterior has the temperature.

    Args:
        model: a network with a `models.Normal` prior.
        copies: K, the copies of each row.
        temperature: T.
    """
    widened = replace(model.prior, scale=model.prior.scale * temperature**0.5)  # type: ignore[type-var, attr-defined]
    return replace(model, prior=widened), dict(temperature=copies * temperature, tempering="likelihood")


def verdict(gain: tuple[float, float], gain_augmented: tuple[float, float], augmenting: bool) -> str:
    """The verdict on one of the two claims, from the gain in log score of a colder posterior and its standard error.

    Args:
        gain: without augmentation; the claim is that there is none.
        gain_augmented: with augmentation; the claim is that there is one.
        augmenting: whether the second claim is judged.
    """
    return decided(*gain_augmented) if augmenting else decided(-gain[0], gain[1])


def tempering(
    lab: Laboratory,
    task: str,
    rows: int,
    temperatures: tuple[float, ...],
    cold: float,
    seeds: int,
    chains: int,
    draws: int,
    warmup: int,
    augmenting: bool,
) -> Finding:
    """Score temperatures with and without augmentation."""
    chosen = replace(TASKS[task], rows=rows)
    scores: dict[int, list[list[float]]] = {1: [], len(SHIFTS): []} if augmenting else {1: []}
    made: dict[str, Posterior] = {}
    options = dict(chains=chains, draws=draws, warmup=warmup, tuning=max(warmup, 10), trajectory_length="prior")
    for seed in range(seeds):
        for copies, found in scores.items():
            found.append([])
            for temperature in temperatures:
                lab.say(f"seed {seed}, {copies} copies of each row, temperature {temperature:g}")
                posterior, score = _scored(lab, chosen, seed, copies, temperature, options)
                made[f"T={temperature:g}, {copies} copies, seed {seed}"] = posterior
                found[-1].append(score)
    places = temperatures.index(cold), temperatures.index(1.0)
    arrays = {copies: np.array(each) for copies, each in scores.items()}
    gains = {copies: mean_and_error(each[:, places[0]] - each[:, places[1]]) for copies, each in arrays.items()}
    plain = gains[1]
    said = f"The log score at T = {cold:g} minus that at T = 1: {with_error(*plain, sign=True)} without augmentation"
    if augmenting:
        said += f", {with_error(*gains[len(SHIFTS)], sign=True)} with {len(SHIFTS)} copies of each row"
    return Finding(
        verdict(plain, gains.get(len(SHIFTS), plain), augmenting),
        f"{said}." + doubts(made),
        (_table(temperatures, arrays),),
        {"temperatures": temperatures, "scores": {str(copies): each.tolist() for copies, each in arrays.items()}},
        partial(_figure, temperatures, arrays),
    )


def _scored(
    lab: Laboratory, task: Task, seed: int, copies: int, temperature: float, options: dict[str, Any]
) -> tuple[Posterior, float]:
    train, test = task.parts(seed)
    model, how = tempered(task.model, copies, temperature)
    rows = augmented(train, SHIFTS[:copies])
    posterior = lab.posterior("tempering", model, rows, method="hmc", seed=seed, **how, **options)
    return posterior, diagnostics.scores(posterior.predict(test), test)["log_score"]


def _table(temperatures: tuple[float, ...], arrays: dict[int, np.ndarray]) -> Table:
    rows = [
        (f"{temperature:g}", *(with_error(*mean_and_error(each[:, i])) for each in arrays.values()))
        for i, temperature in enumerate(temperatures)
    ]
    names = ["log score" if copies == 1 else f"with {copies} copies" for copies in arrays]
    return Table("Mean log score ± standard error over seeds", ("temperature", *names), rows)


def _figure(temperatures: tuple[float, ...], arrays: dict[int, np.ndarray]) -> Figure:
    names = {1: "no augmentation"}
    values = {names.get(copies, f"{copies} copies of each row"): each for copies, each in arrays.items()}
    return diagnostics.plots.lines(
        temperatures, values, xlabel="temperature", ylabel="log score", log="x", title="Two standard errors over seeds"
    )


_FULL: dict[str, Any] = dict(
    task="mnist", rows=100, temperatures=(0.1, 0.3, 1.0), cold=0.3, seeds=3, chains=2, draws=60, warmup=30
)
_QUICK: dict[str, Any] = dict(rows=20, temperatures=(0.3, 1.0), seeds=2, chains=2, draws=4, warmup=4)
_PUBLISHED = "On IMDB without augmentation T = 1 is best: log-likelihood -0.378 at T = 0.3, -0.315 at 1, -0.419 at 3"

STUDIES = (
    Study(
        name="tempering",
        title="Cold posteriors without data augmentation",
        question="Does a posterior at a temperature below 1 predict better?",
        rule="The log score at T = 0.3 minus that at T = 1, paired by seed (another training set each). Confirmed (no "
        "cold posterior effect) if it is below -2 standard errors, contradicted if it is above 2.",
        published=f"Izmailov et al. 2021, section 7.1. {_PUBLISHED} (read off a figure).",
        run=partial(tempering, augmenting=False),
        full=_FULL,
        quick=_QUICK,
        needs=("mnist",),
        minutes=1,
    ),
    Study(
        name="tempering_augmented",
        title="Cold posteriors with data augmentation",
        question="Does a colder posterior predict better if each row's log-likelihood is a mean over shifted copies?",
        rule="As for `tempering`, with 5 copies of each row whose log-likelihoods are averaged. Confirmed (a cold "
        "posterior effect) if the gain of T = 0.3 is above 2 standard errors, contradicted if it is below -2.",
        published="Izmailov et al. 2021, section 7.1: the cold posterior effect is largely one of data augmentation. "
        "With it, Wenzel et al. 2020 print a cross-entropy of 0.383 at T = 1 and 0.289 at 0.32 (ResNet-20, CIFAR-10).",
        run=partial(tempering, augmenting=True),
        full={**_FULL, "temperatures": (0.3, 1.0)},
        quick=_QUICK,
        needs=("mnist",),
        minutes=2,
    ),
)
