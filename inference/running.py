"""`inference.run`: any model, any method, one record."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.random import key_impl

from inference.binding import bind
from inference.compilation import enable_compilation_cache
from inference.driver import drive
from inference.ensembles import Ensemble
from inference.hamiltonian import HMC
from inference.methods import Method
from inference.nuts import NUTS
from inference.points import MAP, MLE
from inference.posterior import Posterior
from inference.starting import find_starts
from inference.stopping import enough, milestones
from inference.target import TEMPERINGS, Data
from inference.tracing import TRACING
from inference.variational import SVI
from models import Network
from models.validation import one_of, positive_number

__all__ = ["METHODS", "run"]

METHODS: dict[str, type[Method]] = {method.name: method for method in (MLE, MAP, Ensemble, SVI, HMC, NUTS)}
"""Every method by its name."""

_STARTS, _PILOT = 2**30, 2**30 + 1  # folded into the key for these stages; chains fold in their numbers
_PROBES = 50  # enough functions to judge by, few enough to judge them at once


def run(
    model: Callable[..., Any],
    *args: Any,
    method: str | Method = "nuts",
    seed: int | jax.Array = 0,
    temperature: float = 1.0,
    tempering: str = "posterior",
    progress: bool = True,
    **options: Any,
) -> Posterior:
    """Infer the posterior of a model given data.

    Args:
        model: a network of `models`, or any NumPyro model.
        args: the model's arguments: `x, y` or a `Split` for a network, whatever it takes for another model.
        method: "mle", "map", "ensemble", "svi", "hmc" or "nuts", or a record of options such as
            `inference.NUTS(chains=2)`.
        seed: an integer or a typed JAX key (`jax.random.key`); the same seed gives the same draws, bit for bit.
        temperature: T above 0; see `inference.target`. Predictions always use the untempered likelihood.
        tempering: "posterior" raises likelihood times prior to the power 1/T, "likelihood" the likelihood alone.
        progress: show bars, or lines where there is no terminal.
        options: of the method, in place of a record: `method="nuts", chains=2`.

    Returns:
        The posterior; `Posterior.partial` is True if Ctrl-C stopped the run after its first draws.

    Raises:
        TypeError: for an argument of the wrong type.
        ValueError: for a wrong value; nothing has been compiled by then, except for a start of infinite density.
    """
    chosen = _method(method, options)
    positive_number("temperature", temperature)
    one_of("tempering", tempering, TEMPERINGS)
    wide = jax.enable_x64(chosen.precision == "float64")
    with TRACING, wide:
        bound = bind(model, args, float(temperature), tempering, chosen.chunk_size)
        chosen.check(bound.target, bound.data)
        key = _key(seed)
        for note in chosen.notes(temperature, tempering):
            warnings.warn(note, stacklevel=2)
        enable_compilation_cache()
        settings = chosen.settings(bound.target, bound.data)
    starts = find_starts(chosen, bound.target, bound.data, jax.random.fold_in(key, _STARTS), progress)
    stage = partial(drive, target=bound.target, data=bound.data, progress=progress)
    cost = starts.cost
    pilot = chosen.pilot()
    if pilot is not None:
        piloted = stage(
            pilot, key=jax.random.fold_in(key, _PILOT), starts=starts.positions[:1], settings=settings,
            title=f"{chosen.name} pilot", gather=False,
        )  # fmt: skip
        if piloted.interrupted:
            raise KeyboardInterrupt("stopped before the first draw: there is nothing to return")
        settings, cost = chosen.tuned(settings, piloted.states[0]), cost + piloted.cost
    record = Posterior(
        model=model,
        method=chosen,
        seed=int(seed) if isinstance(seed, int | np.integer) else tuple(np.asarray(jax.random.key_data(key)).tolist()),
        temperature=float(temperature),
        tempering=tempering,
        draws={},
        statistics={},
        curves={},
        observed=bound.observed,
        probes=_probes(model, bound.data),
        deterministic=bound.deterministic,
        cost=cost,
        start=starts.how,
    )
    outcome = stage(
        chosen, key=key, starts=starts.positions, settings=settings, title=chosen.name,
        milestones=milestones(chosen), enough=lambda draws: enough(replace(record, draws=draws)),
    )  # fmt: skip
    for concern in chosen.concerns(outcome.statistics):
        warnings.warn(concern, stacklevel=2)
    return replace(
        record,
        draws=outcome.draws,
        statistics=outcome.statistics,
        curves=outcome.curves,
        cost=cost + outcome.cost,
        ended=outcome.ended,
    )


def _probes(model: Callable[..., Any], data: Data) -> np.ndarray:
    """Some training inputs of a network, evenly spaced through its rows."""
    if not isinstance(model, Network):
        return np.zeros((0, 0), np.float32)
    inputs = np.asarray(data.arrays[0])
    return inputs[np.unique(np.linspace(0, len(inputs) - 1, _PROBES).round().astype(int))]


def _method(method: str | Method, options: dict[str, Any]) -> Method:
    if isinstance(method, Method):
        if options:
            raise ValueError(f"method is a record with its own options, so {next(iter(options))!r} must be set on it")
        return method
    if not isinstance(method, str):
        raise TypeError(f"method must be a name or a record such as inference.NUTS(), got {type(method).__name__}")
    one_of("method", method, METHODS)
    known = [item.name for item in fields(METHODS[method])]
    for option in options:
        if option not in known:
            others = [name for name, other in METHODS.items() if option in (item.name for item in fields(other))]
            whose = f"it is an option of {', '.join(others)}; " if others else ""
            if option in ("x", "y", "data"):
                whose = "data are given by position, run(model, x, y, ...); "
            raise ValueError(f"{option!r} is not an option of {method}; {whose}{method} takes {', '.join(known)}")
    return METHODS[method](**options)


def _key(seed: Any) -> jax.Array:
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key) and seed.shape == ():
        if key_impl(seed) != "threefry2x32":
            raise ValueError(f"seed must be a key of JAX's default generator, threefry2x32, got {key_impl(seed)}")
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"seed must be an integer or one typed key from jax.random.key, got {type(seed).__name__}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be 0 to 2^32 - 1, or a typed key from jax.random.key, got {seed!r}")
    return jax.random.key(int(seed))
