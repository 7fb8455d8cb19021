"""Chains in threads: each is a program of its own, and a chain's draws don't depend on how many others there are.

All chains execute the same compiled single-chain program, so a CPU needs no device count and no flag. On accelerators
the chains are dealt out to the devices.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

import jax
import numpy as np

from inference.engine import programs
from inference.engine.chain import Chain, Piece, begin_chains
from inference.engine.group import Group, Ran, next_work
from inference.engine.ledger import Ledger
from inference.engine.stage import Stage
from inference.host.machine import cores

__all__ = ["Threads"]


class Threads:
    """Each chain is a group of its own."""

    name, details = "threads", ""

    def begin(self, stage: Stage, ledger: Ledger) -> list[Group]:
        """The chains, each in a group of its own; one program and one set of empty buffers serve those of a device."""
        devices, kernel = _devices(stage.method.chains), stage.method.kernel()
        chains, states, emission = begin_chains(stage, devices, ledger)
        capacity = programs.capacity(emission)
        buffers = [programs.empty_buffers(emission, (capacity,), device) for device in devices]
        advance = [partial(programs.advance, kernel, stage.target, each) for each in buffers]
        return [
            _Alone(stage, chain, state, advance[i % len(devices)], capacity, first=i < len(devices))
            for i, (chain, state) in enumerate(zip(chains, states, strict=True))
        ]

    def workers(self, groups: int) -> int:
        """One per core."""
        return min(groups, cores())

    def compile_ahead(self, *program: Any) -> Future[Any]:
        """Compile the program in another thread."""
        return programs.compile_ahead(*program)


class _Alone:
    """A chain, the program that advances it, and where it is."""

    def __init__(
        self, stage: Stage, chain: Chain, state: Any, advance: Callable[..., Any], capacity: int, first: bool
    ) -> None:
        self.chains = [chain]
        self._stage, self._advance, self._capacity, self._first = stage, advance, capacity, first
        self._state, self._work = state, 1

    def prepare(self) -> None:
        """Compile the program, if this is the first group of its device."""
        if self._first:
            data = self.chains[0].data
            jax.block_until_ready(self._advance(data, self._state, np.int32(0), np.int32(0)))

    def run(self, goal: int) -> Ran:
        """Run a piece, and look whether all that it has emitted is finite."""
        (chain,), method, began = self.chains, self._stage.method, time.perf_counter()
        most, work = np.int32(min(self._capacity, goal - chain.done)), np.int32(self._work)
        done, worked, state, emission = jax.block_until_ready(self._advance(chain.data, self._state, most, work))
        count = int(done)
        draws, info = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], emission)
        piece: Any = Piece(chain.done, count, draws, info, int(method.kernel().left(state)))
        try:
            piece.check(method, self._stage.starts[0])
        except FloatingPointError as error:
            piece = error
        return Ran(state, [count], piece, int(worked) / max(time.perf_counter() - began, 1e-6))

    def go_on(self, ran: Ran, seconds: float) -> None:
        """Move on, unless the chain must stop."""
        if isinstance(ran.emission, FloatingPointError):
            self.chains[0].stopped = str(ran.emission)
            return
        self.chains[0].done += ran.counts[0]
        self._state, self._work = ran.states, next_work(ran.pace, seconds)

    def pieces(self, ran: Ran) -> Iterator[tuple[Chain, Piece | FloatingPointError]]:
        """The one piece."""
        yield self.chains[0], ran.emission

    def states(self) -> list[Any]:
        """Where the chain is."""
        return [self._state]


def _devices(chains: int) -> list[Any]:
    """Where chains run: on a CPU one device serves all threads, elsewhere chains are dealt out to the devices."""
    devices = jax.local_devices()
    return devices[:1] if devices[0].platform == "cpu" else devices[:chains]
