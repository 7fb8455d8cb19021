"""Starts that a user has: weights as arrays, the draws of another run, or a trained flax or equinox module.

All of them become the values of a model's sites, for every chain: `sites_of` says which. The sites that are not given
start at random, as they would otherwise; the noise beside the weights of a network at the median of its prior.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from data.rows import spaced
from inference.methods import Method
from inference.results.posterior import Posterior
from inference.target.density import Data, Target, latent_sites
from models import Network, PartlyFixed, module_weights

__all__ = ["is_given", "same_members", "sites_of"]

Sites = dict[str, np.ndarray]


def is_given(start: Any) -> bool:
    """Whether `start` is weights rather than the name of a way to find them."""
    return start is not None and not isinstance(start, str)


def sites_of(start: Any, target: Target, data: Data, chains: int) -> Sites:
    """The values of sites in every chain, (chain, *site).

    Args:
        start: a mapping from sites to arrays, each shaped like the site, or with one of these for every chain; a
            posterior, of which each chain takes a draw; or a module, if the model was lifted from one like it.
        target: the log density to start on.
        data: its data.
        chains: the number of chains.

    Raises:
        TypeError: if it is none of these.
        ValueError: if it has no site of the model, another shape than a site, or a value that is not finite.
    """
    shapes = {name: site["fn"].shape() for name, site in _latent(target, data).items()}
    values = _by_name(start, target.model, chains)
    found = {name: value for name, value in values.items() if name in shapes}
    prior = getattr(target.model, "prior", None)
    fixed = prior.weights.arrays if isinstance(prior, PartlyFixed) else {}
    unknown = [name for name in values if name not in shapes and name not in fixed]
    if unknown and not isinstance(start, Posterior):  # which may be of a larger model, with what follows from others
        raise ValueError(f"start has '{unknown[0]}', which is no latent site of the model; it has {', '.join(shapes)}")
    if not found:
        raise ValueError(f"start has none of the model's sites {', '.join(shapes)}; it has {', '.join(values)}")
    return {name: _of_chains(name, value, shapes[name], chains) for name, value in found.items()}


def same_members(method: Method, given: Sites, sites: Iterable[str]) -> tuple[str, ...]:
    """A note if all members of an ensemble, or all restarts, start at one place and see the same rows at each step.

    `sites` are the latent ones; those that are not given start at random, but for the noise.
    """
    if set(sites) - set(given) - {"noise"}:
        return ()
    if method.kind != "point" or getattr(method, "batch_size", None) or getattr(method, "bootstrap", False):
        return ()
    if any(len(values) == 1 or (values != values[:1]).any() for values in given.values()):
        return ()
    return (
        f"{method.name}: all members start at the same weights and see all rows, so they will be the same; give each "
        "its own weights, or use batch_size",
    )


def _latent(target: Target, data: Data) -> dict[str, Any]:
    """The latent sites of a model; nothing is computed."""
    sites: dict[str, Any] = {}
    jax.eval_shape(lambda data: sites.update(latent_sites(target.trace(jax.random.key(0), data, "random"))), data)
    return sites


def _by_name(start: Any, model: Any, chains: int) -> Sites:
    if isinstance(start, Mapping):
        return {str(name): np.asarray(value) for name, value in start.items()}
    if isinstance(start, Posterior):
        return _draws(start, chains)
    if isinstance(model, Network):
        weights = module_weights(model.architecture, start)
        if weights is not None:
            return weights
    raise TypeError(
        "start must be a mapping from sites to arrays, a Posterior, or a module like the one that the model was lifted "
        f"from, got {type(start).__name__}"
    )


def _draws(posterior: Posterior, chains: int) -> Sites:
    """The last draw of each chain if there are enough chains; else draws spread over all, or taken more than once."""
    if not posterior.complete:
        raise ValueError("start is a posterior that has not kept all sites of its draws, so no chain can start there")
    there, draws = posterior.shape
    if there >= chains:
        return {name: values[:chains, -1] for name, values in posterior.draws.items()}
    chosen = spaced(there * draws, chains) if there * draws >= chains else np.arange(chains) % (there * draws)
    return {name: values.reshape(there * draws, *values.shape[2:])[chosen] for name, values in posterior.draws.items()}


def _of_chains(name: str, value: np.ndarray, shape: tuple[int, ...], chains: int) -> np.ndarray:
    if not np.isfinite(value).all():
        raise ValueError(f"start has values of '{name}' that are not finite")
    if value.shape == (chains, *shape):
        return value
    if value.shape == shape:
        return np.broadcast_to(value, (chains, *shape))
    raise ValueError(
        f"start has '{name}' with shape {value.shape}, and the site has {shape}, or ({chains}, ...) by chain"
    )
