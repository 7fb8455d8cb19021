"""How wide the prior is in each unconstrained coordinate: what a fixed trajectory length and a mass are measured in."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpyro.distributions.transforms import biject_to

from inference.target import Data, Target, latent_sites, proper
from models import Network

__all__ = ["prior_scales"]

_DRAWS = 2000  # a scale that is 3 % off changes nothing
_NORMAL_QUARTILES = 1.349  # the distance of a standard normal's quartiles


def prior_scales(target: Target, data: Data) -> dict[str, np.ndarray]:
    """The prior standard deviation of each coordinate of a position; infinite where the prior is flat.

    A network knows its own. For any other model the sites are drawn from the prior, each given the others it depends
    on, and the standard deviation is that of a normal with the same quartiles, which heavy tails don't upset.
    """
    if isinstance(target.model, Network):
        return target.model.prior_scales(np.asarray(data.arrays[0][:1]))
    draws = jax.device_get(_prior_draws(target, data, jax.random.key(0)))
    scales = {}
    for name, (values, is_proper) in draws.items():
        low, high = np.quantile(np.asarray(values, np.float64), [0.25, 0.75], axis=0)
        width = (high - low) / _NORMAL_QUARTILES
        scales[name] = np.where(np.isfinite(width) & (width > 0) & is_proper.all(), width, np.inf)
    return scales


@partial(jax.jit, static_argnames=("target",))
def _prior_draws(target: Target, data: Data, key: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
    def one(key: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
        sites = latent_sites(target.trace(key, data, "prior"))
        return {
            name: (biject_to(site["fn"].support).inv(site["value"]), jnp.array(proper(site)))
            for name, site in sites.items()
        }

    return lax.map(one, jax.random.split(key, _DRAWS))
