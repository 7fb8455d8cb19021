"""Distributions without the wrappers that NumPyro puts around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpyro.distributions import Distribution, ExpandedDistribution, ImproperUniform, Independent

__all__ = ["innermost", "proper", "single", "wrapped"]


def single(distribution: Distribution) -> Distribution:
    """The distribution of one value of a site whose values are independent and equally distributed."""
    while isinstance(distribution, Independent | ExpandedDistribution):
        distribution = distribution.base_dist
    return distribution


def wrapped(distribution: Any) -> Iterator[Any]:
    """Yield `distribution`, then what each wrapper (an expansion, a mask, a transformation) has inside, inwards."""
    yield distribution
    while hasattr(distribution, "base_dist"):
        distribution = distribution.base_dist
        yield distribution


def innermost(distribution: Any) -> Any:
    """The distribution inside all wrappers."""
    *_, inside = wrapped(distribution)
    return inside


def proper(distribution: Any) -> bool:
    """Whether a prior can be drawn from."""
    return not isinstance(innermost(distribution), ImproperUniform)
