r"""The evidence framework: the scale of the prior and of the noise, chosen by the marginal likelihood.

Around the mode w* of a network with precision matrix P = G + c / s_prior^2, where G is the curvature of the
log-likelihood and c one factor of all prior precisions, Laplace's approximation of the evidence is

    log p(y | c, s) = log p(y | w*, s) + log p(w* | c) + D/2 log(2 pi) - 1/2 log det P

Let g = D - c tr(s_prior^-2 P^-1), the number of weights that the data determine. Setting the derivative in c to 0 gives
MacKay's update

    c <- g / |w* / s_prior|^2

As G falls as 1 / s^2, the derivative of -1/2 log det P in log s is g: the evidence adds g log s to the log density,
which keeps a network that meets its targets from taking the noise to 0. Of n rows, n - g count.

References: MacKay 1992, 10.1162/neco.1992.4.3.448; Immer et al. 2021, https://arxiv.org/abs/2104.04975.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from numpyro.distributions import Normal

from inference.expectations import single
from inference.target import Data, Position, Target, latent_sites
from models import Network

__all__ = ["Scales", "prior_scales_of"]


class Scales(NamedTuple):
    """What the evidence says.

    Attributes:
        log_factor: log c.
        determined: g.
    """

    log_factor: jax.Array
    determined: jax.Array

    @classmethod
    def as_given(cls, precision: Any) -> Scales:
        """Before anything is known."""
        return cls(jnp.zeros((), precision), jnp.zeros((), precision))

    def updated(self, position: Position, prior: dict[str, float], precision: jax.Array) -> Scales:
        """MacKay's update, given P or its diagonal over the coordinates of a position."""
        weights = {
            name: jnp.full(value.shape, prior[name] ** -2 if name in prior else 0.0, value.dtype)
            for name, value in position.items()
        }
        inverse_variances, _ = ravel_pytree(weights)
        with jax.enable_x64(True):
            variances = 1 / precision if precision.ndim == 1 else jnp.diagonal(jnp.linalg.inv(precision))
            share = jnp.exp(self.log_factor) * jnp.sum(inverse_variances.astype(jnp.float64) * variances)
            determined = (jnp.sum(inverse_variances > 0) - share).astype(self.determined.dtype)
        squares = sum(jnp.sum(jnp.square(position[name] / scale)) for name, scale in prior.items())
        return Scales(jnp.log(determined) - jnp.log(squares), determined)

    def prior_change(self, position: Position, prior: dict[str, float]) -> jax.Array:
        """The log prior with the factor minus that without: n/2 log c - (c - 1) |w / s_prior|^2 / 2."""
        log_factor = lax.stop_gradient(self.log_factor)
        change = jnp.zeros_like(log_factor)
        for name, scale in prior.items():
            square = jnp.sum(jnp.square(position[name] / scale))
            change += 0.5 * position[name].size * log_factor - 0.5 * jnp.expm1(log_factor) * square
        return change

    def noise_change(self, position: Position) -> jax.Array:
        """g log s, dealt out evenly where there is one s per output; the coordinate of a positive site is log s."""
        if "noise" not in position:
            return jnp.zeros_like(self.determined)
        return lax.stop_gradient(self.determined) * jnp.mean(position["noise"])


def prior_scales_of(target: Target, data: Data, position: Position) -> dict[str, float]:
    """The prior standard deviation of the weights of a network, by site, of those in a position.

    Raises:
        ValueError: if the model is no network, or the prior of a weight is not normal around 0.
    """
    if not isinstance(target.model, Network):
        raise ValueError('laplace: hyperparameters="evidence" needs a network of models, whose weights are known')
    trace = latent_sites(target.trace(jax.random.key(0), data, "random"))
    scales = {}
    for site in target.model.sites(data.arrays[0]):
        one: Any = single(trace[site.name]["fn"]) if site.name in trace else None
        if not isinstance(one, Normal) or float(one.loc) != 0:
            raise ValueError(
                'laplace: hyperparameters="evidence" scales normal priors around 0, and that of '
                f"'{site.name}' is none; use prior=models.Normal(...) in the network"
            )
        if site.name in position:
            scales[site.name] = float(one.scale)
    return scales
