"""Scores of predictions under the name that users know; `inference.results.scores` has them."""

from __future__ import annotations

from inference.results.scores import (
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
