"""Comparison: several posteriors of the same data, their scores, their cost, and how far each is from a reference.

Scores have standard errors over test points. Two posteriors are judged on the same points, so the difference of their
scores has a standard error of its own, over paired differences, which is smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from data import Split
from data.pairs import as_pair
from diagnostics.comparisons.distances import Distance, distances
from diagnostics.convergences.spaces import function_mixing
from inference import Posterior, Prediction
from inference.display.cards import card
from inference.display.tables import Table, with_error
from inference.results.scores import influences, row_scores, scores_of_rows
from models import Network

__all__ = ["Comparison", "Table", "compare", "compared"]

_NAMES = {
    "total_variation": "total variation", "log_score": "log score", "w1_noise": "W1 with noise", "w1": "W1", "w2": "W2",
    "w2_noise": "W2 with noise", "rmse": "RMSE", "crps": "CRPS", "brier": "Brier", "ece": "ECE",
}  # fmt: skip
_RHAT, _LEAST_DRAWS = 1.05, 4  # of the reference: above this R-hat its chains differ, with fewer draws that is unknown
_NEAR = 2.0  # a distance within this many spreads of the floor counts as the reference's distance to itself


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Several posteriors side by side.

    Attributes:
        rows: for each posterior its name and the numbers that apply to it: a score such as `rmse`, its standard error
            `rmse_error`, its difference from the reference's score, `rmse_difference`, and the standard error of the
            difference, `rmse_difference_error`; a distance such as `w1` and its spread over the halves, `w1_spread`,
            with `w1_floor` and `w1_floor_spread` where the posterior has fewer draws than a half of the reference and
            so a floor of its own; `seconds` and `gradients`.
        reference: the name of the reference, None if there is none.
        floor: the distances of the reference to itself, by name; empty if it has one chain.
        floor_spread: the standard deviations of `floor` over the ways to halve the reference's chains.
        caution: what is wrong with the reference itself, in words; empty if its functions have mixed.
    """

    rows: tuple[dict[str, Any], ...]
    reference: str | None
    floor: dict[str, float]
    floor_spread: dict[str, float]
    caution: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all numbers, in the order in which they come up."""
        return tuple(dict.fromkeys(key for row in self.rows for key in row))

    @property
    def scores(self) -> tuple[str, ...]:
        """The names of the scores."""
        return tuple(key for key in self.columns if f"{key}_error" in self.columns and not key.endswith("_difference"))

    @property
    def distances(self) -> tuple[str, ...]:
        """The names of the distances."""
        return tuple(key for key in self.columns if f"{key}_spread" in self.columns and not key.endswith("_floor"))

    def near(self, row: Mapping[str, Any], name: str) -> bool:
        """Whether the posterior in `row` is as close to the reference as that is to itself, within two spreads."""
        if name not in self.floor or name not in row:
            return False
        excess = row[name] - row.get(f"{name}_floor", self.floor[name])
        spreads = row.get(f"{name}_floor_spread", self.floor_spread[name]), row[f"{name}_spread"]
        spread = np.hypot(*np.nan_to_num(spreads))
        return bool((-excess if name == "agreement" else excess) <= _NEAR * spread)

    @property
    def summary(self) -> str:
        """In words, how far to trust the reference, and how close the others are to it."""
        return f"{self.caution} {self.closeness}".strip()

    @property
    def closeness(self) -> str:
        """In words, which posteriors are as close to the reference as it is to itself, and which is the farthest."""
        measure = next((name for name in ("w1", "total_variation") if name in self.floor), None)
        others = [row for row in self.rows if measure in row]
        if measure is None or not others:
            return ""
        near = [row["method"] for row in others if all(self.near(row, name) for name in self.distances)]
        order = sorted(others, key=lambda row: row[measure])
        close = (
            f"As close to {self.reference} as that is to itself: {', '.join(near)}."
            if near
            else f"No posterior is as close to {self.reference} as that is to itself; closest is {order[0]['method']}, "
            f"{order[0][measure] / self.floor[measure]:.1f} times as far by {_spelled(measure)}."
        )
        if order[-1]["method"] not in near and len(others) > 1:
            times = order[-1][measure] / self.floor[measure]
            close += f" Farthest is {order[-1]['method']}, {times:.1f} times as far by {_spelled(measure)}."
        return close

    def tables(self) -> tuple[Table, ...]:
        """Tables as text: the scores, their differences from the reference's, and the distances with the cost."""
        names = [row["method"] for row in self.rows]
        scores = tuple(
            (name, *(_with_error(row.get(key), row.get(f"{key}_error")) for key in self.scores))
            for name, row in zip(names, self.rows, strict=True)
        )
        found = [Table("scores, with standard errors", ("method", *map(_spelled, self.scores)), scores)]
        others = [row for row in self.rows if row["method"] != self.reference]
        if self.reference is not None and others:
            away = [f"{name}_difference" for name in self.scores]
            differences = tuple(
                (row["method"], *(_with_error(row[key], row[f"{key}_error"]) for key in away)) for row in others
            )
            title = f"scores minus those of {self.reference}, with standard errors of the paired differences"
            found.append(Table(title, ("method", *map(_spelled, self.scores)), differences))
        cost = ("seconds", "gradients")
        rows = [(row["method"], *self._away(row), *(_cell(row[key]) for key in cost)) for row in others]
        anchor = [row for row in self.rows if row["method"] == self.reference]
        if self.floor:
            floor = (_with_error(self.floor[key], self.floor_spread[key]) for key in self.distances)
            own = [_cell(anchor[0][key]) for key in cost] if anchor else ["", ""]
            rows.append((f"{self.reference} to itself", *floor, *own))
        elif anchor:
            rows.append((anchor[0]["method"], *[""] * len(self.distances), *(_cell(anchor[0][key]) for key in cost)))
        title = "cost" if not self.distances else f"distance to {self.reference}, and cost"
        found.append(Table(title, ("method", *map(_spelled, self.distances), *cost), tuple(rows)))
        return tuple(found)

    def _away(self, row: Mapping[str, Any]) -> list[str]:
        return [
            _with_error(row.get(key), row.get(f"{key}_spread")) + (" =" if self.near(row, key) else "")
            for key in self.distances
        ]

    @property
    def _legend(self) -> str:
        others = [row for row in self.rows if row["method"] != self.reference]
        if not any(self.near(row, name) for row in others for name in self.floor):
            return ""
        return f"= as close to {self.reference} as one half of its chains is to the other"

    def __str__(self) -> str:
        text = "\n\n".join(map(str, self.tables()))
        return "\n".join(part for part in (text, self._legend, self.caution) if part)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        heading = f"Comparison of {len(self.rows)} posteriors" if len(self.rows) > 1 else "Scores of one posterior"
        return card(heading, self.summary, *self.tables(), note=self._legend)


