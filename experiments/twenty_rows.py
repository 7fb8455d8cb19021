r"""Two assays with twenty rows that others published without a noise floor, for every method, and with it.

**Variance.** A network of 10 units is fitted to 20 rows, and predicts 100 others: how far does a method's predictive
variance go with HMC's, by Pearson's correlation (Zhang et al. 2018, table 4)? The floor is HMC's own correlation with
HMC of another seed.

**Active learning.** From 20 rows on, the rows of the pool with the largest predictive variance are added, nine in all;
then the error on 100 test rows is compared with that after nine random rows (Hernandez-Lobato & Adams 2015, table 2).
The floor is how many of the nine HMC chooses again with another seed. What is shortened: fewer repetitions, and three
rows are added at a time, so that the programs of four sizes have to be compiled and not of ten; samplers that take
long, relative to 20 rows, are left out.

The weights have the prior N(0, 1 / inputs), and the noise is inferred. Guides are fitted to all repetitions side by
side (`inference.run_folds`); for the others a program is compiled once and serves all repetitions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import data
import diagnostics
import inference
import models
from data import Dataset, Split
from experiments.deciding import dots, pooled
from experiments.study import Finding, Laboratory, Study, decided, mean_and_error
from inference.display.tables import Table, with_error

__all__ = ["ACTIVE", "CORRELATIONS", "METHODS", "STUDIES", "chosen", "of_choices", "of_correlations", "pieces"]

METHODS: dict[str, dict[str, Any]] = {
    "HMC": {"method": "hmc", "chains": 2, "draws": 300, "seed": 0},
    "HMC, another seed": {"method": "hmc", "chains": 2, "draws": 300, "seed": 1},
    "MCLMC": {"method": "mclmc", "chains": 2, "draws": 300, "warmup": 300},
    "SGLD": {"method": "sgld", "chains": 2, "draws": 500, "warmup": 1000, "batch_size": 10},
    "Laplace": {"method": "laplace"},
    "ensemble": {"method": "ensemble", "chains": 10, "steps": 1000},
    "one normal per weight": {"guide": "gaussian", "steps": 6000},
    "full covariance": {"guide": "fullrank", "steps": 6000},
    "MC dropout": {"guide": "dropout", "rate": 0.05, "steps": 5000},
}
"""How each method is run; those with a guide side by side."""

CORRELATIONS = {
    "boston": (0.718, 0.891), "concrete": (0.811, 0.913), "energy": (0.438, 0.617), "kin8nm": (0.659, 0.731),
    "naval": (0.321, 0.596), "power": (0.618, 0.829), "wine": (0.918, 0.957), "yacht": (0.597, 0.717),
}  # fmt: skip
"""Correlation with HMC's predictive variance of one normal per weight, and of a matrix-normal guide."""

ACTIVE = {
    "boston": (5.750, 5.156), "concrete": (10.564, 11.484), "energy": (3.246, 3.118), "kin8nm": (0.226, 0.223),
    "naval": (0.013, 0.012), "power": (5.229, 4.800), "protein": (5.613, 5.727), "wine": (0.740, 0.749),
    "yacht": (4.644, 3.211),
}  # fmt: skip
"""RMSE by HMC after nine random rows, and after nine of the largest predictive variance."""

_MODEL = models.mlp((10,), "relu", models.Normal(1.0, fan_in=True), models.Gaussian())
_ROWS, _TEST, _ADDED = 20, 100, 9
_REFERENCE, _AGAIN = "HMC", "HMC, another seed"
_ESS = 100.0  # effective draws of the functions that are asked of these short chains

Fitted = Callable[[Sequence[Split]], list[Any]]


def _fit(options: Mapping[str, Any]) -> Fitted:
    """A function that fits a method to data sets of one shape."""

    def fit(splits: Sequence[Split]) -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", inference.TouchstoneWarning)
            if "guide" in options:
                return inference.run_folds(_MODEL, splits, method="svi", draws=500, progress=False, **options)
            return [inference.run(_MODEL, each, progress=False, **options) for each in splits]

    return fit


