r"""Calibration: does what is said with probability p happen with frequency p?

**Regression.** The probability that a prediction puts below its target, the PIT, is uniform on (0, 1) if the targets
follow the predicted distributions (see `diagnostics.checks.uniformity` for the test). A central interval of probability
p holds the target where |2 PIT - 1| <= p, so the same numbers give the coverage of all intervals at once.

**Classification.** Among rows whose top class has confidence c, a share c should be of that class (see
`diagnostics.checks.class_bins` for the errors, their floor and the parts of the Brier score).

A prediction can be calibrated and useless, such as one that gives the same distribution to all rows;
`diagnostics.scores` reward sharpness too. On n targets even a calibrated prediction is never exactly calibrated, so
each number comes with what chance alone makes of it.

References: Dawid 1984 (PIT; 10.2307/2981683), Gneiting et al. 2007 (10.1111/j.1467-9868.2007.00587.x), Guo et al. 2017
(ECE; arXiv:1706.04599), Kuleshov et al. 2018 (quantiles of a regression; arXiv:1807.00263).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float

from diagnostics.checks.class_bins import Bins, Brier, CalibrationErrors
from diagnostics.checks.uniformity import Uniformity
from inference import Prediction
from inference.display.cards import card
from inference.display.tables import Table
from inference.results.prediction import Classification, Regression
from inference.results.scores import in_data_units

__all__ = ["Calibration", "ClassCalibration", "Coverage", "TargetCalibration", "calibration"]

_LEVELS = np.arange(1, 20) / 20
_SHOWN = np.array([0.5, 0.8, 0.9, 0.95])  # of the levels, in a table
_DOUBT = 0.05  # a p-value below it speaks against calibration


@dataclass(frozen=True, eq=False)
class Coverage:
    """How often central intervals hold the target.

    Attributes:
        levels: the probabilities of the intervals, 5 % to 95 %.
        observed: the share of targets inside, (level,), or (level, output) for several outputs.
        errors: the standard errors of the shares of n targets if the levels p are right, sqrt(p (1 - p) / n).
    """

    levels: Float[np.ndarray, " level"]
    observed: Float[np.ndarray, "level ..."]
    errors: Float[np.ndarray, " level"]

    @classmethod
    def of(cls, pit: Float[np.ndarray, "n ..."]) -> Coverage:
        """The coverage, from the probabilities `pit` below the targets."""
        distance = np.sort(np.abs(2 * pit - 1), axis=0)
        columns = distance.reshape(len(pit), -1).T
        observed = np.stack([np.searchsorted(column, _LEVELS, side="right") for column in columns], axis=1) / len(pit)
        errors = np.sqrt(_LEVELS * (1 - _LEVELS) / len(pit))
        return cls(_LEVELS, observed.reshape(len(_LEVELS), *pit.shape[1:]), errors)


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """How calibrated a prediction is; `str()` of it is the verdict in words.

    Attributes:
        miscalibration: by how much stated probabilities miss frequencies. Regression: the mean over the 99 percentiles
            of |share of targets below - percentile|, for each output if there are several. Classification: the
            expected calibration error of the top class in bins of equal width.
        floor: the mean miscalibration of a calibrated prediction of as many rows.
        p_value: how often a calibrated prediction is at least as conspicuous; for each output if there are several.
        rows: the number of rows.
    """

    miscalibration: Any
    floor: float
    p_value: Any
    rows: int

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against calibration at the 5 % level, over all outputs together (Bonferroni)."""
        return bool(np.min(self.p_value) * np.size(self.p_value) > _DOUBT)

    @property
    def _verdict(self) -> str:
        found = "Nothing speaks against calibration" if self.passed else "Calibration failed"
        return f"{found} on these {self.rows} rows"

    @property
    def _numbers(self) -> str:
        several = np.size(self.p_value) > 1
        return (
            f"stated probabilities are off by {np.max(self.miscalibration):.3g}{' at most' if several else ''}, "
            f"{self.floor:.3g} is expected by chance, p = {np.min(self.p_value):.2g}{' at least' if several else ''}"
        )

    def __str__(self) -> str:
        return f"{self._verdict}: {self._numbers}. {self._detail()}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        numbers = f"{self._numbers[:1].upper()}{self._numbers[1:]}. {self._detail()}"
        return card(self._verdict, numbers, self.table(), passed=self.passed)

    def _detail(self) -> str:
        raise NotImplementedError(f"{type(self).__name__} must say more")

    def table(self) -> Table:
        """What was stated beside what happened, as text."""
        raise NotImplementedError(f"{type(self).__name__} must have a table")


