"""`inference.run`: any model, any method, one record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from inference.catalogue import chosen_method
from inference.disk.shared_directory import check_unused
from inference.engine.ledger import Ledger
from inference.host.seeds import plain_seed
from inference.methods import Method
from inference.results.posterior import Posterior
from inference.runs.execution import execute, plan
from inference.runs.given_starts import is_given
from inference.runs.partly_stochastic import partly_stochastic
from inference.runs.resuming import execute_in
from models.validation import positive_number

__all__ = ["run"]


def run(
    model: Callable[..., Any],
    *args: Any,
    method: str | Method = "nuts",
    seed: int | jax.Array = 0,
    temperature: float = 1.0,
    tempering: str = "posterior",
    directory: str | Path | None = None,
    progress: bool = True,
    predict_at: Any = None,
    save_every: float = 10.0,
    start: Any = None,
    stochastic: Any = None,
    weights: Any = None,
    **options: Any,
) -> Posterior:
    """Infer the posterior of a model given data.

    Args:
        model: a network of `models`, or any NumPyro model.
        args: the model's arguments: `x, y` or a `Split` for a network; for any other model, whatever it takes.
        method: "mle", "map", "laplace", "ensemble", "svi", "sgld", "sghmc", "hmc", "nuts" or "mclmc", or a record of
            options such as `inference.NUTS(chains=2)`.
        seed: an integer or a typed JAX key (`jax.random.key`); the same seed gives the same draws, bit for bit.
        temperature: T above 0; see `inference.target.density`. Predictions always use the untempered likelihood.
        tempering: "posterior" raises likelihood times prior to the power 1/T, "likelihood" the likelihood alone.
        directory: where the run lives, so that it survives a crash: draws and states are written there while it goes
            on, and `inference.resume(directory)` resumes it to the same bits. Must be empty, or not exist.
        progress: show bars, or lines where there is no terminal.
        predict_at: inputs of a network at which a sampler's predictions are averaged while it draws
            (`Posterior.averages`), whatever it keeps of the draws.
        save_every: seconds between two saves into the directory, which is what a crash may lose; where saving takes
            long the pause is longer, up to a minute, so that saving costs 2 % of the time.
        start: weights that you have, for the chains of any method to start from: a mapping from sites to arrays, each
            shaped like the site or with one for every chain; a `Posterior`, of which each chain takes a draw; or a
            trained flax or equinox module, if the model was lifted from one like it. A name such as "map" or "prior" is
            the method's own option `start`.
        stochastic: for a network, the part of it that is unknown: a layer such as "output", a kind such as "bias", a
            site, or a list of these. All other weights are fixed at `weights`, and stored once. None infers all.
        weights: what the weights that are not stochastic are fixed at: a mapping from sites to arrays, a posterior of
            one draw, or a module like the one that the network was lifted from; None fits the whole network by MAP.
        options: the method's options, in place of a record: `method="nuts", chains=2`.

    Returns:
        The posterior; `Posterior.partial` is True if Ctrl-C stopped the run after its first draws.

    Raises:
        TypeError: for an argument of the wrong type.
        ValueError: for a wrong value, before anything compiles; later, if no start with a finite density is found.
        OSError: if the directory is in use, or its disk is full; what was saved before is intact.
    """
    given = start if is_given(start) else None
    chosen = chosen_method(method, options if start is None or given is not None else {"start": start, **options})
    positive_number("save_every", save_every)
    fitting = None
    if stochastic is not None:
        if directory is not None:
            check_unused(directory)  # before the fit
        model, fitting = partly_stochastic(
            model, args, stochastic, weights, chosen.precision, plain_seed(seed), progress
        )
    elif weights is not None:
        raise ValueError("weights are those that are not stochastic; say which are, stochastic='output' for instance")
    planned = plan(model, args, chosen, plain_seed(seed), temperature, tempering, predict_at, given)
    if directory is None:
        posterior = execute(planned, lambda stage: Ledger(), progress)
    else:
        posterior = execute_in(directory, planned, args, predict_at, progress, save_every)
    return posterior if fitting is None else replace(posterior, cost=fitting + posterior.cost)
