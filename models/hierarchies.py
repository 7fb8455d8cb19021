r"""Priors whose scale is inferred too.

Each layer has one scale s with a prior of its own, and its weights and biases are normal with that scale, non-centred:

    s ~ p(s),   z ~ N(0, 1),   w = s z        (weights divided by sqrt(fan_in) on request)

The sites of a layer are "<layer>.scale" (s; "<layer>.<rule>.scale" where rules give a layer several) and
"<layer>.<kind>.standard" (z); "<layer>.<kind>" holds the weights w themselves, as a deterministic site. Non-centred,
because a small s and the weights it allows are far less entangled in (s, z) than in (s, w): the funnel that stops
samplers is gone where data say little.

Reference: Neal 1996; Betancourt & Girolami 2013, https://arxiv.org/abs/1312.0906.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array

from models.priors import Prior, Site, Univariate
from models.rules import positive_prior

__all__ = ["Hierarchical"]


@dataclass(frozen=True)
class Hierarchical(Prior):
    """Normal weights with a scale per layer that is inferred.

    Attributes:
        scale: the prior of each layer's scale, a univariate distribution on positive numbers.
        fan_in: divide the standard deviation of weights, not of biases, by the square root of their layer's inputs.
    """

    scale: Any = Univariate("HalfNormal", (("scale", 1.0),))
    fan_in: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive_prior("Hierarchical: scale", self.scale))
        if not isinstance(self.fan_in, bool):
            raise TypeError(f"Hierarchical: fan_in must be True or False, got {self.fan_in!r}")

    def unit(self, site: Site) -> float:
        """The standard deviation of a weight where the layer's scale is 1."""
        return 1 / math.sqrt(site.fan_in) if self.fan_in and site.kind == "weight" else 1.0

    def scale_of(self, site: Site) -> float:
        """The root mean square of the weights; where it is infinite, their scale at the median of p(s)."""
        distribution = getattr(dist, self.scale.family)(**{k: np.float32(v) for k, v in self.scale.parameters})
        with np.errstate(divide="ignore", invalid="ignore"):
            square = float(distribution.variance) + float(distribution.mean) ** 2
        if not (math.isfinite(square) and square > 0):  # no second moment: the median of a fixed set of draws
            return float(np.median(distribution.sample(jax.random.key(0), (10_001,)))) * self.unit(site)
        return math.sqrt(square) * self.unit(site)

    def for_layer(self, layer: str, label: str = "") -> Prior:
        """The prior of one layer, which samples its scale when the first site needs it."""
        return _LayerPrior(self, f"{layer}.{label}.scale" if label else f"{layer}.scale")

    def sample(self, site: Site, shape: tuple[int, ...]) -> Array:
        """Raise TypeError: the scale belongs to a layer, so `for_layer` has to be called first."""
        raise TypeError("a hierarchical prior is sampled by layer: call prior.for_layer(layer).sample(...)")


@dataclass(eq=False)
class _LayerPrior(Prior):
    """A hierarchical prior while one layer samples its sites."""

    prior: Hierarchical
    name: str
    drawn: list[Array] = field(default_factory=list)

    def sample(self, site: Site, shape: tuple[int, ...]) -> Array:
        """w = s z, with s sampled once per layer."""
        if not self.drawn:
            # The scale starts near 1, so that the weights start where they would under any other prior.
            scale = numpyro.sample(self.name, self.prior.scale.instance(), infer={"start_scale": 0.1})
            self.drawn.append(scale)
        standard = numpyro.sample(
            f"{site.name}.standard",
            dist.Normal(0.0, 1.0).expand(shape).to_event(len(shape)),
            infer={
                "start_scale": 1 / math.sqrt(site.fan_in) / self.prior.unit(site),
                "start_mean": site.start / self.prior.unit(site),
            },
        )
        return numpyro.deterministic(site.name, self.drawn[0] * self.prior.unit(site) * standard)
