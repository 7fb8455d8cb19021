r"""Differences between the scores of a sweep's values, with errors over seeds.

With s_ij the score of value i under seed j, over J seeds, and r the value that others are compared with:

    mean_i = (1/J) sum_j s_ij                    standard error  sd_j(s_ij) / sqrt(J)
    difference_i = (1/J) sum_j (s_ij - s_rj)     standard error  sd_j(s_ij - s_rj) / sqrt(J)

All values share their seeds, so what a seed does to all of them alike drops out of the differences, and it is these
that decide whether a value is better than another. The errors are over seeds on the same training and test rows: they
say what other seeds would give, and nothing about other data. Whether a value is distinguishable from the reference is
decided by Student's t at 95 %, divided among all differences that could have been looked at (Bonferroni): all pairs,
where the best of the values is itself compared with the others.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

__all__ = ["Difference", "mean_and_error", "paired_differences"]

_ERROR_RATE = 0.05
_ROUNDING = 1e-12  # relative: more than rounding in float64 leaves between equal differences of scores


class Difference(NamedTuple):
    """The difference of each value's score to the reference's, over the seeds that both have.

    Attributes:
        mean: the mean of value minus reference.
        standard_error: the standard error of that mean; nan with fewer than two seeds.
        distinguishable: whether it is more than seeds alone explain; never where all seeds differ by the same amount,
            as an accuracy may on few rows, because then nothing is known about the error.
    """

    mean: Float[np.ndarray, " value"]
    standard_error: Float[np.ndarray, " value"]
    distinguishable: np.ndarray


def paired_differences(scores: Float[np.ndarray, "value seed"], place: int, looked_at: int) -> Difference:
    """The difference of each value to the one at `place`, seed by seed, judged as one of `looked_at` differences."""
    with np.errstate(invalid="ignore"):
        gaps = scores - scores[place]
    mean, error = mean_and_error(gaps)
    seeds = (~np.isnan(gaps)).sum(axis=1)
    level = 1 - _ERROR_RATE / 2 / max(1, looked_at)
    with np.errstate(invalid="ignore"):
        known = np.isfinite(error) & (error > 0)
        apart = known & (np.abs(mean) > stdtrit(np.maximum(seeds - 1, 1), level) * error)
    return Difference(mean, error, apart)


def mean_and_error(values: Float[np.ndarray, "value seed"]) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each row and its standard error, over the columns that are not nan."""
    mean, error = np.full((2, len(values)), np.nan)
    for i, row in enumerate(values):
        known = row[~np.isnan(row)]
        with np.errstate(invalid="ignore"):
            if known.size:
                mean[i] = known.mean()
            if known.size > 1:
                equal = np.ptp(known) <= _ROUNDING * np.abs(known).max()
                error[i] = 0.0 if equal else known.std(ddof=1) / math.sqrt(known.size)
    return mean, error
