"""Finding 5 of Izmailov et al. (2021), and of their paper on covariate shift (2021b): HMC under corruptions.

Three studies of the same chains on MNIST: HMC against deep ensembles on corrupted test images; the mechanism, that the
weights of inputs which are always 0 in training keep their prior and add noise when a corruption makes these inputs
bright; and the remedy, a prior of the first layer with the covariance of the inputs (`models.EmpCov`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import models
from data import Split
from experiments.corruptions import KINDS, corrupted_split
from experiments.references import TASKS, Task, doubts, ensemble, point, reference, together
from experiments.study import Finding, Laboratory, Study, decided, mean_and_error
from inference import Posterior
from inference.display.figures import COLOURS, chart
from inference.display.tables import Table, with_error
from models.rules import as_prior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDIES", "covariate_shift", "dead_inputs", "empirical_covariance", "mechanism_verdict", "without"]

_FIRST = "hidden0.weight"
_NEAR = 0.05  # by which a spread may differ from the prior's and still count as the prior's
_DRAWS = 60  # per chain that predict: accuracies need no more

_Accuracies = dict[str, np.ndarray]  # by method, (seed, clean and each kind)


def without(posterior: Posterior, dead: np.ndarray) -> Posterior:
    """The posterior with the first layer's weights of the inputs `dead`, a mask, set to 0 in all draws."""
    weights = posterior.draws[_FIRST].copy()
    weights[:, :, dead] = 0.0
    return replace(posterior, draws={**posterior.draws, _FIRST: weights})


def mechanism_verdict(spread: tuple[float, float], gain: tuple[float, float]) -> str:
    """The verdict on the mechanism.

    Args:
        spread: the spread of the dead weights over their prior's, with its standard error.
        gain: what corrupted accuracy gains if they are set to 0, with its standard error.
    """
    return together([decided(_NEAR - abs(spread[0] - 1), spread[1]), decided(*gain)])


def covariate_shift(lab: Laboratory, task: str, seeds: int, members: int, severity: int, share: float) -> Finding:
    """HMC, a point and an ensemble on clean and on corrupted test images."""
    chosen = TASKS[task].scaled(share)
    made: dict[str, Posterior] = {}
    found: dict[str, list[list[float]]] = {"HMC": [], "SGD": [], "deep ensemble": []}
    for seed in range(seeds):
        made[f"seed {seed}"] = hmc = reference(lab, chosen, seed)
        for name, each in zip(
            found, (hmc, point(lab, chosen, seed), ensemble(lab, chosen, seed, members)), strict=True
        ):
            found[name].append(_accuracies(each, chosen.parts(seed)[1], severity))
    arrays = {name: np.array(each) for name, each in found.items()}
    loss = mean_and_error(_shifted(arrays["deep ensemble"]) - _shifted(arrays["HMC"]))
    clean = mean_and_error(arrays["deep ensemble"][:, 0] - arrays["HMC"][:, 0])
    return Finding(
        decided(*loss),
        f"The ensemble's accuracy minus HMC's is {with_error(*loss, sign=True)} on corrupted images and "
        f"{with_error(*clean, sign=True)} on clean ones." + doubts(made),
        (_table(arrays, severity),),
        {name: each.tolist() for name, each in arrays.items()},
        partial(_figure, arrays),
    )


