r"""Networks whose layers stay in float32 where all around them is in float64.

A TPU has no float64: its compiler makes pairs of float32 of it, which is fine for sums, and slow or not to be had for
products and convolutions. An energy does not need those. With the outputs f_i of a network in float32, rounded by d_i,
and everything after them in float64 (the residuals, the terms of the likelihood and of the prior, all sums), the energy
is off by

    sum_i d_i d/df log p(y_i | f_i)

a sum of small numbers with random signs. Where terms are rounded to float32 themselves, the largest ones decide, and no
care in summing them helps: `python -m benchmarks.energies` compares these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from models.layers import Batch
from models.networks import Architecture, Network
from models.priors import Prior, Site

__all__ = ["with_float32_layers"]


def with_float32_layers(model: Callable[..., Any]) -> Callable[..., Any]:
    """A network with layers in float32, whatever the precision of its weights; any other model as it is."""
    return replace(model, architecture=_Float32(model.architecture)) if isinstance(model, Network) else model


@dataclass(frozen=True)
class _Float32:
    """An architecture that computes in float32 from inputs and weights in float64, and gives outputs in float64."""

    architecture: Architecture

    def __call__(self, x: Batch, outputs: int, prior: Prior) -> Array:
        """The last layer's outputs."""
        with jax.enable_x64(False):
            heads = self.architecture(_rounded(x), outputs, _Rounded(prior))
        with jax.enable_x64(True):
            return heads.astype(jnp.float64)

    def prepared(self, x: np.ndarray, precision: str) -> np.ndarray:
        """The architecture's own."""
        return self.architecture.prepared(x, precision)

    def rows_at_once(self, x: np.ndarray) -> int | None:
        """The architecture's own."""
        return self.architecture.rows_at_once(x)


class _Rounded(Prior):
    """A prior in float64 whose weights are given to the layers in float32."""

    def __init__(self, prior: Prior) -> None:
        self._prior = prior

    def sample(self, site: Site, shape: tuple[int, ...]) -> Array:
        """The weights of a site, rounded."""
        with jax.enable_x64(True):
            return _rounded(self._prior.sample(site, shape))

    def sample_unknowns(self, count: int) -> Array:
        """Missing inputs, rounded."""
        with jax.enable_x64(True):
            return _rounded(self._prior.sample_unknowns(count))

    def samples(self, site: Site) -> bool:
        """The prior's own."""
        return self._prior.samples(site)

    def for_layer(self, layer: str, label: str = "") -> Prior:
        """The same, with the prior of `layer`."""
        return _Rounded(self._prior.for_layer(layer, label))


def _rounded(x: Any) -> Any:
    return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x
