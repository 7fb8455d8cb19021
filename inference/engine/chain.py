"""A chain on the host: how far it is, and how what one more piece of it has emitted is checked and taken in.

Where it is, its state, belongs to the group of chains that it is advanced with; see `inference.engine.group`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.engine import programs
from inference.engine.kept_draws import Keeping
from inference.engine.ledger import Ledger, Saved, Values
from inference.engine.stage import Stage
from inference.methods import Emission, Method
from inference.results.running_averages import Average
from inference.target.density import Data, Target

__all__ = ["Chain", "Piece", "begin_chains", "saved_shapes"]


class Piece(NamedTuple):
    """What the iterations of a piece of a chain have emitted.

    Attributes:
        first: the number of its first iteration.
        iterations: how many iterations it has.
        draws: the sites' values, (iteration, ...).
        info: the scalars.
        left: steps that are left in the iteration under way.
    """

    first: int
    iterations: int
    draws: Values
    info: Values
    left: int

    def check(self, method: Method, latent: Iterable[str]) -> None:
        """Raise FloatingPointError if a site in `latent` is not finite, or `method.watch` refuses the scalars."""
        end = self.first + self.iterations
        method.watch(self.info, end)
        for name in latent if self.draws else ():
            if not np.isfinite(self.draws[name]).all():
                raise FloatingPointError(
                    f"{method.name}: the site '{name}' was no longer finite between iterations {self.first} and {end}"
                )


@dataclass
class Chain:
    """One chain of a method.

    Attributes:
        number: the chain's number.
        data: the target's data, where the chain runs.
        last_key: the key for the method's conclusion.
        average: the average of its predictions so far; None if none is asked for.
        done: iterations made so far.
        gradients: gradients evaluated so far.
        stopped: why it stopped before its end; empty if it did not.
    """

    number: int
    data: Data
    last_key: jax.Array
    average: Average | None
    done: int = 0
    gradients: float = 0.0
    stopped: str = ""
    _keeping: bool = False
    _sums: dict[str, float] = field(default_factory=dict)

    def saved(self, state: Any) -> Saved:
        """The part of the chain, which is at `state`, that outlives the process."""
        return Saved((state, self.last_key, self.average), self.done, self.gradients, self.stopped)

    def take(self, piece: Piece, method: Method, ledger: Ledger, keeping: Keeping) -> str:
        """Take in what `piece` has emitted; returns the chain's status in words."""
        wanted, iterations = method.kept, range(piece.first, piece.first + piece.iterations)
        keep = np.array([not wanted or iteration in wanted for iteration in iterations], bool)
        kept = {name: values[keep] for name, values in piece.info.items()}
        if keep.any():
            draws = {name: values[keep] for name, values in piece.draws.items()}
            sites, functions = keeping(draws)
            ledger.add(self.number, sites, kept | functions)
            self.average = keeping.averaged(self.average, draws)
            if not self._keeping:
                self._keeping, self._sums = True, {}  # sums over the warm-up say nothing about the draws
        shown = kept if self._keeping else piece.info
        for name, values in (shown | {"count": np.ones(keep.sum() if self._keeping else piece.iterations)}).items():
            self._sums[name] = self._sums.get(name, 0.0) + float(values.sum())
        self.gradients += method.gradients(piece.info, self.data)
        stage = "" if self._keeping else "warming up"
        status = method.status(shown, self._sums) if self._sums["count"] else ""
        return ", ".join(words for words in (stage, status, f"{piece.left} steps left" if piece.left else "") if words)


def begin_chains(stage: Stage, devices: Sequence[Any], ledger: Ledger) -> tuple[list[Chain], list[Any], Emission]:
    """The chains and their states, each at its start or where it was saved, and the shapes of what an iteration emits.

    The chains are dealt out to the `devices` in turn.
    """
    method, target, keeping = stage.method, stage.target, stage.keeping
    kernel = method.kernel()
    form = partial(saved_shapes, method, target, stage.data[0], stage.starts[0], stage.key, stage.settings, keeping)
    chains, states, placed = [], [], dict[Any, Data]()
    for i, saved in enumerate(ledger.restore(len(stage.starts), form)):
        device = devices[i % len(devices)]
        place = id(stage.data[i]), device
        if place not in placed:  # chains with the same data share them on a device
            placed[place] = jax.device_put(stage.data[i], device)
        if saved is None:
            start, key = jax.device_put(stage.starts[i], device), jax.random.fold_in(stage.key, i)
            state, last_key = programs.begin(kernel, target, placed[place], start, key, stage.settings)
            chains.append(Chain(i, placed[place], last_key, None))
        else:
            with jax.enable_x64(True):  # a float32 program may hold float64 numbers
                state, last_key = jax.device_put(saved.arrays[:2], device)
            rest = saved.arrays[2], saved.done, saved.gradients, saved.stopped
            chains.append(Chain(i, placed[place], last_key, *rest))
        states.append(state)
    draw, info = emission = programs.emission(kernel, target, chains[0].data, states[0])
    example = _example(draw)
    sites, functions = ({name: values[0] for name, values in group.items()} for group in keeping(example))
    ledger.begin(len(chains), len(method.kept) or method.iterations, (sites, info | functions))
    nothing = keeping.begin(example)
    for chain in chains:
        chain.average = chain.average or nothing
    return chains, states, emission


def saved_shapes(
    method: Method, target: Target, data: Data, start: Any, key: Any, settings: Any, keeping: Keeping
) -> tuple[Any, Any, Average | None]:
    """The form of what is saved of a chain: its state, its last key and its average."""
    (state, last_key), (draw, _) = programs.shapes(method.kernel(), target, data, start, key, settings)
    return state, last_key, keeping.begin(_example(draw))


def _example(draw: dict[str, Any]) -> Values:
    """One draw with the shapes of `draw`, of ones."""
    return {name: np.ones((1, *leaf.shape), leaf.dtype) for name, leaf in draw.items()}
