"""Many fits of one method as one program: the same steps with other starts, other data or other numbers in the model.

The fits are dealt out to groups, one per core. A group is a chain to the driver, and its fits run side by side in one
compiled step through `jax.vmap`: small networks leave most of a core idle, and many of them at once don't.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.engine.driver import drive
from inference.engine.kept_draws import Keeping
from inference.engine.ledger import Ledger, Values
from inference.engine.stage import Stage
from inference.host.hosts import alone
from inference.host.machine import Cost, cores
from inference.host.seeds import Stream
from inference.methods import Emission, Kernel, Method, Step
from inference.optimisation.optimiser import Optimisation
from inference.runs.stopping import stop_of
from inference.target.density import Data, Position, Target
from models import Network, numbers_of, with_numbers

__all__ = ["Fit", "Fits", "FitsState", "Together", "best", "fit_together", "folds", "restarts", "separate"]

_PLACE = "place"  # the name of the scalar that tells which fit a step belongs to


class Fits(NamedTuple):
    """The data of many fits, (group, fit, ...).

    Attributes:
        data: each fit's data; without the axes (group, fit) if all fits share them.
        numbers: the numbers in each fit's model.
        keys: each fit's key.
        places: each fit's number among all fits.
    """

    data: Data
    numbers: Any
    keys: jax.Array
    places: Any


class FitsState(NamedTuple):
    """Where the fits of a group are.

    Attributes:
        each: the state of each fit.
        failed: whether the loss of each fit was ever not finite.
    """

    each: Any
    failed: jax.Array


class Fit(NamedTuple):
    """One fit of many.

    Attributes:
        draws: each site's values, (1, draw, ...).
        statistics: each scalar of the draws, (1, draw).
        curves: each scalar of the steps, (1, step).
        guide: what a user may want of the last state.
    """

    draws: Values
    statistics: Values
    curves: Values
    guide: Values


@dataclass(frozen=True)
class TogetherKernel(Kernel):
    """The kernel of a group, which makes a step of each of its fits.

    Attributes:
        kernel: the kernel of one fit.
        apart: whether each fit has data and numbers of its own.
    """

    kernel: Kernel
    apart: bool

    def init(self, target: Target, data: Any, position: Position, key: jax.Array, settings: Any) -> FitsState:
        """The state before the first step: each fit's own, from its own start and key."""
        each = _each_fit(
            self.apart, target, data,
            lambda target, data, key, position: self.kernel.init(target, data, position, key, None), position,
        )  # fmt: skip
        return FitsState(each, jnp.zeros(data.places.shape, bool))

    def step(self, target: Target, data: Any, state: FitsState, limit: jax.Array) -> Step:
        """One step of each fit; the loss of one that has failed stays NaN, whatever its steps still do."""
        each, (draws, info) = _each_fit(
            self.apart, target, data,
            lambda target, data, key, state: self.kernel.step(target, data, state, limit)[:2], state.each,
        )  # fmt: skip
        failed = state.failed | ~jnp.isfinite(info["loss"])
        loss = jnp.where(failed, jnp.nan, info["loss"])
        return Step(FitsState(each, failed), (draws, info | {"loss": loss, _PLACE: data.places}))


@dataclass(frozen=True, kw_only=True)
class Together(Method):
    """Groups of fits of one method.

    Attributes:
        method: the method of one fit.
        groups: how many groups there are.
        apart: whether each fit has data and numbers of its own.
    """

    name: ClassVar[str] = "together"
    kind: ClassVar[str] = "point"

    method: Any
    groups: int
    apart: bool

    @property
    def chains(self) -> int:
        """One chain per group."""
        return self.groups

    @property
    def iterations(self) -> int:
        """Optimiser steps of one fit; all fits of a group take the same number."""
        return self.method.iterations

    def kernel(self) -> TogetherKernel:
        """The kernel of one group, which does not depend on how many groups there are."""
        return TogetherKernel(self.method.kernel(), self.apart)

    def portions(self, fits: Fits) -> list[Fits]:
        """The fits of each group."""
        if self.apart:
            return [_at(fits, group) for group in range(self.groups)]
        return [fits._replace(keys=fits.keys[group], places=fits.places[group]) for group in range(self.groups)]

    def conclude(self, target: Target, data: Any, state: FitsState, key: jax.Array) -> tuple[Emission, FitsState]:
        """The draws and scalars of each fit, (fit, draw, ...), and the concluded state of the group."""

        def one(target: Target, data: Data, key: jax.Array, state: Any) -> tuple[Emission, Any]:
            return self.method.conclude(target, data, state, jax.random.fold_in(key, Stream.CONCLUSION))

        emission, each = _each_fit(self.apart, target, data, one, state.each)
        return emission, state._replace(each=each)

    def watch(self, info: dict[str, np.ndarray], done: int) -> None:
        """Stop at the first fit that fails, if each has its own data; else when all fits of the group have failed."""
        good = np.isfinite(info["loss"]).sum(axis=0)  # steps of this piece that each fit made before it failed
        if (good.max() if not self.apart else good.min()) == len(info["loss"]):
            return
        which = int(good.argmin() if self.apart else good.argmax())
        try:
            self.method.watch({name: values[:, which] for name, values in info.items()}, done)
        except FloatingPointError as error:
            place = int(info[_PLACE][0, which])
            raise FloatingPointError(f"{'fold' if self.apart else 'restart'} {place}: {error}") from error

    def gradients(self, info: dict[str, np.ndarray], data: Any) -> float:
        """How many gradients over all rows all fits of the group took together."""
        one = data.data
        if self.apart:
            one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), one)
        return self.method.gradients(info, one) * info["loss"].shape[1]

    def status(self, info: dict[str, np.ndarray], sums: dict[str, float]) -> str:
        """The mean loss of the last hundred steps of all fits that have not failed."""
        loss = info["loss"][:, np.isfinite(info["loss"][-1])]
        return f"{loss.shape[1]} fits, mean {self.method.status({'loss': loss}, sums)}"


