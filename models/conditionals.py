"""Distributions of arrays of targets, with those methods of SciPy's distributions that predictions need.

They do what `scipy.stats.norm` and `scipy.stats.t` do, in float64 and through the same special functions, but without
their checks of every argument, which take most of their time on large arrays.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, stdtr, stdtrit

__all__ = ["NormalConditional", "StudentConditional"]


class _LocationScale:
    """A location and a scale for each target."""

    def __init__(self, location: np.ndarray, scale: np.ndarray) -> None:
        self.location, self.scale = np.broadcast_arrays(location, scale)

    def _standardised(self, y: np.ndarray) -> np.ndarray:
        return (y - self.location) / self.scale


class NormalConditional(_LocationScale):
    """N(location, scale^2)."""

    def var(self) -> np.ndarray:
        """The variances."""
        return self.scale**2

    def logpdf(self, y: np.ndarray) -> np.ndarray:
        """The log densities."""
        return -0.5 * self._standardised(y) ** 2 - np.log(self.scale) - 0.5 * np.log(2 * np.pi)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """The probabilities below y."""
        return ndtr(self._standardised(y))

    def ppf(self, level: float) -> np.ndarray:
        """The quantiles at `level`."""
        return self.location + self.scale * ndtri(level)

    def rvs(self, generator: np.random.Generator) -> np.ndarray:
        """One draw of each target."""
        return self.location + self.scale * generator.standard_normal(self.location.shape)


class StudentConditional(_LocationScale):
    """Student-t with `df` degrees of freedom."""

    def __init__(self, df: float, location: np.ndarray, scale: np.ndarray) -> None:
        super().__init__(location, scale)
        self.df = df

    def var(self) -> np.ndarray:
        """The variances; infinite up to 2 degrees of freedom."""
        return self.scale**2 * (self.df / (self.df - 2) if self.df > 2 else np.inf)

    def logpdf(self, y: np.ndarray) -> np.ndarray:
        """The log densities."""
        half = (self.df + 1) / 2
        constant = gammaln(half) - gammaln(self.df / 2) - 0.5 * np.log(self.df * np.pi)
        return constant - half * np.log1p(self._standardised(y) ** 2 / self.df) - np.log(self.scale)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """The probabilities below y."""
        return stdtr(self.df, self._standardised(y))

    def ppf(self, level: float) -> np.ndarray:
        """The quantiles at `level`."""
        return self.location + self.scale * stdtrit(self.df, level)

    def rvs(self, generator: np.random.Generator) -> np.ndarray:
        """One draw of each target."""
        return self.location + self.scale * generator.standard_t(self.df, self.location.shape)
