"""Folds: one network fitted to many data sets of equal shape, such as a benchmark's splits, in one compiled call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np

from inference.catalogue import chosen_method
from inference.engine.ledger import Ledger
from inference.host.compiling import enable_compilation_cache, in_a_hurry, tracing
from inference.host.seeds import Stream, as_key, plain_seed
from inference.host.telling import tell
from inference.methods import Method
from inference.optimisation.optimiser import Optimisation
from inference.results.posterior import Posterior
from inference.runs.execution import plan
from inference.runs.side_by_side import fit_together
from inference.runs.side_by_side import folds as folding
from inference.target.binding import explain_start
from inference.target.density import Data, Position, Target
from models import Hierarchical, Network, Rules, numbers_of, with_numbers

__all__ = ["run_folds"]


def run_folds(
    model: Network | Sequence[Network],
    folds: Sequence[Any],
    *,
    method: str | Method = "svi",
    seed: int | jax.Array = 0,
    temperature: float = 1.0,
    tempering: str = "posterior",
    progress: bool = True,
    **options: Any,
) -> list[Posterior]:
    """Fit a network to each of several data sets of equal shape, side by side in one compiled program.

    Args:
        model: the network; or one per fold, which may differ in their numbers, such as scales, and nothing else.
        folds: each a `Split`, or a pair of `x` and `y`.
        method: one that optimises: "mle", "map" or "svi"; by name, or as a record with its options. All folds start at
            random, or from the prior with `start="prior"`; so do guides, which `run` starts at a MAP point.
        seed: an integer or a typed JAX key, into which fold i folds its number i.
        temperature: T, see `run`.
        tempering: what T divides, see `run`.
        progress: show a bar per core.
        options: the method's options, in place of a record.

    Returns:
        One posterior per fold, in order. The cost of each is the cost of all folds together.

    Raises:
        ValueError: if the folds' shapes or models differ, or an option is wrong.
        FloatingPointError: if a fold's loss is no longer finite.
    """
    chosen = chosen_method(method, options)
    if not isinstance(chosen, Optimisation) or chosen.chains > 1 or not chosen.side_by_side:
        raise ValueError(
            f"run_folds fits what optimises once per fold, mle, map or svi, got {chosen.name}; use run for each fold"
        )
    if chosen.restarts > 1:
        raise ValueError(f"run_folds makes one fit per fold, got restarts={chosen.restarts}; leave it out, or use run")
    if chosen.chunk_size is not None:
        raise ValueError(
            f"run_folds takes all rows of a step at once, so chunk_size={chosen.chunk_size} would do nothing; leave it "
            "out, and bound the memory by batch_size"
        )
    words = plain_seed(seed)
    if chosen.start is None:
        chosen = replace(chosen, start="random")  # type: ignore[call-arg]
    if chosen.start not in ("random", "prior"):
        raise ValueError(f'run_folds starts at "random" or from the "prior", got start={chosen.start!r}')
    folds = list(folds)
    if not folds:
        raise ValueError("run_folds needs at least one fold")
    models = [model] * len(folds) if isinstance(model, Network) else list(model)
    if len(models) != len(folds):
        raise ValueError(f"there must be one model, or one per fold: got {len(models)} for {len(folds)} folds")
    if not all(isinstance(each, Network) for each in models):
        raise TypeError("run_folds needs networks of models, whose rows are known")
    if isinstance(models[0].prior, Rules) and any(
        isinstance(prior, Hierarchical) for _, prior in models[0].prior.rules
    ):
        raise ValueError("run_folds can't take hierarchical priors that are given by rules; use one for all layers")
    same = with_numbers(models[0], (1.0,) * len(numbers_of(models[0])))
    plans = []
    for i, (each, fold) in enumerate(zip(models, folds, strict=True)):
        if with_numbers(each, (1.0,) * len(numbers_of(each))) != same:
            raise ValueError(f"the model of fold {i} differs from the first in more than its numbers")
        args = tuple(fold) if isinstance(fold, tuple | list) else (fold,)
        plans.append(plan(each, args, chosen, words, temperature, tempering, None))
        shapes = [[array.shape for array in plans[j].bound.data.arrays] for j in (0, i)]
        if shapes[0] != shapes[1]:
            raise ValueError(f"all folds must have one shape: fold 0 has {shapes[0]}, fold {i} has {shapes[1]}")
    for note in dict.fromkeys(note for each in plans for note in each.notes):
        tell(note)
    enable_compilation_cache()
    keys = jax.vmap(partial(jax.random.fold_in, as_key(words)))(np.arange(len(folds)))
    every = [(each.bound.data, network) for each, network in zip(plans, models, strict=True)]
    together, data, target = folding(chosen, plans[0].bound.target, every, keys)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *(each for each, _ in every))
    with tracing(chosen.precision):
        numbers = np.asarray([numbers_of(network) for network in models])
        positions, found = jax.device_get(_starts(target, stacked, numbers, keys, chosen.start))
    starts = [jax.tree.map(lambda leaf, i=i: leaf[i], positions) for i in range(len(folds))]
    if not found.all():
        bad = int(np.argmin(found))
        raise explain_start(plans[bad].bound.target, plans[bad].bound.data, starts[bad])
    each_fit, cost, ended = fit_together(together, target, data, starts, Ledger(), progress)
    return [
        each.posterior(fit.draws, fit.statistics, fit.curves, [], cost=cost, ended=ended, guide=fit.guide)
        for each, fit in zip(plans, each_fit.values(), strict=True)
    ]


@in_a_hurry(static_argnames=("target", "how"))
def _starts(target: Target, data: Data, numbers: jax.Array, keys: jax.Array, how: str) -> tuple[Position, jax.Array]:
    """A random start for each fold, and whether its density and gradient are finite."""

    def one(data: Data, numbers: jax.Array, key: jax.Array) -> tuple[Position, jax.Array]:
        own = replace(target, model=with_numbers(target.model, numbers), block=0)
        return own.start(jax.random.fold_in(key, Stream.STARTS), data, how)

    return jax.vmap(one)(data, numbers, keys)
