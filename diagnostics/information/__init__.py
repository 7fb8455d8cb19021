r"""Information theory, for tables of probabilities and for NumPyro distributions.

With P over outcomes x, sums for probabilities and integrals for densities, and 0 log 0 = 0:

    self-information     -log p(x)                              additive for independent events
    entropy              H(P)       = -sum p log p              the largest of k outcomes is log k, that of the uniform
    cross-entropy        H(P, Q)    = -sum p log q              = H(P) + KL(P || Q)
    KL divergence        KL(P || Q) =  sum p log(p / q)         >= 0, not symmetric; infinite unless P << Q
    total variation      TV(P, Q)   =  sum |p - q| / 2          the largest difference that an event's probability has
    chi-squared          chi^2(P || Q) = sum (p - q)^2 / q      >= exp(KL) - 1; infinite unless P << Q
    mutual information   I(X; Y)    = KL(P_XY || P_X P_Y)       0 if X and Y are independent

P << Q means that nothing which Q rules out has a probability under P. The entropy of a density depends on the units of
x and can be negative; divergences depend on no units.

Every function takes tables, whose last axis holds the probabilities of all outcomes and whose other axes broadcast, or
distributions, whose batch shapes broadcast, and gives an `Estimate`: a value that is used like a number or an array,
and its `error`. For distributions it is exact, with an error of 0, where there is a closed form, where the outcomes
can be counted, and where P reaches beyond the support of Q. Elsewhere it is an average over `draws`, which know nothing
of what they have not met: a part of P outside of Q with a probability far below 1 / draws may be missed where the
supports don't reveal it, as with mixtures.

The evidence lower bound of a guide, `elbo`, is explained in `diagnostics.information.evidence_bound`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
from numpyro.distributions import Distribution, ImproperUniform, MaskedDistribution, Unit

from diagnostics.information.densities import in_float64, log_density
from diagnostics.information.estimate import Estimate
from diagnostics.information.evidence_bound import Elbo, elbo
from diagnostics.information.formulas import CHI_SQUARED, CROSS_ENTROPY, ENTROPY, KL, TOTAL_VARIATION
from diagnostics.information.measuring import Measure, measured
from models.distributions import single
from models.validation import finite_array, one_of, positive_integer

__all__ = [
    "Elbo",
    "Estimate",
    "chi_squared",
    "cross_entropy",
    "elbo",
    "entropy",
    "kl",
    "mutual_information",
    "self_information",
    "total_variation",
]

_UNITS = {"nats": 1.0, "bits": 1 / math.log(2)}
_SUM = 1e-5  # how far the sum of probabilities in float32 may be from 1
_LEAST_DRAWS = 100  # fewer can't tell whether their average has an error


def self_information(p: Any, unit: str = "nats", *, outcome: Any = None) -> Estimate:
    """How surprising an event is, -log p; infinite for one that is impossible.

    Args:
        p: the probability of the event, or an array of such, each between 0 and 1; or a distribution.
        unit: "nats" or "bits".
        outcome: for a distribution, what happened; for a density p the result is -log p, which can be negative.
    """
    scale = _scale(unit)
    if isinstance(p, Distribution):
        if outcome is None:
            raise ValueError("self_information of a distribution is that of an outcome: give outcome=...")
        _check_distribution("p", p)
        with jax.enable_x64(True):
            return Estimate.exact(-np.asarray(log_density(in_float64(p), np.asarray(outcome)))).times(scale)
    if outcome is not None:
        raise ValueError("outcome is for a distribution; the probability p is that of the event itself")
    return Estimate.exact(0.0 - _logarithm(_between_0_and_1("p", p))).times(scale)


def entropy(p: Any, unit: str = "nats", *, draws: int = 10_000, seed: Any = 0) -> Estimate:
    """How surprising an outcome is on average, H(P).

    Args:
        p: probabilities, or a distribution.
        unit: "nats" or "bits".
        draws: the number of draws of P where there is no closed form.
        seed: the seed of the draws, an integer or a typed key.
    """
    return _measure(ENTROPY, p, p, draws, seed, unit)


def cross_entropy(p: Any, q: Any, unit: str = "nats", *, draws: int = 10_000, seed: Any = 0) -> Estimate:
    """How surprising an outcome of P is on average for one who believes in Q, H(P, Q).

    Args:
        p: probabilities, or a distribution.
        q: probabilities of the same outcomes, or a distribution over the same space.
        unit: "nats" or "bits".
        draws: the number of draws of P where there is no closed form.
        seed: the seed of the draws, an integer or a typed key.
    """
    return _measure(CROSS_ENTROPY, p, q, draws, seed, unit)


def kl(p: Any, q: Any, unit: str = "nats", *, draws: int = 10_000, seed: Any = 0) -> Estimate:
    """How much more surprising an outcome of P is for one who believes in Q, KL(P || Q).

    Args:
        p: probabilities, or a distribution.
        q: probabilities of the same outcomes, or a distribution over the same space.
        unit: "nats" or "bits".
        draws: the number of draws of P where there is no closed form.
        seed: the seed of the draws, an integer or a typed key.
    """
    return _measure(KL, p, q, draws, seed, unit)


def total_variation(p: Any, q: Any, *, draws: int = 10_000, seed: Any = 0) -> Estimate:
    """The largest difference between the probabilities that P and Q give to an event, 0 to 1.

    Args:
        p: probabilities, or a distribution.
        q: probabilities of the same outcomes, or a distribution over the same space.
        draws: the number of draws of each where there are too many outcomes to count.
        seed: the seed of the draws, an integer or a typed key.
    """
    return _measure(TOTAL_VARIATION, p, q, draws, seed)


def chi_squared(p: Any, q: Any, *, draws: int = 10_000, seed: Any = 0) -> Estimate:
    """The chi-squared divergence of P from Q, the variance of p / q under Q.

    Where p / q grows without bound far out, as for a Laplace distribution against a normal one, the divergence is
    infinite, but draws that have not been there give a finite number.

    Args:
        p: probabilities, or a distribution.
        q: probabilities of the same outcomes, or a distribution over the same space.
        draws: the number of draws of each where there is no closed form.
        seed: the seed of the draws, an integer or a typed key.
    """
    return _measure(CHI_SQUARED, p, q, draws, seed)


def mutual_information(joint: Any, unit: str = "nats") -> Estimate:
    """How much two variables say about each other, I(X; Y).

    Args:
        joint: the probability of each pair of outcomes, (..., x, y), which sum to 1.
        unit: "nats" or "bits".
    """
    scale, pairs = _scale(unit), finite_array("joint", joint)
    if pairs.ndim < 2:
        raise ValueError(f"joint must be a table of pairs of outcomes, (..., x, y), got shape {pairs.shape}")
    flat = _probabilities("joint", pairs.reshape(*pairs.shape[:-2], -1))
    table = flat.reshape(pairs.shape)
    independent = table.sum(axis=-1, keepdims=True) * table.sum(axis=-2, keepdims=True)
    return Estimate.exact(KL.formula(_logarithm(flat), _logarithm(independent.reshape(flat.shape)))).times(scale)


def _measure(measure: Measure, p: Any, q: Any, draws: int, seed: Any, unit: str = "nats") -> Estimate:
    scale = _scale(unit)
    positive_integer("draws", draws, least=_LEAST_DRAWS)
    if isinstance(p, Distribution) != isinstance(q, Distribution):
        raise TypeError(
            "p and q must both be probabilities or both be NumPyro distributions, got "
            f"{type(p).__name__} and {type(q).__name__}; dist.Categorical(probs) makes one of the other"
        )
    if isinstance(p, Distribution):
        _check_pair(p, q)
        return measured(measure, p, q, draws, seed).times(scale)
    first, second = _probabilities("p", p), _probabilities("q", q)
    if first.shape[-1] != second.shape[-1]:
        raise ValueError(f"p and q must have the same outcomes, got {first.shape[-1]} and {second.shape[-1]} of them")
    _check_broadcast(first.shape[:-1], second.shape[:-1])
    return Estimate.exact(measure.formula(_logarithm(first), _logarithm(second))).times(scale)


def _scale(unit: str) -> float:
    one_of("unit", unit, _UNITS)
    return _UNITS[unit]


def _between_0_and_1(name: str, value: Any, rounding: float = 0.0) -> np.ndarray:
    array = finite_array(name, value).astype(np.float64)
    if array.size and not 0 <= array.min() <= array.max() <= 1 + rounding:
        raise ValueError(
            f"{name} must be probabilities, 0 to 1, got values from {array.min():.6g} to {array.max():.6g}"
        )
    return array


def _probabilities(name: str, value: Any) -> np.ndarray:
    """The probabilities of all outcomes on the last axis, in float64, with the rounding of their sum divided out."""
    array = _between_0_and_1(name, value, _SUM)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(
            f"{name} must hold the probabilities of all outcomes on its last axis, got shape {array.shape}; those of a "
            f"coin are [1 - {name}, {name}]"
        )
    total = array.sum(axis=-1, keepdims=True)
    if not np.abs(total - 1).max(initial=0.0) <= _SUM:
        worst = total.ravel()[np.abs(total - 1).argmax()]
        raise ValueError(f"{name} must sum to 1 over its last axis, got {worst:.6g}; divide by the sum, or use softmax")
    return array / total


def _check_distribution(name: str, distribution: Distribution) -> None:
    inner: Any = single(distribution)
    if isinstance(inner, MaskedDistribution):
        raise TypeError(f"{name} is masked, so it is not a distribution; give {name}.base_dist")
    if isinstance(inner, ImproperUniform | Unit):
        raise TypeError(
            f"{name} is a {type(inner).__name__}, which is improper and has no information; give a proper one"
        )


def _check_pair(p: Distribution, q: Distribution) -> None:
    _check_distribution("p", p)
    _check_distribution("q", q)
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"p and q must be over the same space, got event shapes {p.event_shape} and {q.event_shape}; to_event "
            "makes dimensions of a batch part of the event"
        )
    _check_broadcast(p.batch_shape, q.batch_shape)


def _check_broadcast(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    try:
        np.broadcast_shapes(first, second)
    except ValueError as error:
        raise ValueError(f"p and q must have batches that broadcast, got shapes {first} and {second}") from error


def _logarithm(probabilities: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probabilities)
