"""How wide the prior is in each unconstrained coordinate: the units of a fixed trajectory length and of a mass."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpyro.distributions.transforms import biject_to

from inference.host.compiling import in_a_hurry
from inference.target.density import Data, Target, latent_sites
from models import Network
from models.distributions import proper

__all__ = ["prior_scales", "relative_scales"]

_DRAWS, _FEWEST = 2000, 100  # a scale that is 3 % off changes nothing, and one that is 15 % off not much
_NUMBERS = 2**25  # in all draws together: these fit into memory with room to spare
_BLOCK = 2**16  # coordinates whose quartiles are found at once
_NORMAL_QUARTILES = 1.349  # the distance of a standard normal's quartiles


def prior_scales(target: Target, data: Data) -> dict[str, np.ndarray]:
    """The prior standard deviation of each coordinate of a position; infinite where the prior is flat.

    A network knows its own prior scales. For any other model the sites are drawn from the prior, each given the others
    it depends on, and a normal with the same quartiles gives the standard deviation, which heavy tails don't upset.
    """
    if isinstance(target.model, Network):
        return jax.device_get(_network_scales(target.model, data.arrays[0][:1]))
    unknowns = sum(leaf.size for leaf in target.position(data).values())
    draws = int(np.clip(_NUMBERS // unknowns, _FEWEST, _DRAWS))
    scales = {}
    for name, (values, is_proper) in _prior_draws(target, draws, data, jax.random.key(0)).items():
        width = _width(np.asarray(values).reshape(draws, -1)).reshape(values.shape[1:])
        scales[name] = np.where(np.isfinite(width) & (width > 0) & np.all(is_proper), width, np.inf)
    return scales


def relative_scales(target: Target, data: Data, precision: str) -> tuple[dict[str, np.ndarray], float | None]:
    """Prior scales at the data's temperature, divided by their median, and the median.

    Where the prior is flat the scale is 1; if it is flat everywhere, the median is None.
    """
    wider = math.sqrt(float(data.temperature)) if target.tempering == "posterior" else 1.0
    scales = {name: wider * each for name, each in prior_scales(target, data).items()}
    finite = np.concatenate([each[np.isfinite(each)] for each in scales.values()])
    unit = float(np.median(finite)) if finite.size else None
    relative = {name: np.where(np.isfinite(each), each / (unit or 1.0), 1.0) for name, each in scales.items()}
    return {name: each.astype(precision) for name, each in relative.items()}, unit


@in_a_hurry(static_argnames=("model",))
def _network_scales(model: Network, x: jax.Array) -> dict[str, jax.Array]:
    return model.prior_scales(x)


def _width(draws: np.ndarray) -> np.ndarray:
    """For each column of `draws`, the standard deviation of a normal with the same quartiles."""
    blocks = np.array_split(draws, max(1, draws.shape[1] // _BLOCK), axis=1)
    quartiles = [np.quantile(block.astype(np.float64), [0.25, 0.75], axis=0) for block in blocks]
    low, high = np.concatenate(quartiles, axis=1)
    return (high - low) / _NORMAL_QUARTILES


@partial(jax.jit, static_argnames=("target", "draws"))
def _prior_draws(target: Target, draws: int, data: Data, key: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
    def one(key: jax.Array) -> dict[str, tuple[jax.Array, jax.Array]]:
        sites = latent_sites(target.trace(key, data, "prior"))
        return {
            name: (biject_to(site["fn"].support).inv(site["value"]), jnp.array(proper(site["fn"])))
            for name, site in sites.items()
        }

    return lax.map(one, jax.random.split(key, draws))
