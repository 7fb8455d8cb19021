r"""The measures of information as formulas: over a table of outcomes, in closed form, and as terms to be averaged.

All take log p and log q, so that a probability that is too small for a float is not taken for 0. With r = log(p / q)
and M = (P + Q) / 2,

    TV    = sum |p - q| / 2          = E_M |tanh(r / 2)|
    chi^2 = sum (p - q) (p / q - 1)  = E_M [2 (e^r - 1) tanh(r / 2)]

because (p - q) / (p + q) = tanh(r / 2): no part of P or Q is missed, and the terms of TV are bounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpyro.distributions import Distribution

from diagnostics.information.densities import closed_chi_squared, closed_entropy, closed_kl
from diagnostics.information.estimate import Estimate
from diagnostics.information.measuring import Measure
from inference.results.mixture import entropy as entropy_of_rows

__all__ = ["CHI_SQUARED", "CROSS_ENTROPY", "ENTROPY", "KL", "TOTAL_VARIATION"]


def _expected(log_p: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """The sum of p times terms over the last axis, where an outcome that never happens counts for nothing."""
    p = np.exp(log_p)
    with np.errstate(invalid="ignore"):
        return np.where(p > 0, p * terms, 0.0).sum(axis=-1)


def _entropy(log_p: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    rows = np.exp(log_p).reshape(-1, log_p.shape[-1])
    return entropy_of_rows(rows).reshape(log_p.shape[:-1])


def _kl(log_p: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.maximum(_expected(log_p, log_p - log_q), 0.0)  # rounding can leave -1e-16


def _total_variation(log_p: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    return 0.5 * np.abs(np.exp(log_p) - np.exp(log_q)).sum(axis=-1)


def _chi_squared(log_p: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    """The sum of (p - q) (p / q - 1)."""
    p, q = np.exp(log_p), np.exp(log_q)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(p == q, 0.0, (p - q) * np.expm1(log_p - log_q)).sum(axis=-1)


def _closed_cross_entropy(p: Distribution, q: Distribution) -> Any:
    ours, more = closed_entropy(p, p), closed_kl(p, q)
    return None if ours is None or more is None else ours + more


def _chi_squared_term(log_p: np.ndarray, log_q: np.ndarray) -> np.ndarray:
    ratio = log_p - log_q
    with np.errstate(over="ignore"):
        return 2 * np.expm1(ratio) * np.tanh(ratio / 2)


def _add(each: Estimate, axes: tuple[int, ...]) -> Estimate:
    """The sum of a measure over independent factors."""
    return Estimate(each.value.sum(axis=axes), np.sqrt(np.square(each.error).sum(axis=axes)))


def _multiply(each: Estimate, axes: tuple[int, ...]) -> Estimate:
    """chi^2 of a product of independent factors: 1 + chi^2 is the product of each factor's 1 + chi^2."""
    total = np.expm1(np.log1p(each.value).sum(axis=axes))
    with np.errstate(invalid="ignore"):
        relative = each.error / (1 + each.value)
        return Estimate(total, (1 + total) * np.sqrt(np.square(relative).sum(axis=axes)))


ENTROPY = Measure(_entropy, closed_entropy, lambda log_p, log_q: -log_p, product=_add)
CROSS_ENTROPY = Measure(
    lambda log_p, log_q: _expected(log_p, -log_q), _closed_cross_entropy, lambda log_p, log_q: -log_q, product=_add
)
KL = Measure(_kl, closed_kl, lambda log_p, log_q: log_p - log_q, product=_add)
TOTAL_VARIATION = Measure(
    _total_variation,
    lambda p, q: None,
    lambda log_p, log_q: np.abs(np.tanh((log_p - log_q) / 2)),
    apart=1.0,
    both=True,
    bounded=True,
)
CHI_SQUARED = Measure(_chi_squared, closed_chi_squared, _chi_squared_term, product=_multiply, both=True)
