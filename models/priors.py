"""Priors on the weights of a network.

A prior is a frozen record that puts a distribution on any weight of a network: `Normal(scale)`, the same on all;
`Normal(scale, fan_in=True)`, scaled by layer; `ScaleMixture`; `Flat`; or any univariate NumPyro distribution.
`Prior.sample` draws a site; the sites hold the weights themselves. `models/rules.py` chooses priors by layer and kind,
`models/hierarchies.py` has priors whose scale is inferred too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array
from numpyro.distributions.transforms import biject_to

from models.distributions import innermost
from models.validation import fraction, plain_numbers, positive_number

__all__ = ["Flat", "Normal", "Prior", "ScaleMixture", "Site", "Univariate", "unconstrained_scale"]


@dataclass(frozen=True)
class Site:
    """Which weights a prior is asked for.

    Attributes:
        layer: the layer's name, such as "hidden0" or "output".
        kind: "weight", "bias", or a normalisation's "gain", "offset" or "threshold".
        fan_in: how many inputs one unit of the layer sums over.
        start: around which value optimisers and samplers start.
        inputs_first: whether the last axis of the weights is the layer's units, and the others its inputs.
    """

    layer: str
    kind: str
    fan_in: int
    start: float = 0.0
    inputs_first: bool = True

    @property
    def name(self) -> str:
        """The name of the sample site."""
        return f"{self.layer}.{self.kind}"


class Prior:
    """Base of all priors: says which distribution a weight has, and samples sites from it."""

    @property
    def shapes_outputs(self) -> bool:
        """Whether outputs depend on the prior's numbers even where its sites are given, which weights are made of."""
        return False

    def distribution(self, site: Site) -> dist.Distribution:
        """The univariate distribution of one weight of `site`."""
        raise NotImplementedError(f"{type(self).__name__} must say how a weight is distributed")

    def scale_of(self, site: Site) -> float:
        """The prior standard deviation of one weight of `site`, or its scale where the variance is infinite."""
        raise NotImplementedError(f"{type(self).__name__} must know its scale")

    def sample(self, site: Site, shape: tuple[int, ...]) -> Array:
        """Draw the weights of a site.

        The site's `infer` entry says where optimisers and samplers start: at normal values around `site.start` with
        variance 1 / fan_in, under which signals keep their size through the layers, whatever the prior's own scale.
        """
        weights = self.distribution(site).expand(shape).to_event(len(shape))
        where = {"start_scale": 1 / math.sqrt(site.fan_in), "start_mean": site.start}
        return numpyro.sample(site.name, weights, infer=where)

    def sample_unknowns(self, count: int) -> Array:
        """Draw inputs that are missing, the site "missing": N(0, 1) each, as standardised inputs have it."""
        unknowns = dist.Normal(0.0, 1.0).expand((count,)).to_event(1)
        return numpyro.sample("missing", unknowns, infer={"start_scale": 1.0})

    def samples(self, site: Site) -> bool:
        """Whether `site` is sampled; a weight that is fixed is not."""
        return True

    def for_layer(self, layer: str, label: str = "") -> Prior:
        """The prior of `layer`; a layer asks once, before it samples its sites. `label` tells several priors apart."""
        return self

    def check(self, sites: tuple[Site, ...]) -> None:
        """Raise ValueError if the prior does not fit a network with the sites `sites`."""


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
        plain_numbers(self)
        positive_number("Normal: scale", self.scale)
        if not isinstance(self.fan_in, bool):
            raise TypeError(f"Normal: fan_in must be True or False, got {self.fan_in!r}")

    def distribution(self, site: Site) -> dist.Distribution:
        """N(0, scale_of(site)^2)."""
        return dist.Normal(0.0, self.scale_of(site))

    def scale_of(self, site: Site) -> float:
        """`scale`; for weights, if `fan_in` is true, divided by the root of their layer's inputs."""
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
        """The record of a distribution whose parameters are numbers."""
        family = type(distribution).__name__
        if distribution.batch_shape or distribution.event_shape:
            raise ValueError(
                f"a prior must be univariate, got {family} with batch shape {distribution.batch_shape} and event "
                f"shape {distribution.event_shape}; give one distribution per layer by a mapping instead"
            )
        if getattr(dist, family, None) is not type(distribution):
            raise ValueError(f"a prior must be a distribution of numpyro.distributions, got {family}")
        if distribution.support is None or distribution.support.is_discrete:
            raise ValueError(f"a prior must be continuous, got {family}, which is discrete")
        try:
            parameters = tuple((name, float(value)) for name, value in distribution.get_args().items())
            getattr(dist, family)(**dict(parameters))
        except TypeError as error:
            raise ValueError(
                f"{family} is made of other distributions, so it can't be written down by its parameters; derive a "
                "class of your own from models.Prior for it"
            ) from error
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
        """The support that the distribution's class declares; nothing is computed."""
        return getattr(dist, self.family).support

    def instance(self) -> dist.Distribution:
        """The NumPyro distribution."""
        return getattr(dist, self.family)(**dict(self.parameters))

    def distribution(self, site: Site) -> dist.Distribution:
        """The same distribution for every weight."""
        return self.instance()

    def scale_of(self, site: Site) -> float:
        """The standard deviation, or the scale parameter where the variance is infinite or has no closed form."""
        return float(_deviation(self.instance()))

    def check(self, sites: tuple[Site, ...]) -> None:
        """Raise ValueError unless the support is all real numbers: weights take both signs."""
        if self.support is not dist.constraints.real:
            raise ValueError(
                f"a prior on weights must be on all real numbers, {self.family} is not; sites take both signs"
            )


