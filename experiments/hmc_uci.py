r"""HMC on UCI regression (Izmailov et al. 2021, section 6.1; Bui et al. 2016), beside approximations and the papers.

One hidden layer of 50 ReLU units (100 for protein) and the standard splits. The noise is one number that is inferred,
as in Bui et al.; with `--noise heteroscedastic` the network has two outputs, mean and scale, as in Izmailov et al. The
scale of the prior is inferred too, one per layer (`models.Hierarchical`): no scale is chosen by hand or on test rows.
All methods run the same model with the same prior, but for MC dropout, whose masks need weights that are sites of their
own: its prior is N(0, 1 / inputs of the layer).

Scores of a test row are in the units of the data: the RMSE of the predictive mean; the log-likelihood of the mixture
over draws, as PBP and MC dropout report it; and that of the normal with the mixture's mean and variance, as deep
ensembles and Izmailov et al. report it. R-hat and ESS are those of the functions that the chains are judged by.

The rule, which was written before the sets were run. The papers find HMC best in log-likelihood. On one set that is
confirmed if no method has a higher mean over the splits; it is contradicted if one is higher by more than two standard
errors of its paired differences; else it is undecided. Splits whose chains have not converged count, and are named.

    python -m experiments.hmc_uci --data yacht
    python -m experiments.hmc_uci --data concrete --splits 5 --methods hmc --json
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from scipy.stats import norm

import data
import diagnostics
import inference
import models
from data import Split
from experiments.study import Laboratory, mean_and_error
from inference.display.tables import Table

__all__ = ["METHODS", "NOISES", "PUBLISHED", "SplitScore", "by_split", "hmc_uci", "scored", "table", "verdict"]

METHODS: dict[str, dict[str, Any]] = {
    "hmc": dict(method="hmc", draws=4000, until={"ess": 400, "rhat": 1.01}),
    "dropout": dict(method="svi", guide="dropout", rate=0.05),
    "ensemble": dict(method="ensemble", chains=10),
    "svi": dict(method="svi"),
    "sgld": dict(method="sgld"),
    "laplace": dict(method="laplace"),
}
"""How each method is run."""

PUBLISHED: dict[str, dict[str, tuple[str, str]]] = {
    "HMC (Bui et al. 2016)": {
        "boston": ("2.76 ± 0.20", "-2.27 ± 0.03"),
        "concrete": ("4.12 ± 0.14", "-2.72 ± 0.02"),
        "energy": ("0.48 ± 0.01", "-0.93 ± 0.01"),
        "kin8nm": ("0.06", "1.35"),
        "naval": ("0.00", "7.31"),
        "power": ("3.73 ± 0.04", "-2.70"),
        "protein": ("3.91 ± 0.02", "-2.77"),
        "wine": ("0.63 ± 0.01", "-0.91 ± 0.02"),
        "yacht": ("0.56 ± 0.05", "-1.62 ± 0.01"),
    },
    "HMC (Izmailov et al. 2021, other splits, read off a figure)": {
        "boston": ("3.69", "-2.39"),
        "concrete": ("4.48", "-2.67"),
        "energy": ("0.36", "-1.07"),
        "naval": ("0.0001", "9.65"),
        "yacht": ("0.67", "0.57"),
    },
    "MC dropout (2018)": {
        "boston": ("2.90 ± 0.18", "-2.40 ± 0.04"),
        "concrete": ("4.83 ± 0.16", "-2.94 ± 0.02"),
        "energy": ("0.54 ± 0.01", "-1.21 ± 0.01"),
        "kin8nm": ("0.079 ± 0.001", "1.136 ± 0.007"),
        "naval": ("0.0007 ± 0.0000", "4.450 ± 0.002"),
        "power": ("4.01 ± 0.04", "-2.81 ± 0.01"),
        "protein": ("4.27 ± 0.02", "-2.871 ± 0.002"),
        "wine": ("0.62 ± 0.01", "-0.93 ± 0.01"),
        "yacht": ("0.67 ± 0.05", "-1.25 ± 0.02"),
    },
    "deep ensembles (2017)": {
        "boston": ("3.28 ± 1.00", "-2.41 ± 0.25"),
        "concrete": ("6.03 ± 0.58", "-3.06 ± 0.18"),
        "energy": ("2.09 ± 0.29", "-1.38 ± 0.22"),
        "kin8nm": ("0.09 ± 0.00", "1.20 ± 0.02"),
        "naval": ("0.00 ± 0.00", "5.63 ± 0.05"),
        "power": ("4.11 ± 0.17", "-2.79 ± 0.04"),
        "protein": ("4.71 ± 0.06", "-2.83 ± 0.02"),
        "wine": ("0.64 ± 0.04", "-0.94 ± 0.12"),
        "yacht": ("1.58 ± 0.48", "-1.18 ± 0.21"),
    },
    "PBP (2015)": {
        "boston": ("3.01 ± 0.18", "-2.57 ± 0.09"),
        "concrete": ("5.67 ± 0.09", "-3.16 ± 0.02"),
        "energy": ("1.80 ± 0.05", "-2.04 ± 0.02"),
        "kin8nm": ("0.098 ± 0.001", "0.896 ± 0.006"),
        "naval": ("0.006 ± 0.000", "3.731 ± 0.006"),
        "power": ("4.12 ± 0.03", "-2.84 ± 0.01"),
        "protein": ("4.73 ± 0.01", "-2.97 ± 0.00"),
        "wine": ("0.64 ± 0.01", "-0.97 ± 0.01"),
        "yacht": ("1.02 ± 0.05", "-1.63 ± 0.02"),
    },
}
"""RMSE and log-likelihood as published; the ± of deep ensembles is as they print it."""

_UNITS, _LARGE = 50, {"protein": 100}
NOISES = {"inferred": models.Gaussian(), "heteroscedastic": models.HeteroscedasticGaussian()}
"""The likelihood of each kind of noise."""

_DROPOUTS = models.Normal(1.0, fan_in=True)
_CLEAR = 2.0  # standard errors of a paired difference


@dataclass(frozen=True)
class SplitScore:
    """What one method is worth on one split.

    Attributes:
        rmse: of the predictive mean, in the data's units.
        log_likelihood: the mean over test rows, of the mixture.
        log_likelihood_gaussian: that of the normal with the mixture's mean and variance.
        rhat: the worst of the functions; nan where draws are not chains.
        ess: the least of the functions.
        passed: the verdict of `diagnostics.convergence`; None where it can't tell.
        seconds: of the run, compilation included.
    """

    rmse: float
    log_likelihood: float
    log_likelihood_gaussian: float
    rhat: float
    ess: float
    passed: bool | None
    seconds: float


def hmc_uci(
    name: Annotated[str, typer.Option("--data", help="A UCI set, such as yacht.")] = "yacht",
    splits: Annotated[int | None, typer.Option(min=1, help="Only the first so many.")] = None,
    methods: Annotated[str, typer.Option(help="Names of methods, with commas.")] = ",".join(METHODS),
    noise: Annotated[str, typer.Option(help="inferred, or heteroscedastic.")] = "inferred",
    draws: Annotated[int, typer.Option(min=4, help="Of HMC per chain, at most.")] = 4000,
    seed: Annotated[int, typer.Option(min=0, help="Of all runs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The last line is a JSON object of HMC's scores.")] = False,
) -> None:
    """Run every method on the standard splits of a set, and print ours beside the published figures."""
    console = Console()
    names = methods.split(",")
    unknown = [each for each in names if each not in METHODS]
    if unknown:
        raise typer.BadParameter(f"there is no method {unknown[0]!r}; known are {', '.join(METHODS)}")
    if noise not in NOISES:
        raise typer.BadParameter(f"there is no noise {noise!r}; known are {', '.join(NOISES)}")
    if as_json and "hmc" not in names:
        raise typer.BadParameter("--json prints the scores of HMC: put hmc among the methods")
    if not data.load(name).standard_splits:
        raise typer.BadParameter(f"'{name}' has no standard splits; the sets that have some are those of `data.uci`")
    options = {each: {**METHODS[each], **({"draws": draws} if each == "hmc" else {})} for each in names}
    found = by_split(
        Laboratory(), name, splits, options, noise, seed, lambda line: console.print(line, highlight=False),
    )  # fmt: skip
    console.print(str(table(name, found)), highlight=False, soft_wrap=True, markup=False)
    if "hmc" in found and len(found) > 1:
        console.print(verdict(found), highlight=False)
    if as_json:
        columns = ("rmse", "log_likelihood", "log_likelihood_gaussian", "rhat", "ess")
        print(json.dumps({"data": name, **{key: [getattr(each, key) for each in found["hmc"]] for key in columns}}))


def by_split(
    lab: Laboratory,
    name: str,
    splits: int | None,
    methods: Mapping[str, Mapping[str, Any]],
    noise: str,
    seed: int,
    say: Callable[[str], None],
) -> dict[str, list[SplitScore]]:
    """The scores of methods, given by their options, on the first `splits` standard splits of a set, or on all."""
    dataset = data.load(name)
    count = min(splits or dataset.standard_splits, dataset.standard_splits)
    layers = (_LARGE.get(name, _UNITS),)
    found: dict[str, list[SplitScore]] = {each: [] for each in methods}
    for index in range(count):
        pair = dataset.split(index=index)
        for each, options in methods.items():
            prior = _DROPOUTS if each == "dropout" else models.Hierarchical()
            model = models.mlp(layers, "relu", prior, NOISES[noise])
            score = scored(lab.posterior(f"{name}-{index}-{each}", model, pair[0], seed=seed, **options), pair[1])
            found[each].append(score)
            word = {True: "", False: ", not converged", None: ""}[score.passed] if np.isfinite(score.rhat) else ""
            say(
                f"split {index}: {each}: RMSE {score.rmse:.4g}, log-likelihood {score.log_likelihood:.3f}, "
                f"{score.seconds:.0f} s{word}"
            )
    return found


def scored(posterior: inference.Posterior, test: Split) -> SplitScore:
    """Judge a posterior, and score the test rows of its split."""
    judged = diagnostics.convergence(posterior)
    prediction, y = test.restore(posterior.predict(test)), test.y_original
    return SplitScore(
        rmse=float(np.sqrt(np.mean((prediction.mean - y) ** 2))),
        log_likelihood=float(prediction.log_prob(y).mean()),
        log_likelihood_gaussian=float(norm.logpdf(y, prediction.mean, prediction.std).mean()),
        rhat=judged.judged.worst_rhat if judged.judged is not None else float("nan"),
        ess=judged.judged.least_ess if judged.judged is not None else float("nan"),
        passed=judged.passed,
        seconds=posterior.cost.seconds,
    )


def verdict(found: dict[str, list[SplitScore]], score: str = "log_likelihood") -> str:
    """Whether HMC is the best in log-likelihood, by the rule at the top of this file, and which splits to doubt."""
    hmc = np.array([getattr(each, score) for each in found["hmc"]])
    away = {
        name: np.array([getattr(each, score) for each in scores]) - hmc
        for name, scores in found.items()
        if name != "hmc"
    }
    best = max(away, key=lambda name: away[name].mean())
    gain, error = away[best].mean(), _error(away[best])
    if gain <= 0:
        words = f"confirmed: HMC has the highest log-likelihood; {best} comes next, {gain:.3f} ± {error:.3f}"
    elif len(hmc) > 1 and gain > _CLEAR * error:
        words = f"contradicted: {best} is {gain:.3f} ± {error:.3f} higher than HMC"
    else:
        words = f"undecided: {best} is {gain:.3f} ± {error:.3f} higher than HMC, paired by split"
    failed = [index for index, each in enumerate(found["hmc"]) if not each.passed]
    if failed:
        words += f". HMC's chains have not converged on splits {', '.join(map(str, failed))}"
    return words


def _error(values: np.ndarray) -> float:
    """The standard error of a mean over splits; the splits share rows, so it is a little too small."""
    return mean_and_error(values)[1]


def table(name: str, found: dict[str, list[SplitScore]]) -> Table:
    """Ours, by method, beside the published figures of a set."""

    def column(scores: list[SplitScore], key: str) -> np.ndarray:
        return np.array([getattr(each, key) for each in scores])

    def mean(values: np.ndarray, digits: str) -> str:
        return f"{values.mean():{digits}} ± {_error(values):{digits}}" if len(values) > 1 else f"{values[0]:{digits}}"

    rows = []
    for method, scores in found.items():
        away = ""
        if method != "hmc" and "hmc" in found:
            away = mean(column(scores, "log_likelihood") - column(found["hmc"], "log_likelihood"), ".3f")
        rhat, ess = column(scores, "rhat"), column(scores, "ess")
        chains = bool(np.isfinite(rhat).any())
        rows.append((
            f"ours, {method}", mean(column(scores, "rmse"), ".4g"), mean(column(scores, "log_likelihood"), ".3f"), away,
            mean(column(scores, "log_likelihood_gaussian"), ".3f"), f"{rhat.max():.3f}" if chains else "",
            f"{ess.min():.0f}" if chains else "", f"{np.median(column(scores, 'seconds')):.0f}",
        ))  # fmt: skip
    for source, sets in PUBLISHED.items():
        if name in sets:
            rmse, log_likelihood = sets[name]
            gaussian = source.startswith(("deep", "HMC (Izmailov"))
            both = ("", "", log_likelihood) if gaussian else (log_likelihood, "", "")
            rows.append((source, rmse, *both, "", "", ""))
    count = len(next(iter(found.values())))
    return Table(
        f"{name}, {count} splits: mean ± standard error",
        ("", "RMSE", "log-likelihood", "minus HMC's", "of the normal", "worst R-hat", "least ESS", "s a split"), rows,
    )  # fmt: skip


if __name__ == "__main__":
    typer.run(hmc_uci)
