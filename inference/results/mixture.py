"""Entropy and quantiles of a mixture over draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import entr

__all__ = ["DRAWS", "entropy", "mixture_quantile"]

DRAWS = (0, 1)
"""The axes of chains and draws."""


def entropy(probabilities: Float[np.ndarray, "n classes"]) -> Float[np.ndarray, " n"]:
    """The entropy of each row in nats; 0 log 0 is 0."""
    return entr(probabilities).sum(axis=-1)


def mixture_quantile(likelihood: Any, outputs: np.ndarray, noise: np.ndarray, level: float) -> np.ndarray:
    """The mixture's quantile at `level`, which lies between the least and the largest quantile of a draw."""
    from scipy.optimize.elementwise import find_root  # takes a while to import

    conditional = likelihood.conditional(outputs, noise)
    quantiles = conditional.ppf(level)
    lower, upper = quantiles.min(axis=DRAWS), quantiles.max(axis=DRAWS)

    def excess(values: np.ndarray, places: np.ndarray) -> np.ndarray:
        """The distribution function minus `level` at the targets `places`: those found are not asked for again."""
        every = lower.copy()
        every.flat[places] = values
        return (conditional.cdf(every).mean(axis=DRAWS) - level).flat[places]

    places = np.arange(lower.size).reshape(lower.shape)
    found = find_root(excess, (lower, upper), args=(places,))
    return np.where(
        found.success, found.x, (lower + upper) / 2
    )  # draws that are the same but for rounding have no bracket
