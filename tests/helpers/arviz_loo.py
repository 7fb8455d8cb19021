"""What ArviZ itself says of leave-one-out, whichever of its two worlds is installed."""

from __future__ import annotations

from typing import NamedTuple

import arviz
import numpy as np

__all__ = ["arviz_loo"]


class Loo(NamedTuple):
    """ArviZ's numbers, under one set of names."""

    elpd: float
    error: float
    p_loo: float
    pointwise: np.ndarray
    pareto_k: np.ndarray
    threshold: float


def arviz_loo(log_likelihood: np.ndarray) -> Loo:
    """Leave-one-out of independent draws, (draw, row)."""
    draws = {"w": np.zeros((1, len(log_likelihood)))}
    if arviz.__version__.startswith("0."):
        groups = arviz.from_dict(draws, log_likelihood={"y": log_likelihood[None]})
        found = arviz.loo(groups, pointwise=True, reff=1.0)
        by_one_less = np.sqrt(log_likelihood.shape[1] / (log_likelihood.shape[1] - 1))  # as 1.x and R divide
        numbers = found.elpd_loo, found.se * by_one_less, found.p_loo, found.loo_i
    else:
        groups = arviz.from_dict({"posterior": draws, "log_likelihood": {"y": log_likelihood[None]}})
        found = arviz.loo(groups, pointwise=True, reff=1.0)
        numbers = found.elpd, found.se, found.p, found.elpd_i
    elpd, error, p_loo, pointwise = numbers
    return Loo(elpd, error, p_loo, np.asarray(pointwise), np.asarray(found.pareto_k), found.good_k)
