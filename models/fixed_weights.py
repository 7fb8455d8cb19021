"""Networks of which a part is stochastic: the other weights are numbers, stored once, in the prior.

A network asks its prior for every weight. `PartlyFixed` answers with a number where a weight is fixed, and lets the
prior that it wraps sample the others. So whatever runs a network runs a part of it, and draws hold that part alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array

from models.networks import Network
from models.priors import Prior, Site

__all__ = ["PartlyFixed", "Weights", "chosen_sites", "partly_fixed"]


class Weights:
    """Arrays by site, hashable and comparable by their values.

    Args:
        arrays: the arrays by name.
    """

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = {name: _plain(arrays[name]) for name in sorted(arrays)}
        digest = hashlib.sha256()
        for name, array in self.arrays.items():
            digest.update(repr((name, array.dtype.str, array.shape)).encode() + array.tobytes())
        self._digest = digest.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weights) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        size = sum(array.size for array in self.arrays.values())
        return f"<weights {self._digest.hex()[:8]}: {size:,} numbers of {', '.join(self.arrays)}>"

    def to_json(self) -> dict[str, Any]:
        """The arrays as text."""
        return {
            name: [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]
            for name, array in self.arrays.items()
        }

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> Weights:
        """The arrays that `to_json` described.

        Raises:
            ValueError: if one of them is not an array of numbers of its shape.
        """
        arrays = {}
        try:
            for name, (kind, shape, text) in dict(described).items():
                if kind not in ("<f4", "<f8"):
                    raise ValueError(f"'{name}' is of the kind {kind}")
                array = np.frombuffer(base64.b64decode(text, validate=True), np.dtype(kind)).reshape(shape)
                if not np.isfinite(array).all():
                    raise ValueError(f"'{name}' is not finite")
                arrays[str(name)] = array
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"fixed weights can't be read: {error}") from error
        return cls(arrays)


@dataclass(frozen=True)
class PartlyFixed(Prior):
    """A prior under which some weights are numbers.

    Attributes:
        prior: the prior of all other weights.
        weights: the fixed ones by site.
    """

    prior: Prior
    weights: Weights

    def __post_init__(self) -> None:
        if not isinstance(self.prior, Prior) or not isinstance(self.weights, Weights):
            raise TypeError("PartlyFixed needs a prior and fixed weights")

    def samples(self, site: Site) -> bool:
        """Whether `site` is sampled."""
        return site.name not in self.weights.arrays and self.prior.samples(site)

    @property
    def shapes_outputs(self) -> bool:
        """Whether the prior of the other weights does."""
        return self.prior.shapes_outputs

    def sample(self, site: Site, shape: tuple[int, ...]) -> Array:
        """The fixed weights of a site, or a draw from the prior."""
        if site.name not in self.weights.arrays:
            return self.prior.sample(site, shape)
        fixed = self.weights.arrays[site.name]
        if fixed.shape != shape:
            raise ValueError(f"the fixed weights '{site.name}' have shape {fixed.shape}, and the network needs {shape}")
        return jnp.asarray(fixed, jnp.result_type(float))

    def distribution(self, site: Site) -> dist.Distribution:
        """The prior's own."""
        return self.prior.distribution(site)

    def scale_of(self, site: Site) -> float:
        """The prior's own."""
        return self.prior.scale_of(site)

    def for_layer(self, layer: str, label: str = "") -> Prior:
        """The same, with the prior of `layer`."""
        bound = self.prior.for_layer(layer, label)
        return self if bound is self.prior else PartlyFixed(bound, self.weights)

    def check(self, sites: tuple[Site, ...]) -> None:
        """Raise ValueError if the prior does not fit."""
        self.prior.check(sites)


def chosen_sites(stochastic: Any, sites: Iterable[Site]) -> set[str]:
    """The names of the sites that `stochastic` means: a site, a layer or a kind, or several of them.

    Raises:
        ValueError: for a name that means no site, or if there is none.
    """
    keys = [stochastic] if isinstance(stochastic, str) else list(stochastic)
    known = {part for site in sites for part in (site.name, site.layer, site.kind)}
    for key in keys:
        if key not in known:
            raise ValueError(f"stochastic names {key!r}, which this network does not have; it has {sorted(known)}")
    if not keys:
        raise ValueError("stochastic must name a layer, a kind or a site, got nothing")
    return {site.name for site in sites if {site.name, site.layer, site.kind} & set(keys)}


def partly_fixed(network: Network, x: np.ndarray, stochastic: Any, weights: Mapping[str, Any]) -> Network:
    """The network with all weights fixed but those that `stochastic` names.

    Args:
        network: the network.
        x: inputs as the network takes them.
        stochastic: a layer, a kind, a site, or several of these.
        weights: values of all sites that are to be fixed; others are left out.

    Raises:
        ValueError: if a weight is missing, or has another shape or a value that is not finite.
    """
    sites = network.sites(x)
    fixed = [site.name for site in sites if site.name not in chosen_sites(stochastic, sites)]
    shapes = network.shapes(x)
    for name in fixed:
        if name not in weights:
            raise ValueError(f"weights has no values of '{name}', which is not stochastic; it has {', '.join(weights)}")
        if np.shape(weights[name]) != shapes[name]:
            raise ValueError(f"weights has '{name}' with shape {np.shape(weights[name])}, it must be {shapes[name]}")
        if not np.isfinite(weights[name]).all():
            raise ValueError(f"weights has values of '{name}' that are not finite")
    if not fixed:
        return network
    return Network(
        network.architecture,
        PartlyFixed(network.prior, Weights({name: weights[name] for name in fixed})),
        network.likelihood,
    )


def _plain(array: Any) -> np.ndarray:
    """A copy, so that the user's own array can change, as floats that every machine reads."""
    array = np.asarray(array)
    return np.array(array, np.float64 if array.dtype == np.float64 else np.float32)
