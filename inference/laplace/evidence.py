r"""The evidence framework: the scale of the prior and of the noise, chosen by the marginal likelihood.

Around the mode w* of a network with precision matrix P = G + c / s_prior^2, where G is the curvature of the
log-likelihood and c one factor of all prior precisions, Laplace's approximation of the evidence is

    log p(y | c, s) = log p(y | w*, s) + log p(w* | c) + D/2 log(2 pi) - 1/2 log det P

Let g = tr(G P^-1) = D - c tr(s_prior^-2 P^-1), the number of weights that the data determine. Setting the derivative in
c to 0 gives MacKay's update

    c <- g / |w* / s_prior|^2

As G_k, the part of G that output k gives, falls as 1 / s_k^2 with its noise, the derivative of -1/2 log det P in log
s_k is g_k = tr(G_k P^-1): the evidence adds g_k log s_k to the log density, which keeps a network that meets its
targets from taking the noise to 0. Of n rows, n - g_k count, in the curvature of log s_k too: 2 (n - g_k), not 2 n.

On a linear model a fixed point of these updates is a maximum of the evidence. On a network G and w* depend on c and s
while the updates hold them, so a fixed point is only near a maximum; `inference.laplace.mode` continues from there by
the evidence itself.

References: MacKay 1992, 10.1162/neco.1992.4.3.448; Immer et al. 2021, https://arxiv.org/abs/2104.04975.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from numpyro.distributions import Normal
from numpyro.distributions.transforms import biject_to

from inference.laplace.gauss_newton import determined
from inference.target.density import Data, Position, Target, latent_sites
from models import Network
from models.distributions import single

__all__ = ["Scaled", "Scales", "has_scales", "scaled_by_evidence"]


class Scaled(NamedTuple):
    """The parts of a network whose scale the evidence chooses.

    Attributes:
        prior: the standard deviations of the weights' priors as given, by site.
        noise: the map from the coordinate of inferred noise to its scale; None where no noise is inferred.
    """

    prior: dict[str, float]
    noise: Any


class Scales(NamedTuple):
    """The scales that the evidence chooses.

    Attributes:
        log_factor: log c.
        determined: g; one per output where each output has its own inferred noise.
    """

    log_factor: jax.Array
    determined: jax.Array

    @classmethod
    def as_given(cls, position: Position) -> Scales:
        """The scales before any update: c = 1, and no weights counted as determined."""
        noise = position.get("noise", jnp.zeros((), next(iter(position.values())).dtype))
        return cls(jnp.zeros((), noise.dtype), jnp.zeros_like(noise))

    def updated(
        self, target: Target, data: Data, position: Position, rest: Position, scaled: Scaled, precision: jax.Array
    ) -> Scales:
        """MacKay's update, by `precision`, P or its diagonal over the coordinates of `position`, with `rest` held."""
        prior = scaled.prior
        weights, _ = ravel_pytree({name: jnp.full(value.shape, name in prior) for name, value in position.items()})
        with jax.enable_x64(True):
            inverse = 1 / precision if precision.ndim == 1 else jnp.linalg.inv(precision)
            covariance = jnp.where(weights if precision.ndim == 1 else weights[:, None] & weights, inverse, 0.0)
        by_residual = determined(target, data, position, rest, covariance)
        # A row's residuals are one per output for its mean, then one per output for its noise, which has no weights.
        by_output = by_residual.reshape(-1, self.determined.size).astype(self.determined.dtype)
        found = jnp.sum(by_output, axis=0).reshape(self.determined.shape)
        squares = sum(jnp.sum(jnp.square(position[name] / scale)) for name, scale in prior.items())
        return Scales(jnp.log(jnp.sum(found)) - jnp.log(squares), found)

    def change(self, position: Position, scaled: Scaled | None, noise: bool) -> jax.Array:
        """What the evidence adds to the log density at `position`, with the term of the noise if `noise`.

        This is the log prior with the factor minus the log prior without, n/2 log c - (c - 1) |w / s_prior|^2 / 2 over
        the n weights, and for the noise the sum of g_k log s_k.
        """
        if scaled is None:
            return jnp.zeros(())
        log_factor, count = lax.stop_gradient((self.log_factor, self.determined))
        change = jnp.zeros_like(log_factor)
        for name, scale in scaled.prior.items():
            square = jnp.sum(jnp.square(position[name] / scale))
            change += 0.5 * position[name].size * log_factor - 0.5 * jnp.expm1(log_factor) * square
        if noise and scaled.noise is not None:
            change += jnp.sum(count * jnp.log(scaled.noise(position["noise"])))
        return change

    def counted(self, position: Position, rows: int) -> jax.Array:
        """The share of the rows that count for each coordinate of `position`: 1 - g_k / n for the noise, else 1."""
        shares = {name: jnp.ones_like(value) for name, value in position.items()}
        if "noise" in position:
            shares["noise"] = 1 - self.determined / rows
        return ravel_pytree(shares)[0]


def has_scales(target: Target, data: Data) -> bool:
    """Whether `target` is a network with inferred noise whose weights all have normal priors around 0."""
    if not isinstance(target.model, Network) or "noise" not in target.position(data):
        return False
    trace = latent_sites(target.trace(jax.random.key(0), data, "random"))
    priors = [trace[site.name]["fn"] if site.name in trace else None for site in target.model.sites(data.arrays[0])]
    return all(_is_normal(prior) for prior in priors)


def _is_normal(prior: Any) -> bool:
    """Whether a prior is normal around 0."""
    one: Any = None if prior is None else single(prior)
    return isinstance(one, Normal) and float(one.loc) == 0


def scaled_by_evidence(target: Target, data: Data, position: Position) -> Scaled:
    """The parts of the sites in `position` whose scale the evidence chooses.

    Raises:
        ValueError: if the model is not a network, or the prior of a weight in `position` is not normal around 0.
    """
    if not isinstance(target.model, Network):
        raise ValueError('laplace: hyperparameters="evidence" needs a network of models, whose weights are known')
    trace = latent_sites(target.trace(jax.random.key(0), data, "random"))
    prior = {}
    for site in target.model.sites(data.arrays[0]):
        if not any(name.startswith(f"{site.layer}.") for name in position):
            continue
        fn = trace[site.name]["fn"] if site.name in trace else None
        if not _is_normal(fn):
            raise ValueError(
                'laplace: hyperparameters="evidence" scales normal priors around 0, and that of '
                f"'{site.name}' is not one; use prior=models.Normal(...) in the network"
            )
        one: Any = single(fn)
        prior[site.name] = float(one.scale)
    return Scaled(prior, biject_to(trace["noise"]["fn"].support) if "noise" in trace else None)
