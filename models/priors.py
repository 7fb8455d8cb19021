"""Priors on the weights of a network.

A prior is a frozen record that puts a distribution on any weight of a network: `Normal(scale)` the same on all,
`Normal(scale, fan_in=True)` scaled by the layer, a univariate NumPyro distribution, or `Rules` that choose by layer and
by kind. `Prior.sample` draws a site; the sites hold the weights themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array

from models.validation import positive_number

__all__ = ["Normal", "Prior", "Rules", "Site", "Univariate", "as_prior"]


@dataclass(frozen=True)
class Site:
    """Which weights a prior is asked for.

    Attributes:
        layer: the layer's name, such as "hidden0" or "output".
        kind: "weight" or "bias".
        fan_in: how many inputs one unit of the layer sums over.
    """

    layer: str
    kind: str
    fan_in: int

    @property
    def name(self) -> str:
        """The name of the sample site."""
        return f"{self.layer}.{self.kind}"


class Prior:
    """Base of all priors: says which distribution a weight has, and samples sites from it."""

    def distribution(self, site: Site) -> dist.Distribution:
        """The univariate distribution of one weight of this site."""
        raise NotImplementedError(f"{type(self).__name__} must say how a weight is distributed")

    def scale_of(self, site: Site) -> float:
        """The prior standard deviation of one weight of this site, or its scale where the variance is infinite."""
        raise NotImplementedError(f"{type(self).__name__} must know its scale")

    def sample(self, site: Site, shape: tuple[int, ...]) -> Array:
        """Draw the weights of a site.

        The site's `infer` entry tells where optimisers and samplers begin: normal with variance 1 / fan_in, under
        which signals keep their size through the layers, whatever the prior's own scale.
        """
        weights = self.distribution(site).expand(shape).to_event(len(shape))
        return numpyro.sample(site.name, weights, infer={"start_scale": 1 / math.sqrt(site.fan_in)})

    def check(self, sites: tuple[str, ...]) -> None:
        """Raise ValueError if the prior does not fit a network with these sites."""


@dataclass(frozen=True)
class Normal(Prior):
    """Independent normal weights with mean 0.

    Attributes:
        scale: the standard deviation, above 0.
        fan_in: divide the standard deviation of weights, not of biases, by the square root of the number of inputs
            of their layer, so that wide layers keep the scale of their outputs (Neal 1996).
    """

    scale: float = 1.0
    fan_in: bool = False

    def __post_init__(self) -> None:
        positive_number("Normal: scale", self.scale)

    def distribution(self, site: Site) -> dist.Distribution:
        """N(0, scale_of(site)^2)."""
        return dist.Normal(0.0, self.scale_of(site))

    def scale_of(self, site: Site) -> float:
        """The standard deviation, divided by sqrt(fan_in) for weights if asked for."""
        if self.fan_in and site.kind == "weight":
            return self.scale / math.sqrt(site.fan_in)
        return self.scale


@dataclass(frozen=True)
class Univariate(Prior):
    """Independent weights from a univariate NumPyro distribution, as a record that can be compared and stored.

    Made from the distribution itself wherever a prior is expected: `prior=dist.Laplace(0.0, 1.0)`.

    Attributes:
        family: the class's name in `numpyro.distributions`.
        parameters: its parameters by name, as numbers.
    """

    family: str
    parameters: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, distribution: dist.Distribution) -> Univariate:
        """The record of a distribution with numbers as parameters."""
        family = type(distribution).__name__
        if distribution.batch_shape or distribution.event_shape:
            raise ValueError(
                f"a prior must be univariate, got {family} with batch shape {distribution.batch_shape} and event "
                f"shape {distribution.event_shape}; give one distribution per layer by a mapping instead"
            )
        if getattr(dist, family, None) is not type(distribution):
            raise ValueError(f"a prior must be a distribution of numpyro.distributions, got {family}")
        if distribution.support.is_discrete:
            raise ValueError(f"a prior must be continuous, got {family}, which is discrete")
        parameters = tuple((name, float(value)) for name, value in distribution.get_args().items())
        bad = [name for name, value in parameters if not np.isfinite(value)]
        if bad:
            raise ValueError(f"the parameters of a prior must be finite, got {bad[0]}={dict(parameters)[bad[0]]!r}")
        distribution.validate_args(strict=True)
        return cls(family, parameters)

    def __post_init__(self) -> None:
        family = getattr(dist, self.family, None)
        if not (isinstance(family, type) and issubclass(family, dist.Distribution)):
            raise ValueError(f"family must be the name of a distribution of numpyro.distributions, got {self.family!r}")

    @property
    def support(self) -> Any:
        """Where the distribution lives, as far as its class says; nothing is computed."""
        return getattr(dist, self.family).support

    def instance(self) -> dist.Distribution:
        """The NumPyro distribution."""
        return getattr(dist, self.family)(**dict(self.parameters))

    def distribution(self, site: Site) -> dist.Distribution:
        """The same distribution for every weight."""
        return self.instance()

    def scale_of(self, site: Site) -> float:
        """The standard deviation; the scale parameter where the variance is infinite."""
        deviation = math.sqrt(float(jnp.asarray(self.instance().variance)))
        return deviation if math.isfinite(deviation) else dict(self.parameters)["scale"]


@dataclass(frozen=True)
class Rules(Prior):
    """A prior for each part of a network.

    Made from a mapping wherever a prior is expected: `prior={"default": 1.0, "output": models.Normal(0.1), "bias":
    models.Normal(10.0)}`. A key is a site ("hidden0.weight"), a layer ("hidden0"), a kind ("weight", "bias") or
    "default"; for a site the first of these that is there decides, in this order. A plain number s means `Normal(s)`.

    Attributes:
        rules: the keys with their priors.
    """

    rules: tuple[tuple[str, Prior], ...]

    def _of(self, site: Site) -> Prior:
        priors = dict(self.rules)
        for key in (site.name, site.layer, site.kind, "default"):
            if key in priors:
                return priors[key]
        raise ValueError(f"prior has no rule for the site '{site.name}'; add one, or a 'default'")

    def distribution(self, site: Site) -> dist.Distribution:
        """That of the rule for this site."""
        return self._of(site).distribution(site)

    def scale_of(self, site: Site) -> float:
        """That of the rule for this site."""
        return self._of(site).scale_of(site)

    def sample(self, site: Site, shape: tuple[int, ...]) -> Array:
        """As the rule for this site does it."""
        return self._of(site).sample(site, shape)

    def check(self, sites: tuple[str, ...]) -> None:
        """Every rule must apply to something."""
        parts = {part for site in sites for part in (site, *site.rsplit(".", 1))} | {"default"}
        for key, _ in self.rules:
            if key not in parts:
                raise ValueError(
                    f"prior has a rule for '{key}', which this network does not have; it has {', '.join(sorted(parts))}"
                )


def as_prior(value: Any) -> Prior:
    """The prior that a user meant: a prior, a NumPyro distribution, a number (Normal of that scale) or a mapping."""
    if isinstance(value, Prior):
        return value
    if isinstance(value, dist.Distribution):
        return Univariate.of(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Normal(value)
    if isinstance(value, Mapping):
        return Rules(tuple((str(key), as_prior(rule)) for key, rule in value.items()))
    raise TypeError(
        "prior must be a models.Normal or another prior, a univariate NumPyro distribution, a scale, or a mapping "
        f"from layers and kinds to those, got {type(value).__name__}"
    )