def dead_inputs(lab: Laboratory, task: str, seeds: int, severity: int, share: float) -> Finding:
    """The spread of dead weights, and what setting them to 0 does."""
    chosen = TASKS[task].scaled(share)
    made: dict[str, Posterior] = {}
    prior = chosen.model.prior
    assert isinstance(prior, models.Normal)
    spreads: dict[str, list[float]] = {"dead": [], "others": []}
    found: dict[str, list[list[float]]] = {"HMC": [], "HMC without dead weights": []}
    for seed in range(seeds):
        train, test = chosen.parts(seed)
        made[f"seed {seed}"] = hmc = reference(lab, chosen, seed)
        dead = np.all(train.x == 0, axis=0)
        weights = hmc.draws[_FIRST]
        for name, which in (("dead", dead), ("others", ~dead)):
            spreads[name].append(float(np.sqrt(np.mean(weights[:, :, which] ** 2, dtype=np.float64))) / prior.scale)
        for name, each in (("HMC", hmc), ("HMC without dead weights", without(hmc, dead))):
            found[name].append(_accuracies(each, test, severity))
    arrays = {name: np.array(each) for name, each in found.items()}
    spread, others = (mean_and_error(each) for each in spreads.values())
    gain = mean_and_error(_shifted(arrays["HMC without dead weights"]) - _shifted(arrays["HMC"]))
    return Finding(
        mechanism_verdict(spread, gain),
        f"The weights of inputs that are always 0 have {with_error(*spread)} times the spread of their prior (all "
        f"others {with_error(*others)}). Set to 0, they change the accuracy on corrupted images by "
        f"{with_error(*gain, sign=True)}." + doubts(made),
        (_table(arrays, severity),),
        {"spreads": spreads, **{name: each.tolist() for name, each in arrays.items()}},
        partial(_figure, arrays),
    )


def empirical_covariance(
    lab: Laboratory, task: str, seeds: int, members: int, severity: int, share: float, chains: int, draws: int
) -> Finding:
    """HMC with the task's prior and, with fewer draws, that of the inputs' covariance; and an ensemble."""
    chosen = TASKS[task].scaled(share)
    made: dict[str, Posterior] = {}
    found: dict[str, list[list[float]]] = {"HMC": [], "HMC with EmpCov": [], "deep ensemble": []}
    for seed in range(seeds):
        train, test = chosen.parts(seed)
        lab.say(f"seed {seed}: HMC with EmpCov")
        model, options = _with_covariance(chosen, train), {**chosen.hmc, "chains": chains, "draws": draws}
        informed = lab.posterior("empcov-hmc", model, train, method="hmc", seed=seed, **options)
        hmc = reference(lab, chosen, seed)
        made |= {f"the task's prior, seed {seed}": hmc, f"EmpCov, seed {seed}": informed}
        for name, each in zip(found, (hmc, informed, ensemble(lab, chosen, seed, members)), strict=True):
            found[name].append(_accuracies(each, test, severity))
    arrays = {name: np.array(each) for name, each in found.items()}
    gain = mean_and_error(_shifted(arrays["HMC with EmpCov"]) - _shifted(arrays["HMC"]))
    left = mean_and_error(_shifted(arrays["HMC with EmpCov"]) - _shifted(arrays["deep ensemble"]))
    return Finding(
        decided(*gain),
        f"On corrupted images EmpCov changes HMC's accuracy by {with_error(*gain, sign=True)}; it is then "
        f"{with_error(*left, sign=True)} from that of the ensemble." + doubts(made),
        (_table(arrays, severity),),
        {name: each.tolist() for name, each in arrays.items()},
        partial(_figure, arrays),
    )


def _with_covariance(task: Task, train: Split) -> models.Network:
    """The task's network with EmpCov in the first layer, whose weights have the same mean variance as before."""
    prior = task.model.prior
    assert isinstance(prior, models.Normal)
    alpha = prior.scale**2 / float(np.var(train.x, axis=0, ddof=1, dtype=np.float64).mean())
    informed = models.EmpCov.of(train.x, alpha, 1e-3 * prior.scale**2)
    return replace(task.model, prior=as_prior({_FIRST: informed, "default": prior}))


def _accuracies(posterior: Posterior, test: Split, severity: int) -> list[float]:
    """The accuracy on clean images and on each kind of corruption."""
    draws = min(_DRAWS, posterior.shape[1])
    return [
        float((posterior.predict(each, draws=draws).mean.argmax(axis=1) == each.y).mean())
        for each in _tests(test, severity)
    ]


def _tests(test: Split, severity: int) -> Iterator[Split]:
    yield test
    for kind in KINDS:
        yield corrupted_split(test, kind, severity)


def _shifted(accuracies: np.ndarray) -> np.ndarray:
    """The mean over all kinds, by seed."""
    return accuracies[:, 1:].mean(axis=1)


