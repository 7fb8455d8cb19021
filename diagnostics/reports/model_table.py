"""What a model is made of, as rows of a table: its sites with their shapes, numbers and priors."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import handlers

from inference import Posterior
from models import Network, PartlyFixed

__all__ = ["Layer", "layers"]


class Layer(NamedTuple):
    """One latent site.

    Attributes:
        name: the site's name.
        shape: its shape in words, such as "10 x 50", or "scalar".
        size: how many numbers it holds.
        prior: its prior in words, such as "Normal(0, 0.316)", or "fixed"; empty for a model that is not a network,
            which can't be run without its data.
    """

    name: str
    shape: str
    size: int
    prior: str


def layers(posterior: Posterior) -> tuple[Layer, ...]:
    """The latent sites of a posterior, in the order in which the model draws them; then weights that are fixed."""
    latent = {name: values for name, values in posterior.draws.items() if name not in posterior.deterministic}
    priors = _priors(posterior, latent)
    names = [*(name for name in priors if name in latent), *(name for name in latent if name not in priors)]
    prior = getattr(posterior.model, "prior", None)
    fixed = prior.weights.arrays if isinstance(prior, PartlyFixed) else {}
    return (
        *(_layer(name, latent[name][0, 0], _spelled(priors[name]) if name in priors else "") for name in names),
        *(_layer(name, value, "fixed") for name, value in fixed.items()),
    )


def _layer(name: str, value: np.ndarray, prior: str) -> Layer:
    return Layer(name, " x ".join(map(str, value.shape)) or "scalar", int(value.size), prior)


def _priors(posterior: Posterior, latent: dict[str, np.ndarray]) -> dict[str, Any]:
    """The distribution of each site of a network; the first draw stands in, because a flat prior can't be sampled."""
    if not isinstance(posterior.model, Network):
        return {}
    draw = {name: jnp.asarray(values[0, 0]) for name, values in latent.items()}
    started = handlers.seed(handlers.substitute(posterior.model, data=draw), rng_seed=0)
    trace = handlers.trace(started).get_trace(posterior.probes[:1])
    return {name: site["fn"] for name, site in trace.items() if site["type"] == "sample" and name != "y"}


def _spelled(distribution: Any) -> str:
    """A distribution with its numbers, such as "Normal(0, 0.316)"."""
    while isinstance(distribution, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        distribution = distribution.base_dist
    numbers = [
        _number(getattr(distribution, name)) for name in distribution.arg_constraints if hasattr(distribution, name)
    ]
    return f"{type(distribution).__name__}({', '.join(numbers)})"


def _number(value: Any) -> str:
    low, high = np.min(value), np.max(value)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