def compare(posteriors: Mapping[str, Posterior], test: Any, reference: str | Posterior | None = None) -> Comparison:
    """Compare posteriors on test data.

    Args:
        posteriors: the posteriors by name.
        test: a `Split` (scores are then in the data's own units) or `(x, y)`.
        reference: the key of the posterior that distances are measured to, or a posterior; None measures none.
    """
    if not isinstance(posteriors, Mapping) or not posteriors:
        raise TypeError(
            f"compare needs posteriors by name, such as {{'hmc': posterior}}, got {type(posteriors).__name__}"
        )
    for name, posterior in posteriors.items():
        if not isinstance(posterior, Posterior):
            raise TypeError(f"compare needs posteriors, '{name}' is a {type(posterior).__name__}")
        if not isinstance(posterior.model, Network):
            raise TypeError(f"compare needs posteriors of networks of models, '{name}' is of another model")
    _check_reference(posteriors, reference)
    x, _ = as_pair("compare", test)
    return compared(posteriors, {name: each.predict(x) for name, each in posteriors.items()}, test, reference)


def compared(
    posteriors: Mapping[str, Posterior],
    predictions: Mapping[str, Prediction],
    test: Any,
    reference: str | Posterior | None,
) -> Comparison:
    """Compare posteriors whose `predictions` at the test inputs have been made already."""
    x, y = as_pair("compare", test)
    targets = test if isinstance(test, Split) else y
    _check_reference(posteriors, reference)
    anchor = reference.predict(x) if isinstance(reference, Posterior) else predictions.get(reference or "")
    name_of_anchor = "the reference" if isinstance(reference, Posterior) else reference
    if anchor is not None and anchor.outputs.shape[0] * anchor.outputs.shape[1] == 1:
        raise ValueError(f"reference must have several draws to measure distances by, {name_of_anchor} has one")
    others = {name: each for name, each in predictions.items() if name != reference}
    sampled = [name for name in others if posteriors[name].kind != "point"]
    floor, away, own = distances(anchor, others, sampled) if anchor is not None else ({}, {}, {})
    by_row = {name: row_scores(prediction, targets) for name, prediction in predictions.items()}
    baseline = (
        None if anchor is None else by_row[reference] if isinstance(reference, str) else row_scores(anchor, targets)
    )
    rows = tuple(
        {
            "method": name,
            **_scored(by_row[name], None if name == reference else baseline),
            **_flat(away.get(name, {}), ""),
            **_flat(own.get(name, {}), "_floor"),
            "seconds": posterior.cost.seconds,
            "gradients": posterior.cost.gradients,
        }
        for name, posterior in posteriors.items()
    )
    return Comparison(
        rows,
        name_of_anchor,
        {key: value.mean for key, value in floor.items()},
        {key: value.spread for key, value in floor.items()},
        _caution(name_of_anchor, posteriors.get(reference) if isinstance(reference, str) else reference),
    )