@dataclass(frozen=True)
class ScaleMixture(Prior):
    """A mixture of a wide and a narrow normal, both with mean 0 (Blundell et al. 2015, equation 7).

    p(w) = pi N(w; 0, scale1^2) + (1 - pi) N(w; 0, scale2^2)

    Attributes:
        pi: the weight of the first normal, above 0 and below 1.
        scale1: the standard deviation of the first normal.
        scale2: the standard deviation of the second normal.
    """

    pi: float
    scale1: float
    scale2: float

    def __post_init__(self) -> None:
        plain_numbers(self)
        fraction("ScaleMixture: pi", self.pi)
        for name in ("scale1", "scale2"):
            positive_number(f"ScaleMixture: {name}", getattr(self, name))

    def distribution(self, site: Site) -> dist.Distribution:
        """The mixture of the two normals."""
        weights = dist.Categorical(probs=jnp.array([self.pi, 1 - self.pi], jnp.float32))
        return dist.MixtureSameFamily(weights, dist.Normal(0.0, jnp.array([self.scale1, self.scale2], jnp.float32)))

    def scale_of(self, site: Site) -> float:
        """The standard deviation of the mixture."""
        return math.sqrt(self.pi * self.scale1**2 + (1 - self.pi) * self.scale2**2)


@dataclass(frozen=True)
class Flat(Prior):
    """A constant density on all real numbers: improper, so it can be conditioned on data, but not drawn from."""

    def distribution(self, site: Site) -> dist.Distribution:
        """Log density 0 everywhere."""
        return dist.ImproperUniform(dist.constraints.real, (), ())

    def scale_of(self, site: Site) -> float:
        """The standard deviation of a flat prior, infinite."""
        return math.inf


def unconstrained_scale(distribution: dist.Distribution, draws: int = 20_000) -> Array:
    """The standard deviation of a distribution in unconstrained coordinates, one per value.

    On real numbers it is the distribution's own standard deviation. Elsewhere it is the standard deviation of the
    transformed variable, such as the logarithm of a positive one, over a fixed set of draws.
    """
    support = distribution.support
    while isinstance(support, dist.constraints.independent):
        support = support.base_constraint
    if support is dist.constraints.real:
        return jnp.broadcast_to(_deviation(distribution), distribution.shape())
    values = distribution.sample(jax.random.key(0), (draws,))
    return biject_to(distribution.support).inv(values).std(axis=0)


def _deviation(distribution: dist.Distribution) -> Array:
    """The standard deviation, or the scale parameter where the variance is infinite or not known; infinite if flat."""
    base = innermost(distribution)
    if isinstance(base, dist.ImproperUniform):
        return jnp.asarray(jnp.inf)
    try:
        deviation = jnp.sqrt(distribution.variance)
    except NotImplementedError:
        return jnp.asarray(base.scale)
    return jnp.where(jnp.isfinite(deviation), deviation, base.scale) if hasattr(base, "scale") else deviation
