r"""What a fitted guide says: the signal-to-noise ratio of each weight, pruning by it, and the one mean network.

Blundell et al. (2015, section 5.2) rank weights by |mu| / sigma under a Gaussian guide and set those with the lowest
ratio to 0: `prune(posterior, 0.75)` is a row of their table 2. `centre` is the network at the guide's mean; for
dropout, keep M, it is the one deterministic pass that ordinary dropout predicts with.

Reference: https://arxiv.org/abs/1505.05424.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers

from inference.host.compiling import tracing
from inference.results.posterior import Posterior
from inference.target.unstable import constrained
from models import Network

__all__ = ["centre", "prune", "signal_to_noise"]


def signal_to_noise(posterior: Posterior) -> dict[str, np.ndarray]:
    """|mu| / sigma of every weight, by site, 0 for one that is pruned; biases, of which there are few, are left out.

    Raises:
        ValueError: if the posterior is not a Gaussian guide of a network.
    """
    guide = posterior.guide
    made = [name for name in posterior.deterministic if name.endswith(".weight")]
    if made:
        raise ValueError(
            f"the signal-to-noise ratio is that of one normal per weight, and the weights '{made[0]}' are products of "
            "other sites, as under a hierarchical prior; use a prior with fixed scales, such as models.Normal(1.0)"
        )
    sites = [name for name in posterior.draws if name.endswith(".weight") and f"{name}.std" in guide]
    if not sites or any(guide[f"{name}.std"].shape != posterior.draws[name].shape[2:] for name in sites):
        raise ValueError(
            'the signal-to-noise ratio is that of one normal per weight: run method="svi" with guide="gaussian", '
            '"lowrank" or "fullrank" on a network'
        )
    return {name: _ratio(guide[f"{name}.mean"], guide[f"{name}.std"]) for name in sites}


def prune(posterior: Posterior, fraction: float) -> Posterior:
    """The posterior with a `fraction` of its weights, those with the lowest signal-to-noise ratio, set to 0.

    Args:
        posterior: a Gaussian guide of a network.
        fraction: the share of the weights of all layers together, at least 0 and at most 1.

    Returns:
        A posterior that predicts without those weights. Its draws have no log densities, as these were for all weights.
    """
    if isinstance(fraction, bool) or not isinstance(fraction, int | float | np.number) or not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be a number between 0 and 1, got {fraction!r}")
    ratios = signal_to_noise(posterior)
    every = np.concatenate([ratio.ravel() for ratio in ratios.values()])
    gone = np.zeros(every.size, bool)
    gone[np.argsort(every, kind="stable")[: round(fraction * every.size)]] = True
    ends = np.cumsum([ratio.size for ratio in ratios.values()])
    draws, guide = dict(posterior.draws), dict(posterior.guide)
    for (name, ratio), out in zip(ratios.items(), np.split(gone, ends[:-1]), strict=True):
        kept = ~out.reshape(ratio.shape)
        draws[name] = draws[name] * kept
        for part in ("mean", "std"):
            guide[f"{name}.{part}"] = guide[f"{name}.{part}"] * kept
    return replace(posterior, draws=draws, guide=guide, statistics={})


def centre(posterior: Posterior) -> Posterior:
    """The one network at the mean of a guide, as a posterior of one draw.

    Raises:
        ValueError: if the posterior is not a guide of a network, or the guide's mean is not known.
    """
    guide, model = posterior.guide, posterior.model
    latent = [name for name in posterior.draws if name not in posterior.deterministic]
    position = {}
    for name in latent:
        if f"{name}.matrix" in guide:
            position[name] = (1 - guide[f"{name}.rate"]) * guide[f"{name}.matrix"]
        for part in ("mean", "point"):
            if f"{name}.{part}" in guide:
                position[name] = guide[f"{name}.{part}"]
    if not isinstance(model, Network) or set(position) != set(latent) or "weights" in guide:
        raise ValueError('centre needs the mean of a guide of a network: guide="gaussian" or "dropout", for instance')
    with tracing(posterior.method.precision):
        position = {name: jnp.asarray(value, posterior.draws[name].dtype) for name, value in position.items()}
        started = handlers.seed(model, rng_seed=0)
        sites = jax.device_get(constrained(started, (posterior.probes,), position))
    draws = {name: np.asarray(sites[name])[None, None] for name in posterior.draws}
    return replace(posterior, draws=draws, statistics={})


def _ratio(mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    return np.divide(np.abs(mean), std, out=np.zeros_like(mean), where=std > 0)
