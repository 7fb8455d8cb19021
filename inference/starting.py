"""Where chains start: at random, at a MAP point, or each at its own member of a short deep ensemble.

A network's posterior has many modes, and a random point is far from all of them: a sampler that starts there spends its
warm-up falling. An ensemble takes a second or so, finds a mode for each chain, and fails with a reason where a network
can't be trained at all.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import jax

from inference import programs
from inference.binding import explain_start
from inference.driver import Cost, drive
from inference.ensembles import Ensemble
from inference.methods import Method
from inference.target import Data, Position, Target
from models import Network

__all__ = ["Starts", "find_starts"]

_STEPS = 1000
_BATCH, _WHOLE = 128, 2000  # rows per step, from so many rows on


class Starts(NamedTuple):
    """Each chain's start.

    Attributes:
        positions: one per chain.
        how: one of `inference.methods.STARTS`.
        cost: what finding them took.
    """

    positions: list[Position]
    how: str
    cost: Cost


def find_starts(
    method: Method,
    target: Target,
    data: Data,
    key: jax.Array,
    progress: bool,
    tracing: AbstractContextManager[Any],
) -> Starts:
    """A start for each chain of a method; a chain's does not depend on how many there are.

    Raises:
        ValueError: if no random point has a finite density.
        KeyboardInterrupt: if it is stopped.
    """
    how = method.start or ("ensemble" if isinstance(target.model, Network) else "random")
    if how in ("random", "prior"):
        return _at_random(method, target, data, key, how, tracing)
    network = isinstance(target.model, Network)
    ensemble = Ensemble(
        chains=method.chains if how == "ensemble" else 1,
        steps=_STEPS,
        batch_size=_BATCH if network and len(data.arrays[0]) > _WHOLE else None,
        precision=method.precision,
    )
    first = _at_random(ensemble, target, data, key, "random", tracing)
    trained = drive(
        ensemble, target, data, jax.random.fold_in(key, 1), starts=first.positions, settings=None,
        title=f"{method.name} start", progress=progress, tracing=tracing,
    )  # fmt: skip
    if trained.ended == "interrupted":
        raise KeyboardInterrupt("stopped before the first draw: there is nothing to return")
    positions = [state.parameters for state in trained.states]
    return Starts(positions if how == "ensemble" else positions * method.chains, how, first.cost + trained.cost)


def _at_random(
    method: Method, target: Target, data: Data, key: jax.Array, how: str, tracing: AbstractContextManager[Any]
) -> Starts:
    began = time.perf_counter()
    positions = []
    with tracing, jax.enable_x64(method.precision == "float64"):
        for i in range(method.chains):
            position, found = programs.find_start(target, data, jax.random.fold_in(key, i), how == "prior")
            if not found:
                raise explain_start(target, data, position)
            positions.append(position)
    return Starts(positions, how, Cost(time.perf_counter() - began, 0.0, 0, 0))
