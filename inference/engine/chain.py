"""A chain on the host: where it is, what it has emitted so far, and how one more piece of it is run and taken in.

A worker thread runs a piece and changes nothing; the main thread takes it in. Between two pieces a chain is whole and
can be saved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
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
    """What a worker returns: the next state, what its iterations have emitted, and its pace, in work per second."""

    state: Any
    draws: Values
    info: Values
    iterations: int
    pace: float


@dataclass
class Chain:
    """One chain of a method.

    Attributes:
        number: the chain's number.
        device: where it runs.
        data: the target's data.
        state: the state of the method's kernel.
        last_key: the key for the method's conclusion.
        average: the average of its predictions so far; None if none is asked for.
        done: iterations made so far.
        gradients: gradients evaluated so far.
        stopped: why it stopped before its end; empty if it did not.
    """

    number: int
    device: Any
    data: Data
    state: Any
    last_key: jax.Array
    average: Average | None
    done: int = 0
    gradients: float = 0.0
    stopped: str = ""
    _work: int = 1
    _keeping: bool = False
    _sums: dict[str, float] = field(default_factory=dict)

    def saved(self) -> Saved:
        """The part of the chain that outlives the process."""
        return Saved((self.state, self.last_key, self.average), self.done, self.gradients, self.stopped)

    def run(self, method: Method, advance: Callable[..., Any], most: int, latent: Iterable[str]) -> Piece:
        """Run a piece of at most `most` iterations.

        Raises:
            FloatingPointError: if a site in `latent` is no longer finite, or `method.watch` refuses the scalars.
        """
        began = time.perf_counter()
        work = np.int32(self._work)
        done, worked, state, emission = jax.block_until_ready(advance(self.data, self.state, np.int32(most), work))
        count = int(done)
        draws, info = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], emission)
        method.watch(info, self.done + count)
        for name in latent if draws else ():
            if not np.isfinite(draws[name]).all():
                raise FloatingPointError(
                    f"{method.name}: the site '{name}' was no longer finite between iterations {self.done} and "
                    f"{self.done + count}"
                )
        return Piece(state, draws, info, count, int(worked) / max(time.perf_counter() - began, 1e-6))

    def go_on(self, piece: Piece, seconds: float) -> int:
        """Move on to the end of `piece`, and let the next piece take about `seconds`.

        Returns:
            The number of the first iteration of `piece`.
        """
        first = self.done
        self.state, self.done = piece.state, self.done + piece.iterations
        self._work = int(np.clip(piece.pace * seconds, 1, 2**30))
        return first

    def take(self, first: int, piece: Piece, method: Method, ledger: Ledger, keeping: Keeping) -> str:
        """Take in what `piece` has emitted, whose first iteration was `first`; returns the chain's status in words."""
        wanted, iterations = method.kept, range(first, first + piece.iterations)
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
        left = method.kernel().left(piece.state)
        stage = "" if self._keeping else "warming up"
        status = method.status(shown, self._sums) if self._sums["count"] else ""
        return ", ".join(words for words in (stage, status, f"{left} steps left" if left else "") if words)


def begin_chains(stage: Stage, devices: Sequence[Any], ledger: Ledger) -> tuple[list[Chain], Emission]:
    """The chains, each at its start or where it was saved in `ledger`, and the shapes of what an iteration emits."""
    method, target, keeping = stage.method, stage.target, stage.keeping
    kernel = method.kernel()
    form = partial(saved_shapes, method, target, stage.data[0], stage.starts[0], stage.key, stage.settings, keeping)
    chains, placed = [], dict[Any, Data]()
    for i, saved in enumerate(ledger.restore(len(stage.starts), form)):
        device = devices[i % len(devices)]
        place = id(stage.data[i]), device
        if place not in placed:  # chains with the same data share them on a device
            placed[place] = jax.device_put(stage.data[i], device)
        if saved is None:
            start, key = jax.device_put(stage.starts[i], device), jax.random.fold_in(stage.key, i)
            state, last_key = programs.begin(kernel, target, placed[place], start, key, stage.settings)
            chains.append(Chain(i, device, placed[place], state, last_key, None))
        else:
            state, last_key = jax.device_put(saved.arrays[:2], device)
            rest = saved.arrays[2], saved.done, saved.gradients, saved.stopped
            chains.append(Chain(i, device, placed[place], state, last_key, *rest))
    draw, info = emission = programs.emission(kernel, target, chains[0].data, chains[0].state)
    example = _example(draw)
    sites, functions = ({name: values[0] for name, values in group.items()} for group in keeping(example))
    ledger.begin(len(chains), len(method.kept) or method.iterations, (sites, info | functions))
    nothing = keeping.begin(example)
    for chain in chains:
        chain.average = chain.average or nothing
    return chains, emission


def saved_shapes(
    method: Method, target: Target, data: Data, start: Any, key: Any, settings: Any, keeping: Keeping
) -> tuple[Any, Any, Average | None]:
    """The form of what is saved of a chain: its state, its last key and its average."""
    (state, last_key), (draw, _) = programs.shapes(method.kernel(), target, data, start, key, settings)
    return state, last_key, keeping.begin(_example(draw))


def _example(draw: dict[str, Any]) -> Values:
    """One draw with the shapes of `draw`, of ones."""
    return {name: np.ones((1, *leaf.shape), leaf.dtype) for name, leaf in draw.items()}
