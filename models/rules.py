"""Priors by layer and by kind, and the prior that a user meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array

from models.priors import Normal, Prior, Site, Univariate

__all__ = ["Rules", "as_prior", "positive_prior"]


@dataclass(frozen=True)
class Rules(Prior):
    """A prior for each part of a network.

    Made from a mapping wherever a prior is expected: `prior={"default": 1.0, "output": models.Normal(0.1), "bias":
    models.Normal(10.0)}`. A key is a site ("hidden0.weight"), a layer ("hidden0"), a kind ("weight", "bias") or
    "default"; a site gets the prior of the first of these keys, in this order, that is present. A plain number s means
    `Normal(s)`.

    Attributes:
        rules: the keys with their priors.
    """

    rules: tuple[tuple[str, Prior], ...]

    @property
    def shapes_outputs(self) -> bool:
        """Whether one of the priors does."""
        return any(prior.shapes_outputs for _, prior in self.rules)

    def _of(self, site: Site) -> Prior:
        priors = dict(self.rules)
        for key in (site.name, site.layer, site.kind, "default"):
            if key in priors:
                return priors[key]
        raise ValueError(f"prior has no rule for the site '{site.name}'; add one, or a 'default'")

    def distribution(self, site: Site) -> dist.Distribution:
        """The distribution of a weight by the rule for `site`."""
        return self._of(site).distribution(site)

    def scale_of(self, site: Site) -> float:
        """The prior standard deviation of a weight by the rule for `site`."""
        return self._of(site).scale_of(site)

    def sample(self, site: Site, shape: tuple[int, ...]) -> Array:
        """Draw the weights of a site by the rule for `site`."""
        return self._of(site).sample(site, shape)

    def for_layer(self, layer: str, label: str = "") -> Rules:
        """The rules with every prior bound to `layer`; equal priors share one, different ones are labelled by rule."""
        of_layers = [(key, prior) for key, prior in self.rules if prior.for_layer(layer) is not prior]
        several = len({prior for _, prior in of_layers}) > 1
        bound: dict[Prior, Prior] = {}
        for key, prior in of_layers:
            own = key.removeprefix(f"{layer}.") if several else ""
            bound.setdefault(prior, prior.for_layer(layer, own))
        ours = {key: bound[prior] for key, prior in of_layers}
        return Rules(tuple((key, ours.get(key, prior)) for key, prior in self.rules))

    def check(self, sites: tuple[Site, ...]) -> None:
        """Raise ValueError unless every rule applies to a site, every site has a rule, and rules fit their sites."""
        parts = {part for site in sites for part in (site.name, site.layer, site.kind)} | {"default"}
        for key, _ in self.rules:
            if key not in parts:
                raise ValueError(
                    f"prior has a rule for '{key}', which this network does not have; it has {', '.join(sorted(parts))}"
                )
        for site in sites:
            self._of(site).check((site,))


def positive_prior(name: str, value: Any) -> Univariate:
    """The prior that a user meant for a scale: a univariate distribution on positive numbers, or on a part of them."""
    prior = as_prior(value)
    if isinstance(prior, Univariate):
        support = prior.support
        if isinstance(support, property) or not hasattr(support, "lower_bound"):
            support = prior.instance().support  # depends on the parameters
        if float(getattr(support, "lower_bound", -1.0)) >= 0:
            return prior
    raise ValueError(f"{name} must be a distribution on positive numbers, got {value!r}")


def as_prior(value: Any) -> Prior:
    """The prior that a user meant: a prior, a NumPyro distribution, a number (Normal of that scale) or a mapping."""
    if isinstance(value, Prior):
        return value
    if isinstance(value, dist.Distribution):
        return Univariate.of(value)
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return Normal(float(value))
    if isinstance(value, Mapping):
        return Rules(
            tuple(sorted(((key, as_prior(rule)) for key, rule in _flat(value).items()), key=lambda rule: rule[0]))
        )
    raise TypeError(
        "prior must be a models.Normal or another prior, a univariate NumPyro distribution, a scale, or a mapping "
        f"from layers and kinds to those, got {type(value).__name__}"
    )


def _flat(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Nested rules, {"hidden0": {"weight": ...}}, flattened to one key each, "hidden0.weight"."""
    flat = {}
    for key, rule in rules.items():
        if isinstance(rule, Mapping):
            flat.update({key if part == "default" else f"{key}.{part}": inner for part, inner in _flat(rule).items()})
        else:
            flat[str(key)] = rule
    return flat
