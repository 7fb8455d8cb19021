r"""Running averages of predictions: what is left of a chain whose draws are not kept.

At given inputs, for each draw s in turn, with m_s the mean of the targets (for labels, their probabilities) and a_s the
part of the uncertainty that is within the draw (the variance of the noise; for labels, the entropy):

    mean <- mean + (m_s - mean) / s,    spread <- spread + (m_s - old mean)(m_s - mean),    within <- within + ...

A draw that repeats the last one, because a proposal was refused, counts again. Chains are joined by Chan's formula.
Sums are in float64 and go draw by draw, so they don't depend on how a chain was cut into pieces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from inference.results.mixture import entropy
from inference.results.prediction import Classification, Regression

__all__ = ["Average", "Averages"]


class Average(NamedTuple):
    """The running average of a prediction over one or more chains.

    Attributes:
        size: the number of draws so far.
        mean: the mean of the draws' means.
        spread: the sum of the squared deviations of the draws' means from `mean`.
        within: the mean of the uncertainty within a draw.
    """

    size: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    within: np.ndarray

    @classmethod
    def begin(cls, prediction: Regression | Classification) -> Average:
        """The average of no draws, in the shapes of `prediction`."""
        mean = np.zeros(prediction.mean.shape)
        return cls(np.zeros((), np.int64), mean, mean.copy(), np.zeros(prediction.aleatoric.shape))

    def after(self, prediction: Regression | Classification) -> Average:
        """The average after one more draw, whose prediction is `prediction`."""
        size = self.size + 1
        step = prediction.mean - self.mean
        mean = self.mean + step / size
        spread = self.spread + step * (prediction.mean - mean)
        within = self.within + (prediction.aleatoric - self.within) / size
        return Average(np.asarray(size), mean, spread, within)

    def joined(self, other: Average) -> Average:
        """The average over the draws of this one and of `other`."""
        size = self.size + other.size
        if not size:
            return self
        share = other.size / size
        step = other.mean - self.mean
        return Average(
            np.asarray(size),
            self.mean + share * step,
            self.spread + other.spread + step**2 * self.size * share,
            self.within + share * (other.within - self.within),
        )


@dataclass(frozen=True, eq=False)
class Averages:
    """The prediction at given inputs, averaged over all draws while they were made.

    Attributes:
        average: the running average over all chains.
        classes: how many classes the targets have; None if they are real.
        restored: True in the data's own units, False in the units of the `y` that was given to `run`.
    """

    average: Average
    classes: int | None
    restored: bool = False

    @property
    def draws(self) -> int:
        """How many draws were averaged."""
        return int(self.average.size)

    @property
    def mean(self) -> np.ndarray:
        """The mean of the mixture; for labels, `probs`."""
        return self.average.mean

    @property
    def probs(self) -> np.ndarray:
        """The probability of each class, (n, classes)."""
        if self.classes is None:
            raise AttributeError("real targets have no class probabilities; use mean and std")
        return self.average.mean

    @property
    def epistemic(self) -> np.ndarray:
        """The epistemic uncertainty, as in `Prediction`."""
        if self.classes is None:
            return self.average.spread / max(self.draws, 1)
        return np.maximum(self.total - self.aleatoric, 0.0)

    @property
    def aleatoric(self) -> np.ndarray:
        """The aleatoric uncertainty, as in `Prediction`."""
        return self.average.within

    @property
    def total(self) -> np.ndarray:
        """The whole uncertainty, as in `Prediction`."""
        return self.epistemic + self.aleatoric if self.classes is None else entropy(self.probs)

    @property
    def std(self) -> np.ndarray:
        """The standard deviation of the mixture; labels are written as 0s and one 1."""
        return np.sqrt(self.total if self.classes is None else self.probs * (1 - self.probs))

    def rescaled(self, location: np.ndarray, scale: np.ndarray) -> Averages:
        """The averages of `location + scale * y`; labels have no units."""
        if self.restored or self.classes is not None:
            return self
        size, mean, spread, within = self.average
        average = Average(size, location + scale * mean, scale**2 * spread, scale**2 * within)
        return replace(self, average=average, restored=True)