def pieces(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Twenty rows to learn from, a hundred to test, and the pool of the others."""
    order = np.random.default_rng(seed).permutation(rows)
    return order[:_ROWS], order[_ROWS : _ROWS + _TEST], order[_ROWS + _TEST :]


def _split(dataset: Dataset, train: np.ndarray, rest: np.ndarray) -> tuple[Split, Split]:
    return Dataset(dataset.name, dataset.x, dataset.y, standard=lambda _: (train, rest), standard_splits=1).split()


def variance_correlation(
    lab: Laboratory, sets: Sequence[str], trials: int, leave_out: Sequence[str], **changes: Any
) -> Finding:
    """Fit every method to twenty rows of each trial."""
    methods, found, failed = _chosen(leave_out, changes), {}, 0
    for name in sets:
        dataset = data.load(name)
        cuts = [_split(dataset, *pieces(len(dataset), seed)[:2]) for seed in range(trials)]
        variances = {}
        for method, options in methods.items():
            posteriors = _fit(options)([train for train, _ in cuts])
            failed += _not_converged(posteriors) if method == _REFERENCE else 0
            variances[method] = [each.predict(test).total for each, (_, test) in zip(posteriors, cuts, strict=True)]
        found[name] = {
            method: np.array([np.corrcoef(*both)[0, 1] for both in zip(each, variances[_REFERENCE], strict=True)])
            for method, each in variances.items()
            if method != _REFERENCE
        }
        lab.say(f"{name}: " + ", ".join(f"{method} {each.mean():.2f}" for method, each in found[name].items()))
    return of_correlations(found, failed)


def _chosen(leave_out: Sequence[str], changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The methods but some, with other options, such as fewer steps, for those that take them."""
    return {
        method: {name: changes.get(name, value) for name, value in options.items()}
        for method, options in METHODS.items()
        if method not in leave_out
    }


def _not_converged(posteriors: Sequence[Any]) -> int:
    return sum(not diagnostics.convergence(each, ess=_ESS).passed for each in posteriors)


def of_correlations(found: Mapping[str, Mapping[str, np.ndarray]], failed: int = 0) -> Finding:
    """The finding, from the correlations with HMC by set, method and trial."""
    narrow, wide = "one normal per weight", "full covariance"
    effects = {name: mean_and_error(each[wide] - each[narrow]) for name, each in found.items()}
    gain = pooled(effects.values())
    rows = []
    for name, each in found.items():
        for method, values in each.items():
            short = with_error(*mean_and_error(values - each[_AGAIN]), sign=True) if method != _AGAIN else "the floor"
            published = dict(zip((narrow, "matrix normal"), CORRELATIONS[name], strict=True))
            known = f"{published[method]:g}" if method in published else ""
            known = f"{published['matrix normal']:g} (matrix normal)" if method == wide else known
            rows.append((f"{name}, {method}", with_error(*mean_and_error(values)), short, known))
    floor = pooled([mean_and_error(each[_AGAIN]) for each in found.values()])
    return Finding(
        decided(*gain),
        f"A full covariance correlates {with_error(*gain, sign=True)} better with HMC than one normal per weight, on "
        f"average over the sets; HMC of another seed correlates by {with_error(*floor)}. {failed} of the reference's "
        "runs have not converged.",
        (Table("Correlation with HMC's predictive variance, ± standard error over trials",
               ("", "correlation", "minus the floor", "published"), rows),),
        {**{name: dict(each) for name, each in found.items()}, "not_converged": failed},
        lambda: dots(
            {name: {method: mean_and_error(values) for method, values in each.items()} for name, each in found.items()},
            {name: dict(zip((narrow, wide), CORRELATIONS[name], strict=True)) for name in found},
            "correlation (cross: published)",
        ),
    )  # fmt: skip


def active_learning(
    lab: Laboratory, sets: Sequence[str], repetitions: int, at_a_time: int, leave_out: Sequence[str], **changes: Any
) -> Finding:
    """Let every method choose, and fit it to nine random rows more as well."""
    methods, failed = _chosen(leave_out, changes), 0
    found: dict[str, dict[str, Any]] = {}
    for name in sets:
        dataset = data.load(name)
        parts = [pieces(len(dataset), seed) for seed in range(repetitions)]
        found[name] = {}
        for method, options in methods.items():
            fit = _fit(options)
            wrong: list[int] = []
            if method == _REFERENCE:
                fit = _counting(fit, wrong)
            picks = chosen(fit, dataset, parts, at_a_time)
            active = [np.concatenate([part[0], pick]) for part, pick in zip(parts, picks, strict=True)]
            random = [np.concatenate([part[0], part[2][:_ADDED]]) for part in parts]
            errors = [_errors(fit, dataset, rows, [part[1] for part in parts]) for rows in (random, active)]
            found[name][method] = {"random": errors[0], "active": errors[1], "picks": picks}
            failed += sum(wrong)
            lab.say(f"{name}, {method}: RMSE {errors[0].mean():.4g} random, {errors[1].mean():.4g} active")
    return of_choices(found, failed)


def _counting(fit: Fitted, wrong: list[int]) -> Fitted:
    """`fit`, which also appends how many of its posteriors have not converged."""

    def counted(splits: Sequence[Split]) -> list[Any]:
        posteriors = fit(splits)
        wrong.append(_not_converged(posteriors))
        return posteriors

    return counted


def chosen(fit: Fitted, dataset: Dataset, parts: Sequence[tuple[np.ndarray, ...]], at_a_time: int) -> list[np.ndarray]:
    """The nine rows of its pool that a method adds in each repetition, in the order in which it does."""
    picks: list[np.ndarray] = [np.zeros(0, int) for _ in parts]
    for _ in range(0, _ADDED, at_a_time):
        left = [np.setdiff1d(part[2], pick) for part, pick in zip(parts, picks, strict=True)]
        cuts = [
            _split(dataset, np.concatenate([part[0], pick]), pool)
            for part, pick, pool in zip(parts, picks, left, strict=True)
        ]
        for i, (posterior, (_, pool)) in enumerate(zip(fit([train for train, _ in cuts]), cuts, strict=True)):
            most = np.argsort(-posterior.predict(pool).total, kind="stable")[:at_a_time]
            picks[i] = np.concatenate([picks[i], left[i][most]])[:_ADDED]
    return picks


def _errors(fit: Fitted, dataset: Dataset, train: Sequence[np.ndarray], test: Sequence[np.ndarray]) -> np.ndarray:
    """The RMSE on the test rows after each repetition's training rows."""
    cuts = [_split(dataset, *each) for each in zip(train, test, strict=True)]
    return np.array([
        np.sqrt(np.mean(np.square(rest.restore(posterior.predict(rest)).mean - rest.y_original)))
        for posterior, (_, rest) in zip(fit([each for each, _ in cuts]), cuts, strict=True)
    ])  # fmt: skip


def of_choices(found: Mapping[str, Mapping[str, Mapping[str, Any]]], failed: int = 0) -> Finding:
    """The finding, from the errors after random and chosen rows, and the rows, by set and method."""
    rows: list[Any] = []
    gains: dict[str, dict[str, tuple[float, float]]] = {}
    for name, methods in found.items():
        gains[name] = {}
        for method, each in methods.items():
            gains[name][method] = gain = mean_and_error((each["random"] - each["active"]) / each["random"].mean())
            both = zip(each["picks"], methods[_REFERENCE]["picks"], strict=True)
            common = mean_and_error([len(np.intersect1d(*pair)) for pair in both])
            errors = [with_error(*mean_and_error(each[how])) for how in ("random", "active")]
            own = [f"{number:g}" for number in ACTIVE[name]] if method == _REFERENCE else ["", ""]
            shared = with_error(*common) if method != _REFERENCE else ""
            rows.append((f"{name}, {method}", *errors, with_error(*gain, sign=True), shared, *own))
    hmc = pooled([each[_REFERENCE] for each in gains.values()])
    columns = (
        "", "random", "active", "gain, share of random", "rows as HMC", "random, published", "active, published",
    )  # fmt: skip
    return Finding(
        decided(*hmc),
        f"Choosing by HMC's variance lowers the error by {with_error(*hmc, sign=True)} of that after random rows, on "
        f"average over the sets. {failed} of the reference's runs have not converged.",
        (Table("RMSE after nine rows more, ± standard error over repetitions", columns, rows),),
        {
            **{
                name: {method: {how: each[how] for how in ("random", "active")} for method, each in methods.items()}
                for name, methods in found.items()
            },
            "not_converged": failed,
        },
        lambda: dots(gains, None, "gain, share of the error after random rows"),
    )


_QUICK = {"chains": 2, "draws": 20, "warmup": 40, "steps": 20, "leave_out": ("MCLMC", "SGLD", "ensemble")}

STUDIES = (
    Study(
        "variance_correlation",
        "Predictive variance beside HMC's, with its noise floor",
        "Does the predictive variance of a guide with correlations go with HMC's more than that of one normal per "
        "weight?",
        "The correlation with HMC's variance of a full covariance minus that of one normal per weight, paired by "
        "trial and averaged over the sets. Confirmed if it is above 0 by more than two standard errors over trials, "
        "contradicted if it is as far below. The floor, HMC of another seed, is beside it.",
        "Zhang et al. 2018, table 4 (10 trials): boston .718 and .891, concrete .811 and .913, naval .321 and .596, "
        "yacht .597 and .717, of one normal per weight and of a matrix-normal guide; no noise floor.",
        variance_correlation,
        {"sets": ("boston", "concrete", "yacht"), "trials": 8, "leave_out": ()},
        {"sets": ("yacht",), "trials": 2, **_QUICK},
        needs=("boston", "concrete", "yacht"),
    ),
    Study(
        "active_learning",
        "Active learning from twenty rows, with its noise floor",
        "Do rows of the largest predictive variance under HMC lower the error more than random ones?",
        "The error of HMC after nine random rows minus that after nine chosen ones, over the former's mean, paired "
        "by repetition and averaged over the sets. Confirmed if it is above 0 by more than two standard errors over "
        "repetitions, contradicted if it is as far below. How many rows of HMC's choice a method shares is beside "
        "how many HMC shares with itself.",
        "Hernandez-Lobato & Adams 2015, table 2 (40 repetitions, rows added one by one), by HMC, random and active: "
        "boston 5.750 and 5.156, yacht 4.644 and 3.211; on three of nine sets active is worse.",
        active_learning,
        {"sets": ("boston", "yacht"), "repetitions": 8, "at_a_time": 3, "leave_out": ("MCLMC", "SGLD")},
        {"sets": ("yacht",), "repetitions": 2, "at_a_time": 9, **_QUICK},
        needs=("boston", "yacht"),
    ),
)
