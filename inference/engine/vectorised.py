"""Chains as one program: each step is made for all chains of a device together, through `jax.vmap`.

An accelerator is busy with many chains at once, and with one alone it is not. What the program emits stays on the
device while the next piece begins, and is fetched meanwhile. Where not all chains fit into the memory of a device, they
are dealt out to groups of equal size, which take turns; a group that lacks chains has idle places.

The products of a layer's weights and inputs are made for all chains at once, so sums are rounded in another order than
in a program of one chain: the draws are as good, and not the same bits. How a run is cut into pieces, interrupted or
resumed changes nothing in them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.engine import programs
from inference.engine.chain import Chain, Piece, begin_chains
from inference.engine.group import Group, Ran, next_work
from inference.engine.ledger import Ledger
from inference.engine.stage import Stage
from inference.host.machine import device_memory
from inference.methods import Emission
from inference.target.density import Data

__all__ = ["Place", "Together", "Vectorised"]

_SHARE = 0.8  # of the memory that is free: the rest is for what else the process does


class Vectorised:
    """All chains of a device in one program, or in as few as its memory allows."""

    name = "vectorised"

    def __init__(self) -> None:
        self.details = ""

    def begin(self, stage: Stage, ledger: Ledger) -> list[Group]:
        """The chains in groups of equal size, at least one for each device that has chains."""
        devices = jax.local_devices()[: stage.method.chains]
        chains, states, emission = begin_chains(stage, devices[:1], ledger)
        size = math.ceil(len(chains) / len(devices))
        while not ledger.ended:
            first = Together(stage, chains[:size], states[:size], emission, size, _on_device(devices[0]))
            need, limit = first.bytes_needed(), _SHARE * device_memory(devices[0])
            if need <= limit or size == 1:
                break
            size = _even(len(chains), max(1, min(size - 1, int(size * limit / need))))
            self.details = f"{size} chains at a time, which is what the memory of the device holds"
        groups: list[Group] = []
        for i, start in enumerate(range(0, len(chains), size)):
            ours = slice(start, start + size)
            place = _on_device(devices[i % len(devices)])
            groups.append(Together(stage, chains[ours], states[ours], emission, size, place))
        return groups

    def workers(self, groups: int) -> int:
        """One per device: the groups of a device take turns."""
        return min(groups, len(jax.local_devices()))

    def compile_ahead(self, *program: Any) -> Future[Any] | None:
        """Nothing is compiled ahead: how many chains a program has is known when it has been compiled."""
        return None


class Place(NamedTuple):
    """Where the chains of a program are, and what advances them.

    Attributes:
        advance: the compiled function, with the arguments of `programs.advance_together`.
        data: puts the data there.
        chains: where arrays of shape (chain, ...) are.
    """

    advance: Any
    data: Callable[[Data], Data]
    chains: Any


def _on_device(device: Any) -> Place:
    """All on one device."""
    return Place(programs.advance_together, partial(jax.device_put, device=device), device)


class Together:
    """Chains of one program, and where they are: states of shape (chain, ...)."""

    def __init__(
        self, stage: Stage, chains: list[Chain], states: list[Any], emission: Emission, size: int, place: Place
    ) -> None:
        self.chains = chains
        self._stage, self._size, self._work = stage, size, 1
        self._advance, self._data = place.advance, place.data(chains[0].data)
        self._states = _stacked(states, size, place.chains)
        self._capacity = programs.capacity(emission, size)
        self._buffers = programs.empty_buffers(emission, (size, self._capacity), place.chains)
        self._read: tuple[Any, list[Any]] = None, []
        self._going = [True] * len(chains)

    def prepare(self) -> None:
        """Compile the program; groups of the same form find it."""
        jax.block_until_ready(self._advance(*self._program(), self._counts(0), np.int32(0)))

    def bytes_needed(self) -> float:
        """The memory that the program takes, as the compiler says; 0 where it does not say."""
        try:
            lowered = self._advance.lower(*self._program(), self._counts(0), np.int32(0))
            plan: Any = lowered.compile().memory_analysis()
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return math.inf
        if plan is None:
            return 0.0
        # Twice what it returns: a piece is fetched while the next one is made.
        return plan.argument_size_in_bytes + plan.temp_size_in_bytes + 2 * plan.output_size_in_bytes

    def run(self, goal: int) -> Ran:
        """Run a piece; what it has emitted is on its way to the host when this returns, and no more."""
        began = time.perf_counter()
        counts, work = self._counts(goal), np.int32(self._work)
        done, worked, states, emission = self._advance(*self._program(), counts, work)
        for leaf in jax.tree.leaves(emission):
            leaf.copy_to_host_async()
        made = int(np.max(worked))  # waits for the program
        return Ran(states, np.asarray(done).tolist(), emission, made / max(time.perf_counter() - began, 1e-6))

    def go_on(self, ran: Ran, seconds: float) -> None:
        """Move all chains on to the end of a piece."""
        for chain, count in zip(self.chains, ran.counts, strict=False):
            chain.done += count
        self._states, self._work = ran.states, next_work(ran.pace, seconds)
        # What is found out while the next piece is made must not change it: hosts find it out at different times.
        self._going = [not chain.stopped for chain in self.chains]

    def pieces(self, ran: Ran) -> Iterator[tuple[Chain, Piece | FloatingPointError]]:
        """What each chain has emitted; the check of it ends a chain one piece late, and does not look at that piece."""
        method = self._stage.method
        emission = jax.tree.map(np.asarray, ran.emission)
        left = np.broadcast_to(method.kernel().left(_whole(ran.states)), self._size)
        for i, chain in enumerate(self.chains):
            if chain.stopped:
                continue
            count = ran.counts[i]
            draws, info = jax.tree.map(lambda leaf, i=i, count=count: leaf[i, :count], emission)
            piece = Piece(chain.done - count, count, draws, info, int(left[i]))
            try:
                piece.check(method, self._stage.starts[0])
            except FloatingPointError as error:
                yield chain, error
            else:
                yield chain, piece

    def states(self) -> list[Any]:
        """Where each chain is, on the host."""
        if self._read[0] is not self._states:
            leaves, structure = jax.tree.flatten(_whole(self._states))
            parts = [list(leaf) if _is_key(leaf) else np.asarray(leaf) for leaf in leaves]
            each = [jax.tree.unflatten(structure, [part[i] for part in parts]) for i in range(len(self.chains))]
            self._read = self._states, each
        return self._read[1]

    def _program(self) -> tuple[Any, ...]:
        stage = self._stage
        return stage.method.kernel(), stage.target, self._buffers, self._data, self._states

    def _counts(self, goal: int) -> np.ndarray:
        """How many iterations each place of the group may make in a piece: none where there is no chain to advance."""
        counts = np.zeros(self._size, np.int32)
        for i, chain in enumerate(self.chains):
            counts[i] = np.clip(goal - chain.done, 0, self._capacity) if self._going[i] else 0
        return counts


def _even(chains: int, size: int) -> int:
    """The least size of groups of which as few are needed as of groups of `size`."""
    return math.ceil(chains / math.ceil(chains / size))


def _stacked(states: list[Any], size: int, where: Any) -> Any:
    """The `states` as one of arrays (chain, ...), with `size` places; the first fills those that are left over."""
    states = [*states, *states[:1] * (size - len(states))]

    def stacked(*leaves: Any) -> Any:
        if _is_key(leaves[0]):
            return jax.random.wrap_key_data(jnp.asarray(np.stack([jax.random.key_data(leaf) for leaf in leaves])))
        return np.stack([np.asarray(leaf) for leaf in leaves])

    with jax.enable_x64(True):  # a float32 program may hold float64 numbers
        return programs.put(jax.tree.map(stacked, *states), where)


def _whole(tree: Any) -> Any:
    """Arrays that this host has all of: of those that are whole on every device, its own."""
    return jax.tree.map(lambda leaf: leaf if leaf.is_fully_addressable else leaf.addressable_data(0), tree)


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
