"""What a model is made of, as rows of a table: its sites with their shapes, numbers and priors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpyro.distributions as dist
from numpyro import handlers

from inference import Posterior
from models import Network

__all__ = ["Layer", "layers"]


class Layer(NamedTuple):
    """One latent site.

    Attributes:
        name: of the site.
        shape: such as "10 x 50", or "scalar".
        size: how many numbers.
        prior: such as "Normal(0, 0.316)"; empty for a model that is no network, which can't be run without its data.
    """

    name: str
    shape: str
    size: int
    prior: str


def layers(posterior: Posterior) -> tuple[Layer, ...]:
    """The latent sites of a posterior, in the order in which the model draws them."""
    latent = {name: values for name, values in posterior.draws.items() if name not in posterior.deterministic}
    first, last = (_priors(posterior, latent, place) for place in (0, -1))
    names = [*(name for name in first if name in latent), *(name for name in latent if name not in first)]
    return tuple(
        Layer(
            name,
            " x ".join(map(str, latent[name].shape[2:])) or "scalar",
            int(latent[name][0, 0].size),
            _spelled(first[name], last[name]) if name in first else "",
        )
        for name in names
    )


def _priors(posterior: Posterior, latent: dict[str, np.ndarray], place: int) -> dict[str, Any]:
    """The distribution of each site, given the values that one draw has."""
    if not isinstance(posterior.model, Network):
        return {}
    draw = {name: values[0, place] for name, values in latent.items()}
    started = handlers.seed(handlers.substitute(posterior.model, data=draw), rng_seed=0)
    trace = handlers.trace(started).get_trace(posterior.probes[:1])
    return {name: site["fn"] for name, site in trace.items() if site["type"] == "sample" and name != "y"}


def _spelled(first: Any, last: Any) -> str:
    """A distribution with its numbers; those that differ from draw to draw are sites themselves."""
    while isinstance(first, dist.Independent | dist.ExpandedDistribution | dist.MaskedDistribution):
        first, last = first.base_dist, last.base_dist
    numbers = [
        _number(getattr(first, name), getattr(last, name)) for name in first.arg_constraints if hasattr(first, name)
    ]
    return f"{type(first).__name__}({', '.join(numbers)})"


def _number(first: Any, last: Any) -> str:
    values, others = np.asarray(first), np.asarray(last)
    if values.shape != others.shape or not np.array_equal(values, others):
        return "inferred"
    low, high = values.min(), values.max()
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
