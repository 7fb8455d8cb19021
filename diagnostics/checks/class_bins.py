r"""Probabilities of classes in bins, against what happened: reliability, calibration error, parts of the Brier score.

**Calibration error.** The top class of a row has the confidence c and is right (h = 1) or not. Over bins b of rows,

    ECE = sum_b |sum_{i in b} (h_i - c_i)| / n

in bins of equal width, or of equal mass, which hold about equally many rows each. Even a calibrated prediction has an
error above 0, because the few rows of a bin are seldom right exactly as often as they say. This floor is the mean error
over 1,000 sets of labels drawn from the predicted probabilities themselves, and the share of these sets with an error
at least as large as the observed one is a p-value (Bröcker & Smith 2007, 10.1175/WAF993.1; Vaicenavicius et al. 2019,
arXiv:1902.06977).

**Brier score.** With o_ik = 1 where row i is of class k, and the rows of each class k in bins b by their probability
p_ik, with means p_b and o_b over the n_b rows of a bin and o_k over all rows (Murphy 1973; Stephenson et al. 2008,
10.1175/2007WAF2006116.1),

    score = sum_ik (p_ik - o_ik)^2 / n = reliability - resolution + uncertainty + within
    reliability = sum_kb n_b (p_b - o_b)^2 / n        0 where what was said is what happened
    resolution  = sum_kb n_b (o_b - o_k)^2 / n        how far apart what happened is in different bins
    uncertainty = sum_k o_k (1 - o_k)                 of the labels alone
    within      = sum_kb sum_{i in b} ((p_ik - p_b)^2 - 2 (p_ik - p_b) (o_ik - o_b)) / n

The first three are Murphy's, and exact by themselves where all probabilities in a bin are equal; the last one is what
is left in wider bins, and makes the sum exact in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtri

from inference.results.scores import confidence_bins, equal_width

__all__ = ["BINS", "Bins", "Brier", "CalibrationErrors", "equal_mass"]

BINS = 15
"""The number of bins, the same as for the `ece` of `scores`."""

_SIMULATIONS = 1000
_BLOCK = 2**22  # simulated rows at once
_ROUNDING = 1e-9  # by which two errors may differ and still count as equal


@dataclass(frozen=True, eq=False)
class Bins:
    """How often the top class is right, by how sure the prediction was; bins without rows are left out.

    Attributes:
        count: the number of rows in each bin.
        confidence: the mean confidence of these rows.
        accuracy: the share of these rows whose top class is right.
        lower: the lower end of the 95 % interval of `accuracy` (Wilson's).
        upper: the upper end of that interval.
    """

    count: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, probs: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"], bins: int = BINS) -> Bins:
        """The rows in `bins` bins of equal width."""
        count, confidence, hits = confidence_bins(probs, labels, bins)
        used = count > 0
        count, confidence, hits = count[used], confidence[used], hits[used]
        z = ndtri(0.975)
        middle = (hits + z**2 / 2) / (count + z**2)
        half = z * np.sqrt(hits * (count - hits) / count + z**2 / 4) / (count + z**2)
        return cls(count.astype(int), confidence / count, hits / count, middle - half, middle + half)


class CalibrationErrors(NamedTuple):
    """The calibration error of the top class in 15 bins, and what chance alone makes of it.

    Attributes:
        equal_width: the error in bins of equal width, the `ece` of `scores`.
        equal_mass: the error in bins of equal mass.
        floor: the mean of `equal_width` if the predicted probabilities were right.
        floor_equal_mass: the mean of `equal_mass` if the predicted probabilities were right.
        p_value: how often `equal_width` would be at least as large if the predicted probabilities were right.
    """

    equal_width: float
    equal_mass: float
    floor: float
    floor_equal_mass: float
    p_value: float

    @classmethod
    def of(cls, probs: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]) -> CalibrationErrors:
        """The errors of the predicted probabilities `probs`."""
        confidence = probs.max(axis=1)
        hit = probs.argmax(axis=1) == labels
        places = equal_width(confidence, BINS), equal_mass(confidence, BINS)
        members = np.concatenate([np.eye(BINS)[place] for place in places], axis=1)
        observed = _errors(hit[None], confidence, members)[0]
        generator = np.random.default_rng(0)
        size = max(1, _BLOCK // len(hit))
        chance = np.concatenate(
            [
                _errors(generator.random((min(size, _SIMULATIONS - first), len(hit))) < confidence, confidence, members)
                for first in range(0, _SIMULATIONS, size)
            ]
        )
        as_large = int((chance[:, 0] >= observed[0] - _ROUNDING).sum())
        wide, massive = chance.mean(axis=0)
        p_value = (1 + as_large) / (1 + _SIMULATIONS)
        return cls(float(observed[0]), float(observed[1]), float(wide), float(massive), p_value)


class Brier(NamedTuple):
    """The Brier score, 0 to 2, and its parts: score = reliability - resolution + uncertainty + within.

    Attributes:
        score: the squared error summed over classes.
        reliability: how far probabilities miss what happens; 0 is best, and chance alone makes it positive.
        resolution: how much what happens differs between bins; the higher the better.
        uncertainty: the uncertainty of the labels, whatever the prediction.
        within: what the spread of probabilities within bins adds.
    """

    score: float
    reliability: float
    resolution: float
    uncertainty: float
    within: float

    @classmethod
    def of(cls, probs: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"]) -> Brier:
        """The score and its parts, in 15 bins of equal width for each class."""
        rows, classes = probs.shape
        happened = np.eye(classes)[labels]
        reliability = resolution = uncertainty = within = 0.0
        for p, o in zip(probs.T, happened.T, strict=True):
            place = equal_width(p, BINS)
            count = np.bincount(place, minlength=BINS)
            p_bin, o_bin = (np.bincount(place, values, BINS) / np.maximum(count, 1) for values in (p, o))
            reliability += count @ (p_bin - o_bin) ** 2 / rows
            resolution += count @ (o_bin - o.mean()) ** 2 / rows
            uncertainty += o.mean() * (1 - o.mean())
            away = p - p_bin[place]
            within += (away @ away - 2 * away @ (o - o_bin[place])) / rows
        score = ((probs - happened) ** 2).sum(axis=1).mean()
        return cls(*map(float, (score, reliability, resolution, uncertainty, within)))


def equal_mass(values: Float[np.ndarray, " n"], bins: int) -> Int[np.ndarray, " n"]:
    """Which of `bins` bins of about equal mass each value is in; equal values are in the same bin."""
    edges = np.quantile(values, np.arange(1, bins) / bins, method="inverted_cdf")
    return np.searchsorted(edges, values, side="left")


def _errors(hits: np.ndarray, confidence: np.ndarray, members: np.ndarray) -> Float[np.ndarray, "simulation 2"]:
    """The errors of each row of `hits` in both kinds of bins, which are side by side in the columns of `members`."""
    sums = np.abs((hits - confidence) @ members)
    return sums.reshape(len(hits), 2, BINS).sum(axis=2) / len(confidence)
