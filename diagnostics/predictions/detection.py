r"""Out-of-distribution detection: does a score tell points outside of the data from points inside?

Outside is the positive class, and a larger score means more outside. With s a threshold, a point is flagged if its
score is s or more. For n_in points inside and n_out outside:

- AUROC: the probability that a point outside scores higher than one inside, where ties count half (midranks).
- AUPR-out: the average precision, sum over thresholds of the precision times the growth of the recall, with outside as
  the positive class. A score that says nothing has n_out / (n_in + n_out).
- FPR95-out: the share of the points inside that are flagged when at least 95 % of those outside are (Hendrycks et al.
  2019, OpenOOD).

Only AUROC is the same the other way round, with inside as the positive class and scores negated, and both ways are
published under the same names, so both are given:

- AUPR-in: the average precision with inside as the positive class; a score that says nothing has n_in / (n_in + n_out).
- FPR95-in: the share of the points outside that are let through when at least 95 % of those inside are (Liang et al.
  2018, ODIN).

Intervals are percentiles of a bootstrap that draws as many points inside and outside as there are, each with
replacement; the same points for all scores. They say how much depends on these points, and nothing about another kind
of outside. On normal scores 90 % intervals hold the truth in 88 to 93 % of cases for AUROC and FPR95, and in 86 to 89 %
for AUPR, with 100 points or more; with 30 of each kind in 83 %, because average precision is biased upwards there.
Where two groups don't overlap at all, no resample does either, and the interval has no width.

The baseline is 1 - the maximum softmax probability (Hendrycks & Gimpel 2017).

References: https://arxiv.org/abs/1610.02136, https://arxiv.org/abs/1706.02690, https://arxiv.org/abs/1812.04606.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from diagnostics.predictions.averaging import Mixture
from diagnostics.predictions.uncertainties import disagreement, maximum_probability, variation_ratio
from inference import Prediction
from inference.display.cards import card
from inference.display.tables import Table
from inference.results.prediction import Classification
from models.validation import finite_array, fraction, one_of, positive_integer

__all__ = ["ORIENTATION", "Detection", "Estimate", "Separation", "out_of_distribution"]

ORIENTATION = (
    "outside is the positive class; a larger score means more outside\n"
    "AUROC: the probability that a point outside scores higher than one inside, ties counting half\n"
    "AUPR-out, AUPR-in: average precision with outside, or inside, as the positive class\n"
    "FPR95-out: the share of points inside that are flagged when 95 % of those outside are\n"
    "FPR95-in: the share of points outside that are let through when 95 % of those inside are"
)
"""Which class is positive and what each number means, in words."""

_OF_LABELS: dict[str, Callable[[Any, int], np.ndarray]] = {
    "epistemic": lambda prediction, seed: prediction.epistemic,
    "total": lambda prediction, seed: prediction.total,
    "variation_ratio": variation_ratio,
    "disagreement": lambda prediction, seed: disagreement(prediction),
    "baseline": lambda prediction, seed: 1 - maximum_probability(prediction),
}
_OF_TARGETS = {name: _OF_LABELS[name] for name in ("epistemic", "total")}
_BLOCK = 2**20  # values of resamples and scores that are worked on at once


class Estimate(NamedTuple):
    """A number with its bootstrap interval."""

    value: float
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.lower:.2f}, {self.upper:.2f}]"


@dataclass(frozen=True)
class Separation:
    """How well one score separates outside from inside; the module's docstring defines the numbers.

    Attributes:
        auroc: higher is better, 0.5 says nothing.
        aupr_out: higher is better, the share of points outside says nothing.
        aupr_in: higher is better, the share of points inside says nothing.
        fpr95_out: lower is better, 0.95 says nothing.
        fpr95_in: lower is better, 0.95 says nothing.
    """

    auroc: Estimate
    aupr_out: Estimate
    aupr_in: Estimate
    fpr95_out: Estimate
    fpr95_in: Estimate


@dataclass(frozen=True, eq=False, repr=False)
class Detection:
    """How well scores tell outside from inside; `str()` of it is a table with its orientation.

    Attributes:
        separations: how well each score separates, by the name of the score.
        inside: the number of points inside.
        outside: the number of points outside.
        level: the probability of the intervals.
        orientation: which class is positive and what each number means, in words.
    """

    separations: dict[str, Separation]
    inside: int
    outside: int
    level: float
    orientation: str = ORIENTATION

    def __getitem__(self, score: str) -> Separation:
        return self.separations[score]

    def table(self) -> Table:
        """A row for each score, as text."""
        names = ["score", "AUROC", "AUPR-out", "AUPR-in", "FPR95-out", "FPR95-in"]
        rows = [
            [name, *(str(getattr(each, field.name)) for field in fields(each))]
            for name, each in self.separations.items()
        ]
        return Table("", names, rows)

    @property
    def _legend(self) -> list[str]:
        share = self.outside / (self.inside + self.outside)
        counts = (
            f"{self.inside} points inside, {self.outside} outside; {self.level:.0%} bootstrap intervals; a score that "
            f"says nothing has AUPR-out {share:.3f} and AUPR-in {1 - share:.3f}"
        )
        baseline = ["baseline: 1 - the maximum probability"] if "baseline" in self.separations else []
        return [*baseline, counts, *self.orientation.splitlines()]

    def __str__(self) -> str:
        return "\n".join([str(self.table()), *self._legend])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return card("Inside against outside of the data", self.table(), self._legend)


def out_of_distribution(
    inside: Any,
    outside: Any,
    score: str | None = None,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Detection:
    """How well a prediction's uncertainty tells points outside of the data from points inside.

    Args:
        inside: the prediction at points like the data that the model was fitted to, but not among them; a `Prediction`
            or an average of several. Or an array of scores, (n,), of which larger ones mean more outside.
        outside: the prediction, or the scores, at points that should be noticed.
        score: "epistemic", "total", for labels also "variation_ratio", "disagreement" or "baseline", which is 1 - the
            maximum probability; None takes all of them.
        level: the probability of the intervals.
        resamples: how often the bootstrap draws points for the intervals.
        seed: the seed of the bootstrap, and of the labels that the variation ratio samples.

    Raises:
        TypeError: if `inside` and `outside` are not of the same kind.
        ValueError: if one of them is missing: no score separates points of one kind. Or for a wrong option.
    """
    fraction("level", level)
    positive_integer("resamples", resamples, least=2)
    *seeds, own = np.random.SeedSequence(seed).generate_state(3).tolist()
    pairs = {name: _checked(*pair) for name, pair in _scores(inside, outside, score, seeds).items()}
    separations = {name: _separation(*pair, level, resamples, own) for name, pair in pairs.items()}
    first, second = next(iter(pairs.values()))
    return Detection(separations, len(first), len(second), level)


def _scores(inside: Any, outside: Any, score: str | None, seeds: list[int]) -> dict[str, list[Any]]:
    """The scores of both groups, by name."""
    both = inside, outside
    if any(each is None for each in both):
        raise ValueError(
            "out_of_distribution needs points inside and outside: on one kind alone there is nothing to tell apart"
        )
    if not any(isinstance(each, Prediction | Mixture) for each in both):
        if score is not None:
            raise ValueError(f"score chooses among those of a prediction, got {score!r} with arrays; leave it out")
        return {"score": [inside, outside]}
    if type(inside) is not type(outside):
        kinds = " and ".join(type(each).__name__ for each in both)
        raise TypeError(f"inside and outside must be predictions of one kind, or both arrays of scores, got {kinds}")
    weights = [each.weights if isinstance(each, Mixture) else {} for each in both]
    first, second = (next(iter(each.parts.values())) if isinstance(each, Mixture) else each for each in both)
    if first.likelihood != second.likelihood or first.restored != second.restored or weights[0] != weights[1]:
        raise ValueError("inside and outside must be predictions of the same model in the same units")
    if first.likelihood.classes is None and first.likelihood.outputs > 1:
        raise ValueError(
            f"the variances of {first.likelihood.outputs} targets are not one score; make it of them, for instance "
            "prediction.epistemic.sum(axis=1), and give both arrays"
        )
    known = _OF_LABELS if isinstance(first, Classification) else _OF_TARGETS
    if score is not None:
        one_of("score", score, known)
    chosen = {name: of for name, of in known.items() if score in (None, name)}
    return {name: [of(each, seed) for each, seed in zip(both, seeds, strict=True)] for name, of in chosen.items()}


def _checked(inside: Any, outside: Any) -> tuple[np.ndarray, np.ndarray]:
    arrays = finite_array("inside", inside), finite_array("outside", outside)
    for name, array in zip(("inside", "outside"), arrays, strict=True):
        if array.ndim != 1:
            raise ValueError(f"{name} must be one score per point, shape (n,), got {array.shape}")
        if len(array) < 2:
            raise ValueError(
                f"{name} must have at least 2 points, got {len(array)}: on one kind of points alone there is nothing "
                "to tell apart, and intervals come from drawing points again"
            )
    return arrays


def _separation(inside: np.ndarray, outside: np.ndarray, level: float, resamples: int, seed: int) -> Separation:
    values, place = np.unique(np.concatenate([inside, outside]), return_inverse=True)
    groups = place[: len(inside)], place[len(inside) :]
    observed = _metrics(*(np.bincount(group, minlength=len(values))[None] for group in groups))[:, 0]
    generators = [np.random.default_rng([seed, i]) for i in range(2)]
    size = max(1, _BLOCK // len(place))
    blocks = []
    for first in range(0, resamples, size):
        count = min(size, resamples - first)
        drawn = (_resampled(*each, count, len(values)) for each in zip(generators, groups, strict=True))
        blocks.append(_metrics(*drawn))
    bounds = np.quantile(np.concatenate(blocks, axis=1), [(1 - level) / 2, (1 + level) / 2], axis=1)
    return Separation(*(Estimate(*map(float, numbers)) for numbers in zip(observed, *bounds, strict=True)))


def _resampled(
    generator: np.random.Generator, places: Int[np.ndarray, " n"], count: int, values: int
) -> Int[np.ndarray, "resample value"]:
    """How often each value comes up in `count` groups of points that are drawn with replacement."""
    drawn = places[generator.integers(0, len(places), (count, len(places)))]
    rows = values * np.arange(count)[:, None]
    return np.bincount((rows + drawn).ravel(), minlength=count * values).reshape(count, values)


def _metrics(
    inside: Int[np.ndarray, "resample value"], outside: Int[np.ndarray, "resample value"]
) -> Float[np.ndarray, "metric resample"]:
    """The numbers of `Separation`, from how many points of each group have each value, in ascending order."""
    lower = inside.cumsum(axis=1) - inside / 2
    auroc = (outside * lower).sum(axis=1) / inside.sum(axis=1) / outside.sum(axis=1)
    aupr_out, fpr95_out = _positive(outside[:, ::-1], inside[:, ::-1])
    aupr_in, fpr95_in = _positive(inside, outside)
    return np.stack([auroc, aupr_out, aupr_in, fpr95_out, fpr95_in])


def _positive(
    positive: Int[np.ndarray, "resample value"], negative: Int[np.ndarray, "resample value"]
) -> tuple[np.ndarray, np.ndarray]:
    """Average precision and FPR95, with the values in the order in which points are flagged."""
    hits, alarms = positive.cumsum(axis=1), negative.cumsum(axis=1)
    precision = hits / np.maximum(hits + alarms, 1)
    count = int(hits[0, -1])
    enough = (hits >= -(-95 * count // 100)).argmax(axis=1)  # the first threshold with 95 % or more, in integers
    rate = np.take_along_axis(alarms, enough[:, None], axis=1)[:, 0] / alarms[:, -1]
    return (positive * precision).sum(axis=1) / count, rate
