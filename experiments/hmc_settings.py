"""HMC's settings in Izmailov et al. (2021): the length of a trajectory, its number of steps, and the number of chains.

The paper's trajectory length is pi alpha / 2 with alpha the prior's standard deviation, its finding 2 that one long
chain is about as good as several. `experiments.hmc_step_sizes` has the step size, and why smoothness matters.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import diagnostics
import inference
import models
from diagnostics.convergences.spaces import function_mixing
from experiments.references import TASKS, Task, doubts, named, reference, together
from experiments.study import Finding, Laboratory, Study, decided, mean_and_error
from inference import Posterior, Prediction
from inference.display.figures import COLOURS, chart
from inference.display.tables import Table, with_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STUDIES", "chains_verdict", "effective", "equal_draws", "settled", "step_size_of"]

_SHARES = (0.25, 0.5, 1.0, 2.0)  # of pi alpha / 2
_COUNTS = (1, 2, 3)  # of chains
_MARGIN = 0.015  # nats: what three whole chains gain over one in the paper


def hmc_trajectory(lab: Laboratory, task: str, rows: int, seeds: int, chains: int, draws: int, step: float) -> Finding:
    """Trajectories of 0.25 to 2 times pi alpha / 2 with as many leapfrog steps in all, from draws of the prior."""
    chosen = replace(TASKS[task], rows=rows)
    made: dict[str, Posterior] = {}
    scores, sizes = np.empty((seeds, len(_SHARES))), np.empty((seeds, len(_SHARES)))
    for seed in range(seeds):
        train, test = chosen.parts(seed)
        for i, share in enumerate(_SHARES):
            lab.say(f"seed {seed}, {share:g} of pi alpha / 2")
            count = round(draws / share)
            made[f"{share:g}, seed {seed}"] = posterior = lab.posterior(
                "trajectory", chosen.model, train, method="hmc", seed=seed, start="prior", chains=chains, draws=count,
                warmup=count // 2, step_size=step, trajectory_length=share * _quarter(chosen),
            )  # fmt: skip
            scores[seed, i] = diagnostics.scores(posterior.predict(test), test)["log_score"]
            sizes[seed, i] = effective(posterior)
    gain = mean_and_error(scores[:, 2] - scores[:, 0])
    ratio = mean_and_error(np.log(sizes[:, 2] / sizes[:, 0]))
    body = [
        (f"{share:g}", *(with_error(*mean_and_error(each[:, i])) for each in (scores, sizes)))
        for i, share in enumerate(_SHARES)
    ]
    head = ("share of pi alpha / 2", "log score", "least ESS per 1,000 steps")
    return Finding(
        decided(*gain),
        f"The log score at pi alpha / 2 minus that at a quarter of it: {with_error(*gain, sign=True)}; the log ratio "
        f"of their effective sizes per leapfrog step: {with_error(*ratio, sign=True)}." + doubts(made),
        (Table("Mean ± standard error over seeds", head, body),),
        {"log_score": scores.tolist(), "ess": sizes.tolist()},
        partial(
            diagnostics.plots.lines, _SHARES, {"log score": scores}, xlabel="trajectory length over pi alpha / 2",
            ylabel="log score", title="As many leapfrog steps in all; two standard errors", log="x",
        ),
    )  # fmt: skip


def hmc_steps(
    lab: Laboratory, task: str, rows: int | None, seeds: int, chains: int, draws: int, warmup: int
) -> Finding:
    """Trajectories of 100 leapfrog steps, and the default, which a pilot has tuned."""
    chosen = replace(TASKS[task], rows=rows)
    made: dict[str, Posterior] = {}
    sizes, counts, scores = (np.empty((seeds, 2)) for _ in range(3))
    for seed in range(seeds):
        train, test = chosen.parts(seed)
        options: dict[str, Any] = dict(method="hmc", seed=seed, chains=chains, draws=draws, warmup=warmup)
        lab.say(f"seed {seed}: the default")
        tuned = lab.posterior("default", chosen.model, train, tuning=max(warmup, 10), **options)
        step = step_size_of(settled(lab, chosen, seed, chains, draws, warmup))
        lab.say(f"seed {seed}: 100 steps of {step:.3g}")
        fixed = lab.posterior("steps", chosen.model, train, step_size=step, trajectory_length=100 * step, **options)
        made |= {f"the default, seed {seed}": tuned, f"100 steps, seed {seed}": fixed}
        for i, posterior in enumerate((tuned, fixed)):
            sizes[seed, i], counts[seed, i] = effective(posterior), posterior.statistics["n_steps"].mean()
            scores[seed, i] = diagnostics.scores(posterior.predict(test), test)["log_score"]
    ratio = mean_and_error(np.log(sizes[:, 0] / sizes[:, 1]))
    body = [
        (name, *(with_error(*mean_and_error(each[:, i])) for each in (counts, sizes, scores)))
        for i, name in enumerate(("the default", "100 steps"))
    ]
    head = ("", "steps a trajectory", "least ESS per 1,000 steps", "log score")
    return Finding(
        decided(*ratio),
        "The log ratio of effective sizes per leapfrog step, the default over 100 steps: "
        f"{with_error(*ratio, sign=True)}." + doubts(made),
        (Table("Mean ± standard error over seeds", head, body),),
        {"ess": sizes.tolist(), "steps": counts.tolist(), "log_score": scores.tolist()},
        partial(_sizes_figure, sizes),
    )


def hmc_chains(lab: Laboratory, tasks: tuple[str, ...], seeds: int, share: float) -> Finding:
    """One, two and three of the reference chains, with all of their draws and with as many iterations in all."""
    equal: dict[str, np.ndarray] = {}
    whole: dict[str, np.ndarray] = {}
    made: dict[str, Posterior] = {}
    for task in named(tasks, share):
        equal[task.name], whole[task.name] = np.empty((2, seeds, len(_COUNTS)))
        for seed in range(seeds):
            test = task.parts(seed)[1]
            made[f"{task.name}, seed {seed}"] = posterior = reference(lab, task, seed)
            prediction, draws = posterior.predict(test), posterior.shape[1]
            for i, count in enumerate(_COUNTS):
                fewer = equal_draws(task.hmc["warmup"], draws, count)
                equal[task.name][seed, i] = _log_score(prediction, test, count, fewer)
                whole[task.name][seed, i] = _log_score(prediction, test, count, draws)
    apart = {name: mean_and_error(each[:, 2] - each[:, 0]) for name, each in equal.items()}
    listed = ", ".join(f"{name} {with_error(*each, sign=True)}" for name, each in apart.items())
    body = [
        (
            f"{name}, {count} chain{'s' * (count > 1)}",
            *(with_error(*mean_and_error(each[name][:, i])) for each in (equal, whole)),
        )
        for name in equal
        for i, count in enumerate(_COUNTS)
    ]
    head = ("", "log score at equal compute", "log score of whole chains")
    return Finding(
        chains_verdict(apart),
        f"The log score of three chains minus that of one, as many iterations in all, warm-up included: {listed}."
        + doubts(made),
        (Table("Mean ± standard error over seeds", head, body),),
        {"equal": {name: each.tolist() for name, each in equal.items()}, "apart": apart},
        partial(_chains_figure, equal, whole),
    )


def equal_draws(warmup: int, draws: int, chains: int) -> int:
    """How many draws a chain has if so many chains share the iterations of one, each with its own warm-up."""
    left = (warmup + draws) // chains - warmup
    if left < 1:
        raise ValueError(f"{chains} chains with a warm-up of {warmup} can't share {warmup + draws} iterations")
    return left


def chains_verdict(apart: dict[str, tuple[float, float]]) -> str:
    """The verdict from the difference of three chains and one, with its error, by task: is it within the margin?"""
    return together(decided(_MARGIN - abs(mean), error) for mean, error in apart.values())


def _log_score(prediction: Prediction, test: Any, chains: int, draws: int) -> float:
    """The mean over all groups of so many chains, none in two of them, of the log score of their first draws."""
    groups = np.arange(len(prediction.outputs) // chains * chains).reshape(-1, chains)
    parts = (replace(prediction, outputs=prediction.outputs[group][:, :draws]) for group in groups)
    return float(np.mean([diagnostics.scores(part, test)["log_score"] for part in parts]))


def _chains_figure(equal: dict[str, np.ndarray], whole: dict[str, np.ndarray]) -> Figure:
    figure, panels = chart([f"{name}: log score" for name in equal], columns=2, size=(4.2, 3.2))
    for axes, name in zip(panels, equal, strict=True):
        for i, (label, each) in enumerate({"equal compute": equal[name], "whole chains": whole[name]}.items()):
            error = 2 * each.std(axis=0, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else None
            axes.errorbar(
                np.array(_COUNTS) + 0.05 * i,
                each.mean(axis=0),
                error,
                fmt="o-",
                ms=4,
                lw=1,
                color=COLOURS[i],
                label=label,
            )
        axes.set_xticks(_COUNTS)
        axes.set_xlabel("chains")
        axes.legend(frameon=False, fontsize="small")
    return figure


def settled(lab: Laboratory, task: Task, seed: int, chains: int, draws: int, warmup: int, **options: Any) -> Posterior:
    """HMC with the paper's trajectory length, whose step size has been adapted in a pilot and a warm-up."""
    method = inference.HMC.paper(chains=chains, draws=draws, warmup=warmup, tuning=max(warmup, 10), **options)
    return lab.posterior(f"{task.name}-paper", task.model, task.parts(seed)[0], method=method, seed=seed)