def _each_fit(apart: bool, target: Target, fits: Fits, function: Callable[..., Any], argument: Any) -> Any:
    """What `function(target, data, key, argument)` returns for each fit of a group."""

    def one(data: Data, numbers: Any, key: jax.Array, place: Any, argument: Any) -> Any:
        own = replace(target, model=with_numbers(target.model, numbers)) if apart else target
        return function(own, data, key, argument)

    axes = (0, 0, 0, 0, 0) if apart else (None, None, 0, 0, 0)
    return jax.vmap(one, axes)(*fits, argument)


def restarts(method: Optimisation, data: Data, key: jax.Array) -> tuple[Together, Fits]:
    """Several fits to the same data; every machine makes the same groups, so that any machine can resume them."""
    count = method.restarts
    groups = min(2, count)
    together = Together(method=method, groups=groups, apart=False, precision=method.precision)
    return together, Fits(data, (), _dealt(jax.random.split(key, count), groups), _dealt(_counted(count), groups))


def folds(
    method: Optimisation, target: Target, every: Sequence[tuple[Data, Network]], keys: jax.Array
) -> tuple[Together, Fits, Target]:
    """Fits to data sets of equal shape, one group per core, and the target that all of them share.

    A target whose model has numbers for arguments can't be differentiated block by block, so it takes all rows at once.
    """
    groups = min(cores(), len(every))
    numbers = np.asarray([numbers_of(model) for _, model in every])
    data = jax.tree.map(lambda *leaves: _dealt(np.stack(leaves), groups), *(data for data, _ in every))
    shared = replace(target, model=with_numbers(target.model, (1.0,) * numbers.shape[1]), block=0)
    together = Together(method=method, groups=groups, apart=True, precision=method.precision)
    places = _dealt(_counted(len(every)), groups)
    return together, Fits(data, _dealt(numbers, groups), _dealt(keys, groups), places), shared


def fit_together(
    together: Together, target: Target, fits: Fits, starts: list[Position], ledger: Ledger, progress: bool
) -> tuple[dict[int, Fit], Cost, str]:
    """Run all fits from their starts; returns the fits by number, what all of them cost, and why they ended.

    Where fits share their data, a group whose fits have all failed is left out.

    Raises:
        FloatingPointError: if a fit fails; where fits share their data, if all of them fail.
        KeyboardInterrupt: if Ctrl-C stops the fits.
    """
    alone("fits side by side are asked for")
    method, count = together.method, len(starts)
    positions = jax.tree.map(lambda *leaves: _dealt(np.stack(leaves), together.groups), *jax.device_get(starts))
    stage = Stage(
        title=f"{method.name}, {count} fits",
        method=together,
        target=target,
        data=together.portions(fits),
        key=fits.keys[0, 0],
        starts=[_at(positions, i) for i in range(together.groups)],
        settings=None,
        keeping=Keeping("all", target.model, np.zeros(0)),
        stop=stop_of(method, target.model, np.zeros(0)),
    )
    outcome = drive(stage, ledger, progress)
    if outcome.interrupted:
        raise KeyboardInterrupt("stopped before all fits were done: there is nothing to return")
    if outcome.stopped and together.apart:
        raise FloatingPointError(next(iter(outcome.stopped.values())))
    going = [group for group in range(together.groups) if group not in outcome.stopped]
    states = [outcome.states[group] for group in going]
    each = separate(together, count, going, outcome.draws, outcome.statistics, outcome.curves, states)
    return each, outcome.cost, outcome.ended


def separate(
    together: Together,
    count: int,
    going: Sequence[int],
    draws: Values,
    statistics: Values,
    curves: Values,
    states: Sequence[FitsState],
) -> dict[int, Fit]:
    """The fits by number, from draws (group, fit, draw, ...) and curves (group, step, fit) of the groups in `going`."""
    size = -(-count // together.groups)

    def of(i: int) -> Fit:
        group, place = going.index(i // size), i % size
        return Fit(
            {name: values[group, place][None] for name, values in draws.items()},
            {name: values[group, place][None] for name, values in statistics.items()},
            {name: values[group, :, place][None] for name, values in curves.items() if name != _PLACE},
            together.method.fitted(_at(states[group].each, place)),
        )

    return {i: of(i) for i in range(count) if i // size in going}


def best(fits: dict[int, Fit], count: int) -> Fit:
    """The fit with the least mean loss over its last tenth.

    Its guide has this mean for each of the `count` fits as "restart_loss"; NaN for fits that have failed.
    """
    last = np.full(count, np.nan)
    for i, fit in fits.items():
        last[i] = fit.curves["loss"][0, -max(1, fit.curves["loss"].shape[1] // 10) :].mean()
    chosen = fits[int(np.nanargmin(last))]
    return chosen._replace(guide=chosen.guide | {"restart_loss": last})


def _counted(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32)


def _dealt(values: Any, groups: int) -> Any:
    """The fits' `values` as (group, fit, ...); if they don't divide evenly, the last group repeats some of them."""
    size = -(-len(values) // groups)
    return values[np.arange(groups * size) % len(values)].reshape(groups, size, *values.shape[1:])


def _at(tree: Any, place: Any) -> Any:
    """The tree of what each leaf of `tree` has at index `place`."""
    return jax.tree.map(lambda leaf: leaf[place], tree)
