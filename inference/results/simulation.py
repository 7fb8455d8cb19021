"""A model run once per draw, with its latent sites at the draw's values: what it says about new arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from numpyro import handlers
from numpyro.distributions import Unit

from inference.target.arguments import Arguments, fingerprint, settle
from inference.target.plates import Rows

__all__ = ["simulated"]


def simulated(
    model: Callable[..., Any], args: tuple[Any, ...], latent: dict[str, np.ndarray], key: jax.Array
) -> dict[str, np.ndarray]:
    """The observed and deterministic sites, (chain, draw, ...), given the latent ones, (chain, draw, ...)."""
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in latent.items()}
    arguments, arrays, identity = settle(
        args, lambda split, arrays: fingerprint(partial(_simulate, model, split), arrays, flat, key)
    )
    sites = _compiled_simulate(model, identity, arguments, arrays, flat, key)
    shape = next(iter(latent.values())).shape[:2]
    return {name: np.asarray(values).reshape(*shape, *values.shape[1:]) for name, values in sites.items()}


def _simulate(
    model: Callable[..., Any],
    arguments: Arguments,
    arrays: tuple[jax.Array, ...],
    draws: dict[str, jax.Array],
    key: jax.Array,
) -> dict[str, jax.Array]:
    """Run the model once per draw with its latent sites fixed; returns the sites that it computes or samples then."""

    def one(argument: tuple[dict[str, jax.Array], jax.Array]) -> dict[str, jax.Array]:
        draw, key = argument
        fixed = handlers.substitute(handlers.seed(model, key), substitute_fn=partial(_drawn, draw))
        with Rows():
            trace = handlers.trace(fixed).get_trace(*arguments.fill(arrays))
        return {
            name: site["value"]
            for name, site in trace.items()
            if site["type"] == "deterministic" or (site["type"] == "sample" and name not in draw and not _factor(site))
        }

    count = len(next(iter(draws.values())))
    return lax.map(one, (draws, jax.random.split(key, count)))


def _drawn(draw: dict[str, jax.Array], site: dict[str, Any]) -> jax.Array | None:
    """The value of a site that is in `draw`, None for any other site.

    Raises:
        ValueError: if the site has another shape than its draw, as where the arguments are of other groups.
    """
    name = site["name"]
    if site["type"] != "sample" or name not in draw:
        return None
    expected = site["fn"].shape(site["kwargs"]["sample_shape"])
    if draw[name].shape != expected:
        raise ValueError(
            f"predict: the site '{name}' was drawn with shape {draw[name].shape}, and with these arguments the model "
            f"samples it with shape {expected}: its values belong to the groups or rows that it was fitted to. To "
            f"predict some of these, let the model take an index and use {name}[index]; to predict new ones, let it "
            "sample them under a name of their own, which predict then draws from their prior"
        )
    return draw[name]


def _factor(site: dict[str, Any]) -> bool:
    """Whether a site is a term of the density and observes nothing."""
    return isinstance(site["fn"], Unit)


@partial(jax.jit, static_argnames=("model", "identity", "arguments"))
def _compiled_simulate(
    model: Callable[..., Any], identity: str, arguments: Arguments, *rest: Any
) -> dict[str, jax.Array]:
    """`_simulate`, compiled; `identity` is a fingerprint of it, so that a model which has changed is compiled again."""
    return _simulate(model, arguments, *rest)