def step_size_of(posterior: Posterior) -> float:
    """The step size of its chains, their median."""
    return float(np.median(posterior.statistics["step_size"]))


def effective(posterior: Posterior) -> float:
    """The least effective size of the functions per 1,000 leapfrog steps of the draws."""
    space = function_mixing(posterior)
    assert space is not None
    return 1000 * max(space.least_ess, 1.0) / float(posterior.statistics["n_steps"].sum())  # no fewer than one draw


def _quarter(task: Task) -> float:
    """A quarter of the period under the prior, pi alpha / 2."""
    prior = task.model.prior
    assert isinstance(prior, models.Normal)
    assert not prior.fan_in
    return math.pi * prior.scale / 2


def _sizes_figure(sizes: np.ndarray) -> Figure:
    figure, (axes,) = chart(["Least ESS per 1,000 leapfrog steps, by seed"], size=(4.6, 3.2))
    for each in sizes:
        axes.plot((0, 1), each, "o-", ms=5, lw=1, color=COLOURS[0])
    axes.set_xticks((0, 1), ("the default", "100 steps"))
    axes.set_xlim(-0.4, 1.4)
    axes.set_ylim(bottom=0)
    return figure


STUDIES = (
    Study(
        name="hmc_trajectory",
        title="The trajectory length of HMC",
        question="Is a trajectory of pi alpha / 2 better than a shorter one with as many leapfrog steps in all?",
        rule="The log score at pi alpha / 2 minus that at a quarter of it, chains that start at draws of the prior, as "
        "many leapfrog steps in all, paired by seed (another training set each). Confirmed above 2 standard errors, "
        "contradicted below -2.",
        published="Izmailov et al. 2021, section 4.2: pi alpha / 2 or longer is best; CIFAR-10 accuracy 0.831 at a "
        "quarter of it and 0.889 at it.",
        run=hmc_trajectory,
        full=dict(task="mnist", rows=200, seeds=3, chains=2, draws=60, step=0.012),
        quick=dict(rows=20, seeds=2, chains=2, draws=4, step=0.05),
        needs=("mnist",),
    ),
    Study(
        name="hmc_steps",
        title="Trajectories of 100 steps against the default",
        question="Does the default, whose length and scales a pilot finds, give more effective draws per leapfrog step "
        "than trajectories of 100 steps?",
        rule="The log ratio of the least effective sizes of the functions per leapfrog step, the default over 100 "
        "steps of the size that fits the paper's length, paired by seed (another training set each). Confirmed above 2 "
        "standard errors, contradicted below -2.",
        published="Nothing to compare with in numbers: 100 steps or fewer are usual, the paper has 70,248 on CIFAR-10.",
        run=hmc_steps,
        full=dict(task="boston", rows=None, seeds=3, chains=4, draws=150, warmup=60),
        quick=dict(seeds=2, chains=2, draws=5, warmup=5),
        needs=("boston",),
        minutes=1,
    ),
    Study(
        name="hmc_chains",
        title="One long chain against several at equal compute",
        question="Is one long chain about as good as three chains with as many iterations in all?",
        rule="The log score of three chains minus that of one with as many iterations in all, warm-up included and the "
        "pilot left out, by seed (another training set each). Confirmed if it is within 0.015 nats, what three whole "
        "chains gain over one in the paper, by 2 standard errors on every set; contradicted if it is outside by as "
        "much on one.",
        published="Izmailov et al. 2021, section 5: one long chain is about as good as several. CIFAR-10 "
        "log-likelihoods of 1, 2 and 3 whole chains -0.3217, -0.3103, -0.3067; at equal compute they gain less.",
        run=hmc_chains,
        full=dict(tasks=("mnist", "boston"), seeds=3, share=1.0),
        quick=dict(tasks=("boston",), seeds=2, share=0.05),
        needs=("mnist", "boston"),
        minutes=2,
    ),
)
