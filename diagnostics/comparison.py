"""Comparison: several posteriors of the same model, their scores, their cost, and how far each is from a reference.

The distance of a method to the reference means little without the distance of the reference to itself. The reference's
chains are cut into two halves A and B in every way (up to 70); the noise floor is the distance of B to A, and a method,
thinned to the size of B, is measured against the same A. A perfect method so lands on the floor.

For regression the distances are the Wasserstein distances W1 and W2 between the draws of the function at each test
point, in units of the reference's standard deviation there. For classification they are the total variation between
the mean probabilities, and the agreement: how often both name the same class first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import numpy as np
from jaxtyping import Float

from diagnostics.scoring import scores
from inference import Posterior, Prediction
from inference.prediction import Classification
from models import Network

__all__ = ["Comparison", "compare"]

_CUTS = 70  # all ways to halve 8 chains; of more chains, the first so many


@dataclass(frozen=True, eq=False)
class Comparison:
    """One table of posteriors.

    Attributes:
        rows: for each posterior its name and its numbers; those that don't apply are missing.
        reference: the name of the reference, None if there is none.
        floor: the distances of the reference to itself, by name.
    """

    rows: tuple[dict[str, Any], ...]
    reference: str | None
    floor: dict[str, float]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order in which they come up."""
        return tuple(dict.fromkeys(key for row in self.rows for key in row))

    def cells(self) -> list[list[str]]:
        """The table as text, without its heading."""
        return [[_cell(row.get(column)) for column in self.columns] for row in self.rows]

    def __str__(self) -> str:
        table = [list(self.columns), *self.cells()]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
            for row in table
        ]
        if self.floor:
            floor = ", ".join(f"{name} {value:.3g}" for name, value in self.floor.items())
            lines.append(f"distances are to {self.reference}; between its own halves they are {floor}")
        return "\n".join(lines)


def compare(posteriors: Mapping[str, Posterior], test: Any, reference: str | Posterior | None = None) -> Comparison:
    """Compare posteriors on test data.

    Args:
        posteriors: by name.
        test: a `Split` (scores are then in the data's own units) or `(x, y)`.
        reference: the key of the posterior that distances are measured to, or a posterior; None measures none.
    """
    if isinstance(reference, str) and reference not in posteriors:
        raise ValueError(f"reference must be one of {', '.join(posteriors)} or a posterior, got {reference!r}")
    x, y = test
    targets = test if hasattr(test, "restore") else y
    for name, posterior in posteriors.items():
        if not isinstance(posterior.model, Network):
            raise TypeError(f"compare needs posteriors of networks of models, '{name}' is of another model")
    predictions = {name: posterior.predict(x) for name, posterior in posteriors.items()}
    anchor = reference.predict(x) if isinstance(reference, Posterior) else predictions.get(reference or "")
    name_of_anchor = "the reference" if isinstance(reference, Posterior) else reference
    if anchor is not None and anchor.outputs.shape[0] * anchor.outputs.shape[1] == 1:
        raise ValueError(f"reference must have several draws to measure distances by, {name_of_anchor} has one")
    floor, distances = _distances(anchor, predictions) if anchor is not None else ({}, {})
    rows = []
    for name, posterior in posteriors.items():
        away = {} if name == reference else distances.get(name, {})
        cost = {"seconds": posterior.cost.seconds, "gradients": posterior.cost.gradients}
        rows.append({"method": name, **scores(predictions[name], targets), **away, **cost})
    return Comparison(tuple(rows), name_of_anchor, floor)


def _distances(
    anchor: Prediction, predictions: Mapping[str, Prediction]
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """The noise floor, and each prediction's distances, averaged over all ways to halve the anchor's chains."""
    reference = _functions(anchor)
    chains = len(reference)
    halves = list(islice(combinations(range(chains), chains // 2), _CUTS)) if chains > 1 else []
    cuts = [(reference[list(a)], np.delete(reference, list(a), axis=0)) for a in halves]
    floor = _mean([_distance(anchor, _flat(b), _flat(a)) for a, b in cuts])
    found = {}
    for name, prediction in predictions.items():
        draws = _flat(_functions(prediction))
        if cuts:
            found[name] = _mean([_distance(anchor, _thin(draws, len(_flat(b))), _flat(a)) for a, b in cuts])
        else:
            found[name] = _distance(anchor, draws, _flat(reference))
    return floor, found


def _functions(prediction: Prediction) -> Float[np.ndarray, "chain draw n ..."]:
    likelihood: Any = prediction.likelihood
    if isinstance(prediction, Classification):
        return likelihood.probabilities(prediction.outputs)
    return likelihood.mean(prediction.outputs.astype(np.float64))


def _distance(anchor: Prediction, draws: np.ndarray, others: np.ndarray) -> dict[str, float]:
    if isinstance(anchor, Classification):
        p, q = draws.mean(axis=0), others.mean(axis=0)
        return {
            "total_variation": float(0.5 * np.abs(p - q).sum(axis=-1).mean()),
            "agreement": float((p.argmax(axis=-1) == q.argmax(axis=-1)).mean()),
        }
    size = max(len(draws), len(others))
    gap = _quantiles(draws, size) - _quantiles(others, size)
    gap = gap / others.std(axis=0)
    return {"w1": float(np.abs(gap).mean()), "w2": float(np.sqrt((gap**2).mean(axis=0)).mean())}


def _quantiles(draws: np.ndarray, size: int) -> np.ndarray:
    """The quantiles of the draws at the middles of `size` equal steps of probability."""
    levels = (np.arange(size) + 0.5) / size
    return np.sort(draws, axis=0)[np.floor(levels * len(draws)).astype(int)]


def _flat(draws: np.ndarray) -> np.ndarray:
    return draws.reshape(-1, *draws.shape[2:])


def _thin(draws: np.ndarray, count: int) -> np.ndarray:
    if len(draws) <= count:
        return draws
    return draws[np.linspace(0, len(draws) - 1, count).round().astype(int)]


def _mean(numbers: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in numbers])) for name in numbers[0]} if numbers else {}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}" if 0 < abs(value) < 0.1 else f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