def _scored(rows: dict[str, np.ndarray], baseline: dict[str, np.ndarray] | None) -> dict[str, float]:
    """Scores with their errors and, given a baseline, the paired differences from it with their errors."""
    found: dict[str, float] = {}
    mine = scores_of_rows(rows)
    pull = influences(rows)
    for name, value in mine.items():
        found |= {name: value, f"{name}_error": _error(pull[name])}
        if baseline is not None:
            found[f"{name}_difference"] = value - scores_of_rows(baseline)[name]
            found[f"{name}_difference_error"] = _error(pull[name] - influences(baseline)[name])
    return found


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def _flat(away: Mapping[str, Distance], ending: str) -> dict[str, float]:
    return {
        key: value
        for name, each in away.items()
        for key, value in ((f"{name}{ending}", each.mean), (f"{name}{ending}_spread", each.spread))
    }


def _check_reference(posteriors: Mapping[str, Posterior], reference: Any) -> None:
    if isinstance(reference, Posterior) or reference is None or reference in posteriors:
        return
    raise ValueError(f"reference must be one of {', '.join(posteriors)} or a posterior, got {reference!r}")


def _caution(name: str | None, reference: Posterior | None) -> str:
    """A warning if the reference's functions have not mixed, so that its floor is wide and being near means little."""
    space = function_mixing(reference) if reference is not None and reference.kind == "chains" else None
    if space is None or reference is None or reference.shape[1] < _LEAST_DRAWS:
        return ""
    if space.worst_rhat <= _RHAT:
        return ""
    return (
        f"{name} itself has not converged (worst R-hat {space.worst_rhat:.2f} of its functions): its floor is wide, "
        "and to be close to it means little."
    )


def _spelled(name: str) -> str:
    return _NAMES.get(name, name.replace("_", " "))


def _with_error(value: float | None, error: float | None) -> str:
    if value is None:
        return ""
    if error is None or not np.isfinite(error) or error == 0:
        return _cell(value)
    return with_error(value, error)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
