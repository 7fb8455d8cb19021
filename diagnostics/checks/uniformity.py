r"""Are numbers uniform on (0, 1), as the probabilities below the targets of a calibrated prediction are?

The share F(z) of n numbers at or below z is looked at for the 99 percentiles z. If the numbers are uniform and
independent, n F(z) is Binomial(n, z), so at each z the count has a two-sided tail probability

    t(z) = 2 min( P(B <= n F(z)), P(B >= n F(z)) ),    B ~ Binomial(n, z)

and the smallest of them, min_z t(z), is judged, so that each percentile has an equal chance to be conspicuous. The
share of 10,000 simulated sets of n uniform numbers whose smallest one is no larger is the p-value of the test, and the
5 % quantile g over these sets makes the simultaneous band {F : t(z) >= g for all z}, which holds the whole curve of
95 % of such sets.

Reference: Säilynoja, Bürkner & Vehtari 2022, section 2.1, arXiv:2103.10522, with all percentiles in place of their n
points. The simulation has a fixed seed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import bdtr, bdtrc

__all__ = ["LEVELS", "Uniformity", "ecdf_band", "shares_below"]

LEVELS: Float[np.ndarray, " 99"] = np.arange(1, 100) / 100
"""The percentiles at which shares are looked at."""

_SIMULATIONS = 10_000  # a p-value of 5 % is then known to 0.2 %
_OUTSIDE = 0.05  # share of the sets that leave the band
_DEVIATIONS = 8  # standard deviations of a binomial: no edge of a band is further out


class Uniformity(NamedTuple):
    """How far numbers are from uniform.

    Attributes:
        distance: the mean over the percentiles z of |F(z) - z|.
        floor: the mean `distance` of as many uniform numbers.
        p_value: the share of sets of as many uniform numbers that are at least as conspicuous.
    """

    distance: float
    floor: float
    p_value: float

    @classmethod
    def of(cls, values: Float[np.ndarray, " n"]) -> Uniformity:
        """How far `values`, numbers between 0 and 1, are from uniform."""
        shares = shares_below(values)
        simulated, floor = _simulate(len(values))
        tail = _tails(np.rint(shares * len(values)), len(values)).min()
        as_small = np.searchsorted(simulated, tail, side="right")
        return cls(float(np.abs(shares - LEVELS).mean()), floor, (1 + int(as_small)) / (1 + _SIMULATIONS))


def shares_below(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " 99"]:
    """F: the share of `values` at or below each percentile."""
    return np.searchsorted(np.sort(values), LEVELS, side="right") / len(values)


def ecdf_band(size: int) -> tuple[Float[np.ndarray, " 99"], Float[np.ndarray, " 99"]]:
    """The lowest and the highest F at each percentile inside the simultaneous 95 % band of `size` numbers."""
    simulated, _ = _simulate(size)
    least = simulated[int(_OUTSIDE * (1 + _SIMULATIONS)) - 1]  # below it, the p-value is at most 5 %
    width = np.ceil(_DEVIATIONS * np.sqrt(size) / 2) + _DEVIATIONS
    counts = np.clip(np.rint(size * LEVELS) + np.arange(-width, width + 1)[:, None], 0, size)
    inside = _tails(counts, size) >= least
    return np.where(inside, counts, size).min(axis=0) / size, np.where(inside, counts, 0).max(axis=0) / size


def _tails(counts: np.ndarray, size: int) -> np.ndarray:
    """t: the two-sided tail probabilities of `counts`, whose last axis is the percentiles."""
    return 2 * np.minimum(bdtr(counts, size, LEVELS), bdtrc(counts - 1, size, LEVELS))


@lru_cache(maxsize=32)
def _simulate(size: int) -> tuple[np.ndarray, float]:
    """The smallest tail probability of each simulated set, sorted, and the mean distance over all sets."""
    cells = np.random.default_rng(0).multinomial(size, np.diff([0.0, *LEVELS, 1.0]), _SIMULATIONS)
    counts = cells.cumsum(axis=1)[:, :-1]
    first = counts.min(axis=0)
    table = _tails(first + np.arange(np.ptp(counts, axis=0).max() + 1)[:, None], size)  # only of counts that came up
    tails = table[counts - first, np.arange(len(LEVELS))]
    return np.sort(tails.min(axis=1)), float(np.abs(counts / size - LEVELS).mean())
