r"""What the two kinds of uncertainty are good for (Kendall & Gal 2017): leaving out what is uncertain, and calibration.

**Precision.** Test rows are sorted by their uncertainty, epistemic, aleatoric or total, and the least certain ones are
left out: the error of those that are kept should fall. The error is the root mean square of regressions, and the share
of wrong labels.

**Calibration.** The share of targets below each predicted percentile should be that percentile; the mean squared
deviation over the 99 percentiles is the calibration error of the paper. Four models of the same network are compared:

    none        one point, one noise for all inputs          (MAP)
    aleatoric   one point, a noise by input                  (MAP)
    epistemic   MC dropout, one noise for all inputs
    both        MC dropout, a noise by input

Test rows of all splits are put together, because 50 rows alone are far from uniform by chance; standard errors are
those of leaving one split out at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import data
import diagnostics
import inference
import models
from data import Split
from experiments.deciding import dots, on_all, pooled
from experiments.study import Finding, Laboratory, Study, mean_and_error
from experiments.uncertainty_share import MODEL, by_dropout, by_hmc
from inference.display.tables import Table, with_error

__all__ = ["PUBLISHED", "STUDIES", "calibration_error", "jackknife", "kept_errors", "of_calibration", "of_precision"]

PUBLISHED = {"none": 0.00501, "aleatoric": 0.00272, "epistemic": 0.007, "both": 0.00214}
"""Calibration error on CamVid."""

_KEPT = np.array([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])
_HALF = 5  # the place of one half among them
_PARTS = ("epistemic", "aleatoric", "total")
_LEVELS = np.arange(1, 100) / 100


def uncertainty_precision(
    lab: Laboratory, regression: str, splits: int, steps: int, rate: float, draws: int, hmc_splits: int, hmc_draws: int
) -> Finding:
    """A regression and the digits by MC dropout, and the regression by HMC."""
    digits = models.mlp((50,), "relu", models.Normal(1.0, fan_in=True), models.Categorical(10))
    found, failed = {}, 0
    for name, model in ((regression, MODEL), ("digits", digits)):
        pairs = [data.load(name).split(seed=seed, test=0.3) for seed in range(splits)]
        pairs = [(train.flat(), test.flat()) for train, test in pairs]
        posteriors = by_dropout(model, [train for train, _ in pairs], steps, rate, draws)
        found[f"{name}, MC dropout"] = _curves(posteriors, pairs)
        if name == regression:
            exact, failed = by_hmc(lab, model, [train for train, _ in pairs[:hmc_splits]], hmc_draws)
            found[f"{name}, HMC"] = _curves(exact, pairs)
        lab.say(f"{name} is done")
    return of_precision(found, failed)


def _curves(posteriors: list[Any], pairs: list[tuple[Split, Split]]) -> np.ndarray:
    """The error of the rows that are kept, (split, part, share)."""
    curves = []
    for posterior, (_, test) in zip(posteriors, pairs, strict=False):
        prediction = posterior.predict(test)
        if test.classes is None:
            squares, root = np.square(prediction.mean - test.y), True
        else:
            squares, root = (prediction.mean.argmax(axis=1) != test.y).astype(float), False
        curves.append([kept_errors(squares, getattr(prediction, part), root) for part in _PARTS])
    return np.array(curves)


def kept_errors(losses: np.ndarray, uncertainty: np.ndarray, root: bool) -> np.ndarray:
    """The mean loss of the most certain rows, by the share that is kept; its root if `root`."""
    in_order = losses[np.argsort(uncertainty, kind="stable")]
    means = np.array([in_order[: max(1, round(share * len(losses)))].mean() for share in _KEPT])
    return np.sqrt(means) if root else means


def of_precision(found: Mapping[str, np.ndarray], failed: int = 0) -> Finding:
    """The finding, from the error of kept rows by name, (split, part, share); those of MC dropout decide."""
    rows, effects = [], []
    for name, curves in found.items():
        for i, part in enumerate(_PARTS):
            effect = mean_and_error(curves[:, i, 0] - curves[:, i, _HALF])
            cells = [with_error(*mean_and_error(curves[:, i, place])) for place in (0, _HALF, -1)]
            rows.append((f"{name}, {part}", *cells, with_error(*effect, sign=True)))
            if name.endswith("MC dropout") and part != "total":
                effects.append(effect)
    columns = ("by", "all rows", "the most certain half", "tenth", "all minus half")
    curves_of = {f"{name}, {_PARTS[i]}": each[:, i] / each[:, i, :1] for name, each in found.items() for i in (0, 1)}
    return Finding(
        on_all(effects),
        "Leaving out the less certain half lowers the error in "
        f"{sum(effect > 2 * error for effect, error in effects)} of the {len(effects)} cases of MC dropout that "
        "decide by "
        "more than two standard errors." + (f" {failed} of HMC's runs have not converged." if failed else ""),
        (Table("Error of the rows that are kept: standardised RMSE, or share of wrong labels", columns, rows),),
        {name: each.mean(axis=0) for name, each in found.items()} | {"not_converged": failed},
        lambda: diagnostics.plots.lines(
            _KEPT, {name: each if len(each) > 1 else each[0] for name, each in curves_of.items()},
            xlabel="share of the rows that is kept", ylabel="error over that of all rows",
            title="Leaving out what is uncertain",
        ),
    )  # fmt: skip


def uncertainty_calibration(lab: Laboratory, sets: Mapping[str, int], steps: int, rate: float, draws: int) -> Finding:
    """Fit the four models to the first splits of each of the `sets`."""
    found: dict[str, dict[str, list[np.ndarray]]] = {}
    prior = models.Normal(1.0, fan_in=True)
    for name, splits in sets.items():
        pairs = [data.load(name).split(index=index) for index in range(splits)]
        train = [each for each, _ in pairs]
        found[name] = {}
        for kind, noise in (("none", models.Gaussian()), ("aleatoric", models.HeteroscedasticGaussian())):
            model = models.mlp((50,), "relu", prior, noise)
            point = inference.run_folds(model, train, method="map", steps=steps, progress=False)
            found[name][kind] = _below(point, pairs)
            spread = by_dropout(model, train, steps, rate, draws)
            found[name]["epistemic" if kind == "none" else "both"] = _below(spread, pairs)
        lab.say(f"{name} is done")
    return of_calibration(found)


def _below(posteriors: list[Any], pairs: list[tuple[Split, Split]]) -> list[np.ndarray]:
    """The probability below each target, by split."""
    return [posterior.predict(test).cdf(test.y) for posterior, (_, test) in zip(posteriors, pairs, strict=True)]


def calibration_error(below: np.ndarray) -> float:
    """The mean squared deviation of the share of targets below a percentile from the percentile."""
    shares = np.searchsorted(np.sort(below), _LEVELS, side="right") / len(below)
    return float(np.mean(np.square(shares - _LEVELS)))


def jackknife(function: Any, parts: list[Any]) -> tuple[float, float]:
    """`function` of all parts, and its standard error by leaving out one at a time."""
    left_out = np.array([function(parts[:i] + parts[i + 1 :]) for i in range(len(parts))])
    error = np.sqrt((len(parts) - 1) * left_out.var()) if len(parts) > 1 else float("nan")
    return function(parts), float(error)


def of_calibration(found: Mapping[str, Mapping[str, list[np.ndarray]]]) -> Finding:
    """The finding, from the probabilities below the targets by set, model and split."""
    rows, effects = [], {}
    panels: dict[str, dict[str, tuple[float, float]]] = {}
    for name, kinds in found.items():
        panels[name] = {}
        for kind in PUBLISHED:
            panels[name][kind] = own = jackknife(lambda parts: calibration_error(np.concatenate(parts)), kinds[kind])
            pairs = list(zip(kinds[kind], kinds["both"], strict=True))
            away = jackknife(
                lambda parts: calibration_error(np.concatenate([first for first, _ in parts]))
                - calibration_error(np.concatenate([second for _, second in parts])), pairs,
            )  # fmt: skip
            if kind != "both":
                effects[name, kind] = away
            rows.append((
                f"{name}, {kind}", with_error(*own), with_error(*away, sign=True) if kind != "both" else "",
                f"{PUBLISHED[kind]:g}",
            ))  # fmt: skip
    over_sets = {kind: pooled(effects[name, kind] for name in found) for kind in PUBLISHED if kind != "both"}
    return Finding(
        on_all(over_sets.values()),
        "The calibration error of both, subtracted from that of the others, over the sets: "
        + ", ".join(f"{kind} {with_error(*each, sign=True)}" for kind, each in over_sets.items()) + ".",
        (Table(
            "Calibration error ± standard error", ("", "error", "minus that of both", "published, CamVid"), rows,
        ),),
        {name: {kind: each[0] for kind, each in kinds.items()} for name, kinds in panels.items()},
        lambda: dots(panels, None, "calibration error"),
    )  # fmt: skip


_FITS = {"steps": 4000, "rate": 0.1, "draws": 500}

STUDIES = (
    Study(
        "uncertainty_precision",
        "Precision by uncertainty",
        "Is the error lower where less uncertainty is stated?",
        "Of MC dropout, as published, on a regression and on digits, by the epistemic and by the aleatoric part: "
        "the error of all test rows minus that of the most certain half, paired by split. Confirmed if all four "
        "means are above 0 by more than two standard errors over the splits, contradicted if one is as far below.",
        "Kendall & Gal 2017, figure 2: precision falls as recall rises by either kind of uncertainty, on CamVid, "
        "NYUv2 and Make3D.",
        uncertainty_precision,
        {"regression": "concrete", "splits": 6, **_FITS, "hmc_splits": 2, "hmc_draws": 500},
        {"regression": "diabetes", "splits": 2, "steps": 20, "draws": 10, "hmc_splits": 1, "hmc_draws": 10},
        needs=("concrete",),
    ),
    Study(
        "uncertainty_calibration",
        "Calibration with none, one or both kinds of uncertainty",
        "Is a network that has both kinds of uncertainty the best calibrated?",
        "The calibration error of each of the other three models minus that of both, averaged over the sets. "
        "Confirmed if all three are above 0 by more than two standard errors (by leaving out one split at a time), "
        "contradicted if one is as far below.",
        "Kendall & Gal 2017, figure 3, CamVid: .00501 with none, .00272 aleatoric, .007 epistemic, .00214 both.",
        uncertainty_calibration,
        {"sets": {"boston": 20, "concrete": 20, "yacht": 20}, **_FITS},
        {"sets": {"yacht": 2}, "steps": 20, "draws": 10},
        needs=("boston", "concrete", "yacht"),
        minutes=3,
    ),
)