def _table(arrays: _Accuracies, severity: int) -> Table:
    labels = ["clean", *(kind.replace("_", " ") for kind in KINDS)]
    rows = [
        (label, *(with_error(*mean_and_error(each[:, i])) for each in arrays.values()))
        for i, label in enumerate(labels)
    ]
    rows.append(("mean of all kinds", *(with_error(*mean_and_error(_shifted(each))) for each in arrays.values())))
    return Table(f"Accuracy, severity {severity}: mean ± standard error over seeds", ("images", *arrays), rows)


def _figure(arrays: _Accuracies) -> Figure:
    figure, (axes,) = chart(["Accuracy on clean and corrupted images (two standard errors)"], size=(7.2, 3.4))
    places = np.arange(1 + len(KINDS))
    for i, ((name, each), colour) in enumerate(zip(arrays.items(), COLOURS, strict=False)):
        error = 2 * each.std(axis=0, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else None
        axes.errorbar(places + 0.15 * (i - 1), each.mean(axis=0), error, fmt="o", ms=4, lw=1, color=colour, label=name)
    axes.set_xticks(places, ["clean", *(kind.replace("_", "\n") for kind in KINDS)], fontsize=8)
    axes.set_ylabel("accuracy")
    axes.set_ylim(0, 1)
    axes.legend(frameon=False, fontsize="small", loc="lower left", ncols=len(arrays))
    return figure


_FULL: dict[str, Any] = dict(task="mnist", seeds=3, severity=5, share=1.0)
_QUICK: dict[str, Any] = dict(seeds=2, share=0.1)
_PAIRED = "on corrupted images, the mean of seven kinds at severity 5, paired by seed (another training set each)"

STUDIES = (
    Study(
        name="covariate_shift",
        title="HMC on corrupted images",
        question="Does HMC lose against deep ensembles where the test images are corrupted?",
        rule=f"The accuracy of the ensemble minus that of HMC {_PAIRED}. Confirmed above 2 standard errors, "
        "contradicted below -2.",
        published="Izmailov et al. 2021, table 5: on CIFAR-10-C HMC has an accuracy of 70.9 ± 0.9 % and deep ensembles "
        "77.0 ± 0.4 %, on CIFAR-10 89.6 ± 0.3 % and 88.5 ± 0.1 %.",
        run=covariate_shift,
        full=dict(members=5, **_FULL),
        quick=dict(members=2, **_QUICK),
        needs=("mnist",),
        minutes=1.5,
    ),
    Study(
        name="dead_inputs",
        title="Weights of dead inputs under covariate shift",
        question="Do weights of inputs that are always 0 keep their prior, and is that what hurts under corruptions?",
        rule="Two parts. The spread of these weights over their prior's is within 5 % of 1, by 2 standard errors; and "
        f"setting them to 0 in all draws raises the accuracy {_PAIRED}, by more than 2 standard errors. Confirmed if "
        "both hold, contradicted if one fails by 2 standard errors.",
        published="Izmailov, Nicholson, Lotfi & Wilson 2021: weights of inputs that are 0 throughout training keep "
        "their prior, and a corruption that makes these inputs bright turns them into noise.",
        run=dead_inputs,
        full=_FULL,
        quick=_QUICK,
        needs=("mnist",),
        minutes=1,
    ),
    Study(
        name="empcov",
        title="EmpCov, the remedy under covariate shift",
        question="Does a first layer whose prior has the covariance of the inputs help HMC on corrupted images?",
        rule=f"The accuracy of HMC with EmpCov minus that of HMC {_PAIRED}. Confirmed above 2 standard errors, "
        "contradicted below -2.",
        published="Izmailov, Nicholson, Lotfi & Wilson 2021: EmpCov priors improve the robustness of Bayesian networks "
        "to covariate shift.",
        run=empirical_covariance,
        full=dict(members=5, chains=2, draws=80, **_FULL),
        quick=dict(members=2, chains=2, draws=5, **_QUICK),
        needs=("mnist",),
        minutes=4,
    ),
)