@dataclass(frozen=True, eq=False, repr=False)
class TargetCalibration(Calibration):
    """How calibrated a regression is.

    Attributes:
        pit: the probability that the prediction puts below each target, (n,), or (n, output) for several outputs.
        coverage: the coverage of central intervals.
    """

    pit: Float[np.ndarray, "n ..."]
    coverage: Coverage

    def _detail(self) -> str:
        places = [int(np.argmin(np.abs(_LEVELS - level))) for level in (0.5, 0.9)]
        half, most = (np.mean(self.coverage.observed[place]) for place in places)
        below = np.mean(self.pit < 0.5)
        return (
            f"The central 50 % intervals hold {half:.1%} of the targets and the 90 % ones {most:.1%}; {below:.1%} are "
            "below the median."
        )

    def table(self) -> Table:
        """How many targets central intervals hold, for each output if there are several."""
        held = self.coverage.observed.reshape(len(_LEVELS), -1)
        names = ["targets inside"] if held.shape[1] == 1 else [f"inside, output {k}" for k in range(held.shape[1])]
        rows = [
            (f"{level:.0%}", *(f"{share:.1%}" for share in shares), f"{error:.1%}")
            for level, shares, error in zip(_LEVELS, held, self.coverage.errors, strict=True)
            if np.isclose(level, _SHOWN).any()
        ]
        return Table("", ("central interval", *names, "standard error if calibrated"), rows)


@dataclass(frozen=True, eq=False, repr=False)
class ClassCalibration(Calibration):
    """How calibrated a classification is.

    Attributes:
        bins: accuracy by confidence, in 15 bins of equal width, with intervals.
        ece: the calibration error in these bins, the same as `miscalibration` and as the `ece` of `scores`.
        ece_equal_mass: the calibration error in 15 bins that hold about equally many rows each.
        floor_equal_mass: the mean `ece_equal_mass` of a calibrated prediction.
        brier: the Brier score and its parts.
    """

    bins: Bins
    ece: float
    ece_equal_mass: float
    floor_equal_mass: float
    brier: Brier

    def _detail(self) -> str:
        confidence = self.bins.confidence @ self.bins.count / self.rows
        accuracy = self.bins.accuracy @ self.bins.count / self.rows
        brier = self.brier
        return (
            f"The mean confidence is {confidence:.1%} and the accuracy {accuracy:.1%}. Brier score {brier.score:.3g} = "
            f"reliability {brier.reliability:.3g} - resolution {brier.resolution:.3g} + uncertainty "
            f"{brier.uncertainty:.3g} + within bins {brier.within:.3g}."
        )

    def table(self) -> Table:
        """How often the top class is right, by how sure the prediction was."""
        bins = zip(*(getattr(self.bins, field.name) for field in fields(self.bins)), strict=True)
        rows = [
            (f"{confidence:.1%}", f"{accuracy:.1%}", f"{lower:.1%} to {upper:.1%}", f"{count:,}")
            for count, confidence, accuracy, lower, upper in bins
        ]
        return Table("", ("confidence", "accuracy", "95 % interval", "rows"), rows)


def calibration(prediction: Prediction, y: Any) -> Calibration:
    """How calibrated a prediction is.

    Args:
        prediction: the prediction of any posterior.
        y: the targets in the prediction's units, or a `Split`, for which the prediction is restored to the data's own
            units first; calibration has no units.

    Returns:
        A `TargetCalibration` for regression, a `ClassCalibration` for classification.
    """
    prediction, targets = in_data_units(prediction, y)
    if isinstance(prediction, Classification):
        return _of_classes(prediction, prediction.likelihood.check(targets, len(prediction)))
    assert isinstance(prediction, Regression)
    pit = prediction.cdf(targets)
    found = [Uniformity.of(column) for column in pit.reshape(len(pit), -1).T]
    outputs = pit.shape[1:]
    return TargetCalibration(
        miscalibration=np.reshape([each.distance for each in found], outputs)[()],  # a number where there is one output
        floor=found[0].floor,
        p_value=np.reshape([each.p_value for each in found], outputs)[()],
        rows=len(pit),
        pit=pit,
        coverage=Coverage.of(pit),
    )


def _of_classes(prediction: Classification, labels: np.ndarray) -> ClassCalibration:
    probs = prediction.probs
    errors = CalibrationErrors.of(probs, labels)
    return ClassCalibration(
        miscalibration=errors.equal_width,
        floor=errors.floor,
        p_value=errors.p_value,
        rows=len(labels),
        bins=Bins.of(probs, labels),
        ece=errors.equal_width,
        ece_equal_mass=errors.equal_mass,
        floor_equal_mass=errors.floor_equal_mass,
        brier=Brier.of(probs, labels),
    )
