r"""How distributions are measured: in closed form, by a sum over all outcomes, or by draws.

A measure is the expectation of a term t(log p, log q) under P or, for measures that treat P and Q alike, under their
mixture M = (P + Q) / 2, for which half the draws come from each:

    E_P[t] ~= (1/S) sum_s t(x_s),  x_s ~ P        E_M[t] = (E_P[t] + E_Q[t]) / 2

For products of independent distributions each factor is measured alone, and the results are combined. Everything is
computed in float64, whatever precision the parameters have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from numpyro.distributions import Distribution

from diagnostics.information.densities import dimension, escapes, factors, in_float64, log_density, outcomes
from diagnostics.information.estimate import Estimate, average
from inference.host.seeds import as_key, plain_seed

__all__ = ["Measure", "measured"]


@dataclass(frozen=True)
class Measure:
    """A measure of information about P and Q.

    Attributes:
        formula: the measure from log p and log q over all outcomes, (..., outcome).
        closed: the closed form for two distributions; it gives None for distributions that have none.
        term: t, whose expectation the measure is.
        apart: the measure where P and Q have no density in common, such as a point and a normal.
        product: combines the measure over the last dimensions of independent factors; None if only draws can tell.
        both: whether the expectation is over M and not over P.
        bounded: whether t is bounded.
    """

    formula: Callable[[np.ndarray, np.ndarray], np.ndarray]
    closed: Callable[[Distribution, Distribution], Any]
    term: Callable[[np.ndarray, np.ndarray], np.ndarray]
    apart: float = np.inf
    product: Callable[[Estimate, tuple[int, ...]], Estimate] | None = None
    both: bool = False
    bounded: bool = False


def measured(measure: Measure, p: Distribution, q: Distribution, draws: int, seed: Any) -> Estimate:
    """The measure of two distributions over the same space, in the shape of their batches."""
    key = as_key(plain_seed(seed))
    with jax.enable_x64(True):
        p, q, dimensions = in_float64(p), in_float64(q), 0
        if measure.product is not None:
            p, q, dimensions = factors(p, q)
        shape = np.broadcast_shapes(p.batch_shape, q.batch_shape)
        each = _each(measure, p, q, shape, draws, key)
    each = Estimate(*(np.broadcast_to(part, shape) for part in (each.value, each.error)))
    if measure.product is not None:
        each = measure.product(each, tuple(range(-dimensions, 0)))
    known = np.isinf(each.value) & ~np.isposinf(each.error)  # infinite whatever the other factors are
    return Estimate(each.value[()], np.where(known, 0.0, each.error)[()])


def _each(
    measure: Measure, p: Distribution, q: Distribution, shape: tuple[int, ...], draws: int, key: jax.Array
) -> Estimate:
    if dimension(p) != dimension(q):
        return Estimate.exact(measure.apart)
    pair = tuple(item if item.batch_shape == shape else item.expand(shape) for item in (p, q))
    values = outcomes(pair[0])
    if values is not None:
        return Estimate.exact(measure.formula(*_table(pair, values)))
    closed = measure.closed(p, q)
    if closed is not None and not np.isnan(closed).any():
        return Estimate.exact(closed)
    beyond = escapes(p, q) & np.isinf(measure.apart)
    if beyond.all():
        return Estimate.exact(np.inf)
    estimate = _averaged(measure, pair, 0, draws, key)
    if measure.both:
        other = _averaged(measure, pair, 1, draws, key)
        estimate = Estimate((estimate.value + other.value) / 2, np.hypot(estimate.error, other.error) / 2)
    return Estimate(np.where(beyond, np.inf, estimate.value), np.where(beyond, 0.0, estimate.error))


def _averaged(measure: Measure, pair: tuple[Distribution, ...], source: int, draws: int, key: jax.Array) -> Estimate:
    """E[t] over draws of P, if `source` is 0, or of Q, if it is 1."""
    values = pair[source].sample(jax.random.fold_in(key, source), (draws,))
    logs = [np.asarray(log_density(item, values)) for item in pair]
    with np.errstate(invalid="ignore"):
        terms = measure.term(*logs)
    nowhere = np.isneginf(logs[source])  # a draw that rounding took out of its own support
    return average(np.where(nowhere, np.nan, terms), measure.bounded)


def _table(pair: tuple[Distribution, ...], values: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Log p and log q of all outcomes of P, on the last axis, with one more entry for all other outcomes together."""
    log_p, log_q = (np.moveaxis(np.asarray(log_density(item, values)), 0, -1) for item in pair)
    others = np.maximum(1 - np.exp(log_q).sum(axis=-1, keepdims=True), 0.0)
    with np.errstate(divide="ignore"):
        return (
            np.concatenate([log_p, np.full_like(others, -np.inf)], axis=-1),
            np.concatenate([log_q, np.log(others)], axis=-1),
        )
