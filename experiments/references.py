"""What the studies of Izmailov et al. (2021) share: tasks at a size that runs here, and reference chains on them.

A task is a data set, some of its rows, a network with its prior, and how HMC and an optimiser run on it. A seed draws
the training rows anew, and is also the seed of the chains; the test rows stay the same. So an error over seeds is one
over training sets too. Reference chains are made once, in the directory of the `Laboratory`, and reused by every study
that asks for the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

import data
import models
from data import Dataset, Scaler, Split
from diagnostics.convergences.spaces import function_mixing
from experiments.study import Laboratory
from inference import Posterior
from models.architectures.perceptrons import Perceptron

__all__ = ["TASKS", "Task", "doubts", "ensemble", "named", "point", "reference", "together"]

_RHAT = 1.05  # of the functions; chains are not called converged above it, unless chance explains it


@dataclass(frozen=True)
class Task:
    """A data set at a size that runs here, with a network.

    Attributes:
        name: what it is called in tables and by the folders of its runs.
        data: the data set's name.
        rows: how many training rows; None takes all of a standard split.
        tested: how many test rows, at most.
        model: the network.
        hmc: how HMC runs on it.
        point: how an optimiser runs on it.
        divided: what pixels are divided by, so that the background stays exactly 0; None standardises them.
        words: tokens from this number on become the one that stands for unknown words; None keeps all.
        blocks: images are averaged over blocks of so many pixels a side.
    """

    name: str
    data: str
    rows: int | None
    tested: int
    model: models.Network
    hmc: Mapping[str, Any]
    point: Mapping[str, Any] = field(default_factory=lambda: dict(steps=1000))
    divided: float | None = None
    words: int | None = None
    blocks: int = 1

    def scaled(self, share: float) -> Task:
        """The task with a share of its rows, of the draws and of the steps."""
        if share == 1:
            return self
        rows = None if self.rows is None else max(round(share * self.rows), 20)
        least = {"draws": 4, "warmup": 2, "tuning": 10}
        hmc = {
            name: max(round(share * value), least[name]) if name in least else value for name, value in self.hmc.items()
        }
        point = {**self.point, "steps": max(round(share * self.point["steps"]), 5)}
        return replace(self, rows=rows, tested=max(round(share * self.tested), 50), hmc=hmc, point=point)

    def parts(self, seed: int) -> tuple[Split, Split]:
        """Training rows by the seed, and the test rows, as the network takes them."""
        dataset = _loaded(self.data)
        if self.rows is None:
            train, test = dataset.split(index=seed % dataset.standard_splits)
            return train, test
        assert dataset.standard is not None
        official, held_out = dataset.standard(0)
        rows = np.random.default_rng(seed).permutation(official)[: self.rows]
        tested = np.random.default_rng(0).permutation(held_out)[: self.tested]
        scaler = Scaler.fit(self._inputs(dataset, rows), dataset.y[rows], labels=True, scaling=dataset.scaling)
        if self.divided is not None:
            scaler = replace(scaler, x_location=np.zeros(()), x_scale=np.full((), self.divided))

        def part(chosen: np.ndarray, role: str) -> Split:
            x = scaler.inputs(self._inputs(dataset, chosen))
            picture = None if dataset.picture is None else x.shape[1:]
            split = Split(x, dataset.y[chosen], scaler, f"{self.data}, {role}", dataset.classes, picture)
            return split.flat() if isinstance(self.model.architecture, Perceptron) else split

        return part(rows, "train"), part(tested, "test")

    def _inputs(self, dataset: Dataset, rows: np.ndarray) -> np.ndarray:
        """Some rows of the data set, with rare words and blocks of pixels taken together."""
        x = dataset.x[rows]
        if self.words is not None:
            return np.where(x < self.words, x, _UNKNOWN)
        if self.blocks == 1:
            return x
        count, height, width, channels = x.shape
        sides = (height // self.blocks, self.blocks, width // self.blocks, self.blocks)
        return x.reshape(count, *sides, channels).mean(axis=(2, 4))


_UNKNOWN = 2  # the number of words that have none, see `data.text`


@lru_cache(maxsize=4)
def _loaded(name: str) -> Dataset:
    return data.load(name)


TASKS: dict[str, Task] = {
    each.name: each
    for each in (
        Task(
            "mnist", "mnist", 200, 1000,
            models.mlp((20,), "silu", models.Normal(0.4), models.Categorical(10)),  # 0.4 by other training rows
            dict(chains=4, draws=100, warmup=30, tuning=40, trajectory_length="prior"),
            divided=126.0,  # as in Blundell et al. 2015
        ),
        Task(
            "cifar10", "cifar10", 100, 500,
            models.lenet((3, 4), (12,), 3, "silu", models.Normal(1.0, fan_in=True), models.Categorical(10)),
            dict(chains=2, draws=60, warmup=30, tuning=20, trajectory_length="prior"),
            dict(steps=300),
            blocks=2,
        ),
        Task(
            "imdb", "imdb", 500, 1000,
            models.cnn_lstm(500, 8, 8, 5, 4, 8, "silu", models.Normal(1.0, fan_in=True), models.Categorical(2)),
            dict(chains=2, draws=60, warmup=30, tuning=20, trajectory_length="prior"),
            dict(steps=500),
            words=500,
        ),
        Task(
            "boston", "boston", None, 51,
            models.mlp((20,), "silu", models.Normal(1.0, fan_in=True), models.HeteroscedasticGaussian()),
            dict(chains=4, draws=120, warmup=40, tuning=40),
            dict(steps=2000),
        ),
    )
}  # fmt: skip
"""The tasks by name."""


def named(tasks: Iterable[str], share: float) -> list[Task]:
    """Some of the tasks, with a share of their rows, draws and steps."""
    return [TASKS[name].scaled(share) for name in tasks]


def reference(lab: Laboratory, task: Task, seed: int) -> Posterior:
    """HMC on a task, with the training rows of the seed."""
    lab.say(f"{task.name}, seed {seed}: HMC")
    return lab.posterior(f"{task.name}-hmc", task.model, task.parts(seed)[0], method="hmc", seed=seed, **task.hmc)


def point(lab: Laboratory, task: Task, seed: int) -> Posterior:
    """The mode of a task's posterior, which is what SGD with weight decay finds."""
    return lab.posterior(f"{task.name}-point", task.model, task.parts(seed)[0], method="map", seed=seed, **task.point)


def ensemble(lab: Laboratory, task: Task, seed: int, members: int) -> Posterior:
    """A deep ensemble on a task."""
    options: dict[str, Any] = dict(method="ensemble", chains=members, seed=seed, **task.point)
    return lab.posterior(f"{task.name}-ensemble", task.model, task.parts(seed)[0], **options)


def doubts(posteriors: Mapping[str, Posterior]) -> str:
    """A sentence that names the chains that have not converged; empty if all have."""
    spaces = {name: function_mixing(each) for name, each in posteriors.items() if each.kind == "chains"}
    failed = {name: space.worst_rhat for name, space in spaces.items() if space and space.apart(_RHAT).any()}
    if not failed:
        return f" The chains of all {len(spaces)} runs agree (R-hat of their functions up to {_RHAT:g}, or by chance)."
    listed = ", ".join(f"{name} ({rhat:.2f})" for name, rhat in failed.items())
    return f" Not converged, by the R-hat of their functions: {listed}."


def together(verdicts: Iterable[str]) -> str:
    """One verdict out of several: contradicted if one of them is, confirmed if all are."""
    found = set(verdicts)
    if "contradicted" in found:
        return "contradicted"
    return "confirmed" if found == {"confirmed"} else "undecided"
