"""Binding a model to its data: every check that can be made before anything compiles, then a `Target`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpyro import handlers
from numpyro.distributions import MaskedDistribution
from numpyro.infer.initialization import init_to_uniform
from numpyro.infer.util import compute_log_probs

from data import Split
from inference.target import Arguments, Data, Target, latent_sites
from models import Network
from models.validation import finite_array

__all__ = ["bind", "explain_start"]


def bind(
    model: Callable[..., Any], args: tuple[Any, ...], temperature: float, tempering: str
) -> tuple[Target, Data, dict[str, np.ndarray]]:
    """The target of a model with these arguments, its data, and what the model observes.

    Raises:
        TypeError: if the model is not callable or its arguments have the wrong type.
        ValueError: if the data don't fit the model, or the model can't be run: no observations, nothing to infer, a
            discrete latent site, a subsampled plate, a site name that files can't hold.
    """
    if not callable(model):
        raise TypeError(f"model must be a NumPyro model, a function with sample statements, got {type(model).__name__}")
    if isinstance(model, Network):
        args = _network_arguments(model, args)
    arguments, arrays = Arguments.split(args)
    try:
        trace = _trace(model, arguments, arrays)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        # The model uses its arrays as values, in `np.unique(group)` for instance: they become part of the program.
        arguments, arrays = Arguments.split(args, constant=True)
        trace = _trace(model, arguments, arrays)
    observed = _check(trace)
    return Target(model, arguments, tempering), Data(arrays, np.float32(temperature)), observed


def _network_arguments(model: Network, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(args) == 1 and isinstance(args[0], Split):
        args = (args[0].x, args[0].y)
    if len(args) == 1 and isinstance(args[0], tuple) and len(args[0]) == 2:
        args = args[0]
    if len(args) != 2 or args[1] is None:
        raise ValueError(
            f"a network needs observations: call run(model, x, y, ...) or run(model, split, ...), got {len(args)} "
            f"data argument{'s' * (len(args) != 1)}{' with y=None' if len(args) == 2 else ''}"
        )
    return model.validate(*args)


def _trace(model: Callable[..., Any], arguments: Arguments, arrays: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """The model's trace with shapes in place of latent values; observed values that are arguments stay as they are."""
    trace: dict[str, Any] = {}

    def abstract(*abstract_arrays: jax.Array) -> None:
        seeded = handlers.seed(model, jax.random.key(0))
        started = handlers.substitute(seeded, substitute_fn=init_to_uniform(radius=1.0))  # flat priors can't be sampled
        trace.update(handlers.trace(started).get_trace(*arguments.fill(abstract_arrays)))
        values = {id(tracer): array for tracer, array in zip(abstract_arrays, arrays, strict=True)}
        for site in trace.values():
            site["value"] = values.get(id(site["value"]), site["value"])

    jax.eval_shape(abstract, *arrays)
    return trace


def _check(trace: dict[str, Any]) -> dict[str, np.ndarray]:
    latent = latent_sites(trace)
    observed = {n: site for n, site in trace.items() if site["type"] == "sample" and site["is_observed"]}
    if not observed:
        raise ValueError(
            "the model has no observations: give at least one sample site obs=..., and pass the data it observes to run"
        )
    if not latent:
        raise ValueError("the model has nothing to infer: every sample site is observed")
    for name, site in trace.items():
        if "/" in name:
            raise ValueError(f"the site '{name}' has a '/' in its name, which files of draws can't hold; rename it")
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0]):
            raise ValueError(
                f"the plate '{name}' subsamples {site['args'][1]} of {site['args'][0]} rows, which a full-data density "
                "can't use; leave subsample_size out"
            )
    for name, site in latent.items():
        if site["fn"].support is not None and site["fn"].support.is_discrete:
            raise ValueError(f"the latent site '{name}' is discrete ({type(site['fn']).__name__}); sum it out by hand")
    return {n: _check_observed(n, site) for n, site in observed.items() if isinstance(site["value"], np.ndarray)}


def _check_observed(name: str, site: dict[str, Any]) -> np.ndarray:
    """What a site observes must be finite and, where the support is known, in it: NumPyro by itself does not look."""
    value, distribution = site["value"], site["fn"]
    if isinstance(distribution, MaskedDistribution):
        return value
    value = finite_array(f"the value observed at site '{name}'", value)
    inside = distribution.support(value)
    if not isinstance(inside, jax.core.Tracer) and not np.all(inside):
        row = tuple(int(i) for i in np.argwhere(~np.asarray(inside))[0])
        raise ValueError(
            f"the value observed at site '{name}' must be in its support, {distribution.support}, "
            f"got {value[row[: value.ndim]]} at index {row}"
        )
    return value


def explain_start(target: Target, data: Data, position: dict[str, Any]) -> ValueError:
    """Why a position without a finite density is none: which sites are to blame."""
    sites = target.constrain(position, data)
    log_probs, _ = compute_log_probs(target.model, target.arguments.fill(data.arrays), {}, sites)
    bad = {name: float(value) for name, value in log_probs.items() if not np.isfinite(value)}
    blame = ", ".join(f"'{name}' (log density {value})" for name, value in bad.items())
    return ValueError(
        "no initial point with finite density and gradient was found in 100 tries; "
        + (f"not finite at the last one: site {blame}; " if bad else "the density was finite, its gradient was not; ")
        + "check the scale of the data, the support of the observed values and the priors"
    )
