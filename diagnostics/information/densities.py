"""What NumPyro's distributions say about themselves, where it can be relied on.

NumPyro by itself gives a density to values outside of a support unless it validates, clips the probabilities 0 and 1 of
a Bernoulli to numbers between them, and has a finite KL divergence of a point from a density. Here a log density is
-inf wherever there is no density, and closed forms are told from series and conventions.
"""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import (
    BernoulliProbs,
    BinomialProbs,
    Delta,
    Distribution,
    ExpandedDistribution,
    FoldedDistribution,
    Independent,
    Kumaraswamy,
    MixtureGeneral,
    MixtureSameFamily,
    Normal,
    TransformedDistribution,
    constraints,
)
from numpyro.distributions.kl import kl_divergence
from numpyro.distributions.transforms import biject_to
from numpyro.distributions.util import sum_rightmost

from inference.variational.masked_matrix import MaskedMatrix
from models.distributions import single

__all__ = [
    "closed_chi_squared",
    "closed_entropy",
    "closed_kl",
    "dimension",
    "escapes",
    "factors",
    "in_float64",
    "log_density",
    "outcomes",
]


def in_float64(distribution: Distribution) -> Distribution:
    """The same distribution with its parameters in float64; to be used where JAX has float64 enabled."""

    def wide(leaf: Any) -> Any:
        if isinstance(leaf, Distribution):
            return in_float64(leaf)
        number = isinstance(leaf, float | np.floating | np.ndarray | jax.Array)
        return (
            jnp.asarray(leaf, jnp.float64) if number and jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf
        )

    same = copy.copy(distribution)  # not by its leaves: some distributions do not name all that they hold
    for name, item in vars(distribution).items():
        setattr(same, name, jax.tree.map(wide, item, is_leaf=lambda leaf: isinstance(leaf, Distribution)))
    return same


def log_density(distribution: Distribution, value: Any) -> jax.Array:
    """The log density, or log probability, of values (..., batch, event): -inf where the distribution has none."""
    if isinstance(distribution, ExpandedDistribution):
        inner = log_density(distribution.base_dist, value)
        return jnp.broadcast_to(inner, np.broadcast_shapes(inner.shape, distribution.batch_shape))
    if isinstance(distribution, Independent):
        return sum_rightmost(log_density(distribution.base_dist, value), distribution.reinterpreted_batch_ndims)
    if isinstance(distribution, Delta):
        here = jnp.where(jnp.equal(value, distribution.v), 0.0, -jnp.inf)
        return sum_rightmost(here, distribution.event_dim)
    if isinstance(distribution, MixtureGeneral):
        each = [log_density(component, value) for component in distribution.component_distributions]
        weights = jax.nn.log_softmax(distribution.mixing_distribution.logits)
        return jax.nn.logsumexp(weights + jnp.stack(jnp.broadcast_arrays(*each), axis=-1), axis=-1)
    inside = jnp.asarray(distribution.support(value)) & _is_possible(distribution, value)
    if _is_bare(distribution):
        source = value
        for transform in reversed(distribution.transforms):
            source = transform.inv(source)
        inside &= log_density(distribution.base_dist, source) > -jnp.inf
    if distribution.support.is_discrete:
        value = jnp.asarray(value).astype(int)  # some are drawn as floats, which others can't look up
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Out-of-support values")  # which are known, and have no density
        return jnp.where(inside, distribution.log_prob(value), -jnp.inf)


def dimension(distribution: Distribution) -> int:
    """The number of coordinates in which an event is free to vary: 0 where single outcomes have a probability.

    It is k - 1 on a simplex or a sphere. Distributions of different dimensions have no density in common.
    """
    one = single(distribution)
    noiseless = isinstance(one, MaskedMatrix) and not np.any(one.sigma)
    if isinstance(one, Delta) or noiseless or distribution.support.is_discrete:
        return 0
    try:
        free = biject_to(distribution.support).inverse_shape(distribution.shape())
    except NotImplementedError:  # no coordinates are known for this support
        free = distribution.shape()
    return math.prod(free[len(distribution.batch_shape) :]) - (distribution.support is constraints.sphere)


def outcomes(distribution: Distribution) -> jax.Array | None:
    """All values that a distribution can take, (outcome, batch, event), if they are finitely many; else None."""
    one = single(distribution)
    if isinstance(one, Delta):
        return jnp.broadcast_to(one.v, distribution.shape())[None]
    if not distribution.has_enumerate_support:
        return None
    try:
        return distribution.enumerate_support()
    except NotImplementedError:  # as for several values together, or totals that differ
        return None


