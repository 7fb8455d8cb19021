"""A part of a network as the unknown: the other weights are fitted first, or given, and stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from data.pairs import as_pair
from inference.engine.ledger import Ledger
from inference.host.machine import Cost
from inference.optimisation.points import MAP
from inference.results.posterior import Posterior
from inference.runs.execution import execute, plan
from models import Network, chosen_sites, module_weights, partly_fixed

__all__ = ["partly_stochastic"]


def partly_stochastic(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    stochastic: Any,
    weights: Any,
    precision: str,
    seed: int | tuple[int, ...],
    progress: bool,
) -> tuple[Network, Cost | None]:
    """The network with all weights fixed but some, and what it took to fit them.

    Args:
        model: the network.
        args: its data.
        stochastic: what stays unknown: a layer, a kind, a site, or several of these.
        weights: what the others are fixed at: a mapping from sites to arrays, a posterior of one draw, a module like
            the one that the network was lifted from; or None for a MAP fit of the whole network.
        precision: the precision of the fit.
        seed: the seed of the fit.
        progress: whether the fit shows its progress.

    Raises:
        TypeError: if the model is not a network of `models`, or `weights` is none of these.
        ValueError: if a name means no weight, or a weight is missing or does not fit.
    """
    if not isinstance(model, Network):
        raise TypeError("stochastic needs a network of models, whose layers are known; fix sites of your own model by "
                        "numpyro.handlers.substitute")  # fmt: skip
    pair = as_pair("run", args[0]) if len(args) == 1 else args
    if len(pair) != 2:
        raise TypeError(f"a network takes x and y, or a Split, got {len(pair)} arguments")
    inputs = model.validate(pair[0], pair[1], precision)[0]
    chosen_sites(stochastic, model.sites(inputs))
    cost = None
    if weights is None:
        point = execute(plan(model, args, MAP(precision=precision), seed, 1.0, "posterior", None), _in_memory, progress)
        if point.partial:
            raise KeyboardInterrupt("stopped before the weights that are to be fixed were fitted")
        weights, cost = point, point.cost
    return partly_fixed(model, inputs, stochastic, _by_site(weights, model)), cost


def _in_memory(stage: str) -> Ledger:
    return Ledger()


def _by_site(weights: Any, model: Network) -> dict[str, np.ndarray]:
    if isinstance(weights, Mapping):
        return {str(name): np.asarray(value) for name, value in weights.items()}
    if isinstance(weights, Posterior):
        if weights.shape != (1, 1):
            raise ValueError(
                "weights must be one set of weights, such as a MAP point, and this posterior has "
                f"{weights.shape[0]} x {weights.shape[1]} draws"
            )
        return {name: values[0, 0] for name, values in weights.draws.items()}
    found = module_weights(model.architecture, weights)
    if found is None:
        raise TypeError(
            "weights must be a mapping from sites to arrays, a posterior of one draw, or a module like the one that "
            f"the network was lifted from, got {type(weights).__name__}"
        )
    return found
