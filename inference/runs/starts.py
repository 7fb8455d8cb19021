"""Where chains start: at random, at a MAP point, or each at its own member of a short deep ensemble.

A network's posterior has many modes, and a random point is far from all of them: a sampler that starts there spends its
warm-up falling. An ensemble takes a second or so, finds a mode for each chain, and fails with a reason where a network
can't be trained at all. While it trains, the noise stays at the median of its prior: a network that meets every target
exactly would drive the noise to 0, where the density has no bound, and so leave the chain in a crack of the density
that is not the posterior.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.engine import programs
from inference.engine.driver import drive
from inference.engine.kept_draws import Keeping
from inference.engine.ledger import Ledger
from inference.engine.stage import Stage
from inference.host.compiling import tracing
from inference.host.machine import Cost
from inference.methods import Method
from inference.optimisation.optimiser import Optimisation
from inference.optimisation.points import Ensemble, NegativeLogDensity
from inference.target.binding import explain_start
from inference.target.density import Data, Position, Target
from models import Network

__all__ = ["Starts", "find_starts", "fits", "start_of"]

_STEPS = 1000
_TRIES = 100  # of random values for what is not given
_BATCH, _WHOLE = 128, 2000  # rows per step, and the number of rows up to which all of them are used


class Starts(NamedTuple):
    """Each chain's start.

    Attributes:
        positions: one per chain.
        how: one of `inference.methods.STARTS`, or "given".
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
    ledger: Callable[[str], Ledger],
    given: dict[str, np.ndarray] | None = None,
    least: int = 1,
) -> Starts:
    """A start for each chain, or each fit, of a method; a start does not depend on how many others there are.

    Args:
        method: the method to start.
        target: the log density.
        data: its data.
        key: the key of all starts.
        progress: show bars, or lines where there is no terminal.
        ledger: gives the ledger of the stage that trains starts.
        given: values of sites in every chain, (chain, *site), from which chains are to start; see
            `inference.runs.given_starts`.
        least: the least number of starts; a pilot may have more chains than the user asked for.

    Raises:
        ValueError: if no random point, or not the given one, has a finite density.
        KeyboardInterrupt: if Ctrl-C stops the search.
    """
    how = start_of(method, target.model)
    random_key, train_key = jax.random.split(key)
    if given is not None:
        return _at_given(method, target, data, random_key, given)
    if how in ("random", "prior"):
        return _at_random(max(method.chains, fits(method), least), method.precision, target, data, random_key, how)
    rows = len(data.arrays[0]) if isinstance(target.model, Network) else 0
    trainer = _Trainer(
        chains=max(method.chains, least) if how == "ensemble" else fits(method),
        steps=_STEPS,
        batch_size=_BATCH if rows > _WHOLE else None,
        precision=method.precision,
        held=_held(target.model, target, data) if isinstance(target.model, Network) else (),
        arrangement=method.arrangement,
    )
    # The first step of the training shows whether there is a gradient, so the search need not compile one.
    search = partial(_at_random, trainer.chains, method.precision, target, data, random_key, "random", trainer.held)
    first = search(gradient=False)
    stage = Stage(
        title=f"{method.name} start",
        method=trainer,
        target=target,
        data=[data] * trainer.chains,
        key=train_key,
        starts=first.positions,
        settings=None,
        keeping=Keeping("all", target.model, np.zeros(0)),
        gather=False,
    )
    try:
        trained = drive(stage, ledger("start"), progress)
    except FloatingPointError:
        search()  # raises if there is no gradient
        raise
    if trained.interrupted:
        raise KeyboardInterrupt("stopped before the first draw: there is nothing to return")
    positions = [state.parameters for state in trained.states]
    if how == "map":
        positions = positions * max(method.chains, least)
    return Starts(positions, how, first.cost + trained.cost)


def fits(method: Method) -> int:
    """How many fits from different starts a method makes, of which the best is kept."""
    return method.restarts if isinstance(method, Optimisation) else 1


def start_of(method: Method, model: Any) -> str:
    """How a method starts on a model, one of `inference.methods.STARTS`."""
    return method.start or ("ensemble" if isinstance(model, Network) else "random")


@dataclass(frozen=True, kw_only=True)
class _Trainer(Ensemble):
    """An ensemble whose members keep some sites at their start.

    Attributes:
        held: the names of the sites that stay at their start.
        arrangement: that of the chains.
    """

    held: tuple[str, ...] = ()
    arrangement: str = "threads"

    def objective(self) -> NegativeLogDensity:
        """Minus the log density, without a gradient in the sites that are held."""
        return NegativeLogDensity(self.estimate, self.held)


def _held(model: Network, target: Target, data: Data) -> tuple[str, ...]:
    """The sites of a network that its outputs don't depend on: the noise."""
    return tuple(sorted(set(target.position(data)) - set(model.weights(np.asarray(data.arrays[0][:1])))))


def _at_given(method: Method, target: Target, data: Data, key: jax.Array, given: dict[str, np.ndarray]) -> Starts:
    """Each chain at the given values; of the sites that are not given, the noise starts at the median of its prior."""
    began = time.perf_counter()
    held = _held(target.model, target, data) if isinstance(target.model, Network) else ()
    others = tuple(name for name in held if name not in given)
    drawn = sorted(set(target.position(data)) - set(given) - set(others))
    positions = []
    with tracing(method.precision):
        for i in range(max(method.chains, fits(method))):
            sites = {name: values[i].astype(method.precision) for name, values in given.items()}
            for attempt in range(_TRIES if drawn else 1):
                own = jax.random.fold_in(jax.random.fold_in(key, i), attempt)
                position, density, good = programs.placed(target, data, own, sites, others)
                if good:
                    break
            else:
                raise ValueError(
                    f"start: the log density is {density} at the given weights of chain {i}, or its gradient is not "
                    "finite; they may be outside the support of a prior, or too large for these data"
                    + (f"; {', '.join(drawn)} were not given, and {_TRIES} random values did not help" if drawn else "")
                )
            positions.append(position)
    return Starts(positions, "given", Cost(time.perf_counter() - began, 0.0, 0, 0))


def _at_random(
    count: int,
    precision: str,
    target: Target,
    data: Data,
    key: jax.Array,
    how: str,
    held: tuple[str, ...] = (),
    gradient: bool = True,
) -> Starts:
    """`count` random starts with a finite density and, unless `gradient` is False, a finite gradient."""
    began = time.perf_counter()
    positions = []
    with tracing(precision):
        for i in range(count):
            position, found = programs.find_start(target, data, jax.random.fold_in(key, i), how, held, gradient)
            if not found:
                raise explain_start(target, data, position)
            positions.append(position)
    return Starts(positions, how, Cost(time.perf_counter() - began, 0.0, 0, 0))
