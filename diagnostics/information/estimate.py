"""A number with its Monte Carlo error: what every function of `diagnostics.information` returns.

An average over n independent draws has the standard error s / sqrt(n), if its terms have a variance. Whether they have
one is judged by the draws: where one draw has a tenth of all squared distances from the mean, and the shape k-hat of a
generalised Pareto distribution that is fitted to a tail is above 1/2, they have no variance as far as one can tell, and
the error is given as infinite. A tail that begins beyond all draws can't be seen.

Reference: Vehtari et al. 2024 (k-hat; arXiv:1507.02646).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from inference.host.arviz import pareto_smoothed

__all__ = ["Estimate", "average"]

_SHARE = 0.1  # of the sum of squares: with less, no draw decides alone, and k-hat may measure something else
_HEAVIEST = 0.5  # k-hat above which terms have no variance
_TIES = 5  # draws that share a value: then values come in steps, and too few of them in a tail say nothing


@dataclass(frozen=True, eq=False)
class Estimate(np.lib.mixins.NDArrayOperatorsMixin):
    """A value that works as a number or an array in arithmetic and comparisons, and its error.

    Arithmetic uses the value alone and gives a plain number or array: the errors of two estimates may depend on each
    other, so they are not propagated.

    Attributes:
        value: a number or an array, in float64.
        error: the Monte Carlo standard error, in the same shape. 0 where the value is exact: by a closed form, a finite
            sum, or because it is infinite. Infinite where the draws can't tell the error, see
            `diagnostics.information.estimate`.
    """

    value: Any
    error: Any

    @classmethod
    def exact(cls, value: Any) -> Estimate:
        """A value without error."""
        value = np.asarray(value, np.float64)
        return cls(value[()], np.zeros_like(value)[()])

    def times(self, factor: float) -> Estimate:
        """The same estimate in another unit, `factor` times as large."""
        return Estimate(self.value * factor, self.error * factor)

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [item.value if isinstance(item, Estimate) else item for item in inputs]
        return getattr(function, method)(*plain, **options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.value, dtype=dtype, copy=copy)

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, specification: str) -> str:
        return format(self.value, specification) if specification else str(self)


def average(terms: Any, bounded: bool = False) -> Estimate:
    """The mean over independent draws, (draw, ...), and its error.

    A mean is infinite, and known to be so, if one of its terms is.

    Args:
        terms: one term for each draw.
        bounded: whether the terms lie between bounds, so that they have a variance in any case.

    Raises:
        FloatingPointError: if a term is not a number.
    """
    terms = np.asarray(terms, np.float64)
    if np.isnan(terms).any():
        raise FloatingPointError(
            f"{np.isnan(terms).mean():.1%} of the draws have no log density, as where rounding puts them on the edge "
            "of their support, or where a distribution has no density at all"
        )
    with np.errstate(invalid="ignore", over="ignore"):  # infinite terms have no spread, and huge ones an infinite one
        value, spread = terms.mean(axis=0), terms.std(axis=0, ddof=1)
    error = spread / np.sqrt(len(terms))
    if not bounded:
        error = np.where(_has_no_variance(terms), np.inf, error)
    return Estimate(value[()], np.where(np.isinf(terms).any(axis=0), 0.0, error)[()])


def _has_no_variance(terms: np.ndarray) -> np.ndarray:
    """Whether a tail of each quantity, (draw, ...), is so heavy that its average has no standard error."""
    columns = terms.reshape(len(terms), -1)
    heavy = np.zeros(columns.shape[1], bool)
    ordered = np.sort(columns, axis=0)
    with np.errstate(all="ignore"):  # from infinite and huge terms, and from the logarithm of the smallest one
        squares = np.square(columns - columns.mean(axis=0))
        judged = np.isfinite(columns).all(axis=0) & ~(squares.max(axis=0) <= _SHARE * squares.sum(axis=0))
        steps = (ordered[_TIES - 1 :] == ordered[: 1 - _TIES]).any(axis=0)
        for tail in (columns - ordered[0], ordered[-1] - columns):
            if judged.any():
                shape = np.array([pareto_smoothed(column)[1] for column in np.log(tail[:, judged]).T])
                heavy[judged] |= ~(shape <= _HEAVIEST) & (np.isfinite(shape) | ~steps[judged])
    return heavy.reshape(terms.shape[1:])