def factors(p: Distribution, q: Distribution) -> tuple[Distribution, Distribution, int]:
    """The factors of which p and q are independent products, and over how many of their last batch dimensions."""
    dimensions = 0
    while isinstance(p, Independent) and isinstance(q, Independent):
        common = min(p.reinterpreted_batch_ndims, q.reinterpreted_batch_ndims)
        p, q = (item.base_dist.to_event(item.reinterpreted_batch_ndims - common) for item in (p, q))
        dimensions += common
    return p, q, dimensions


def closed_entropy(p: Distribution, q: Distribution) -> jax.Array | None:
    """H(p) by NumPyro's closed form, if it has one; q is p and not used."""
    try:
        return jnp.asarray(_unexpanded(p).entropy())
    except NotImplementedError:
        return None


def closed_kl(p: Distribution, q: Distribution) -> jax.Array | None:
    """KL(p || q) by NumPyro's closed form, if it has one.

    The form for Kumaraswamy against Beta is left out: it is the first ten terms of a series, and can be a third too
    small. A common transform changes no divergence, so the distributions that it was applied to are used instead.
    """
    p, q = _unexpanded(p), _unexpanded(q)
    if isinstance(p, TransformedDistribution) and isinstance(q, TransformedDistribution):
        alike = len(p.transforms) == len(q.transforms) and all(map(_is_same, p.transforms, q.transforms))
        if alike and not isinstance(p, FoldedDistribution) and p.base_dist.batch_shape == p.batch_shape:
            return closed_kl(p.base_dist, q.base_dist)
    rule = None if isinstance(p, Kumaraswamy) else kl_divergence.dispatch(type(p), type(q))
    try:
        return None if rule is None else jnp.maximum(rule(p, q), 0.0)  # rounding can leave -1e-16
    except NotImplementedError:
        return None


def closed_chi_squared(p: Distribution, q: Distribution) -> jax.Array | None:
    r"""chi^2(p || q) of two normals, infinite unless v = 2 s_q^2 - s_p^2 > 0; None for other distributions.

    chi^2 + 1 = s_q^2 / (s_p sqrt(v)) exp((m_p - m_q)^2 / v)
    """
    p, q = _unexpanded(p), _unexpanded(q)
    if not (isinstance(p, Normal) and isinstance(q, Normal)):
        return None
    ratio = jnp.square(p.scale / q.scale)
    width = 2 - ratio  # v / s_q^2
    log_square = jnp.square((p.loc - q.loc) / q.scale) / width - 0.5 * jnp.log(ratio * width)
    return jnp.where(width > 0, jnp.expm1(log_square), jnp.inf)


def escapes(p: Distribution, q: Distribution) -> np.ndarray:
    """Where P certainly has mass, however little, and Q has none: P reaches beyond the ends of Q's support."""
    ours, theirs = _reach(p), _reach(q)
    if ours is None or theirs is None:
        return np.zeros((), bool)
    return np.asarray((ours[0] < theirs[0]) | (ours[1] > theirs[1]))


def _reach(distribution: Distribution) -> tuple[Any, Any] | None:
    """The ends of the support of a distribution of numbers, if its values surely come arbitrarily close to them."""
    distribution = _unexpanded(distribution)
    vague = _is_bare(distribution) or isinstance(distribution, Delta | MixtureGeneral | MixtureSameFamily)
    if vague or distribution.event_shape or np.isin(getattr(distribution, "probs", 0.5), (0, 1)).any():
        return None
    support = distribution.support
    if support is constraints.real:
        return -np.inf, np.inf
    if not hasattr(support, "lower_bound") and not hasattr(support, "upper_bound"):
        return None
    return np.asarray(getattr(support, "lower_bound", -np.inf)), np.asarray(getattr(support, "upper_bound", np.inf))


def _unexpanded(distribution: Distribution) -> Distribution:
    while isinstance(distribution, ExpandedDistribution):
        distribution = distribution.base_dist
    return distribution


def _is_bare(distribution: Distribution) -> bool:
    """Whether the support is only declared as all values that a transform can give."""
    return getattr(type(distribution), "support", None) is TransformedDistribution.support


def _is_same(first: Any, second: Any) -> bool:
    """Whether two transforms are the same."""
    return type(first) is type(second) and bool(first.eq(second))


def _is_possible(distribution: Distribution, value: Any) -> Any:
    """Whether a count is possible at all, where NumPyro clips success probabilities that are 0 or 1."""
    if isinstance(distribution, BernoulliProbs | BinomialProbs):
        every = getattr(distribution, "total_count", 1)
        return ((value == 0) | (distribution.probs > 0)) & ((value == every) | (distribution.probs < 1))
    return True
