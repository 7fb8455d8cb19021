"""Scores of predictions under the name that users know; `inference.scoring` has them, because sweeps need them too."""

from __future__ import annotations

from inference.scoring import (
    calibration_error,
    confidence_bins,
    crps_of_mixture,
    crps_of_student_mixture,
    equal_width,
    in_data_units,
    scores,
)

__all__ = [
    "calibration_error",
    "confidence_bins",
    "crps_of_mixture",
    "crps_of_student_mixture",
    "equal_width",
    "in_data_units",
    "scores",
]
