"""Chains over several devices, and rows too where there are more devices than chains: one program on a mesh.

The mesh has two axes, columns x rows. Each column of devices has its own chains, and its devices share the rows of the
data: each has whole slots of them, and they add up gradients in an order that does not depend on their number, see
`inference.target.row_shards`. On CPUs a device advances its chains one after the other, and a chain's draws are the
same bits on 1, 2, 4 and 8 devices; on accelerators it advances them together. Rows are spread where the model is a
network that sees all of them in every step; elsewhere each device has all rows.

The devices may be those of several hosts, on each of which this code runs. A host puts only those rows on its devices
that are theirs; what a piece has emitted, and where the chains are, is gathered on every device at its end, so that
each host can read it, and the first one can save it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from inference.engine import programs
from inference.engine.chain import begin_chains
from inference.engine.group import Group
from inference.engine.ledger import Ledger
from inference.engine.stage import Stage
from inference.engine.vectorised import Place, Together
from inference.methods import Emission, Kernel, Method
from inference.target.density import Data, Target
from inference.target.row_shards import ROWS, SLOTS, spread
from models import Network

__all__ = ["Sharded", "mesh_of", "mesh_shape"]

_COLUMNS = "columns"  # the mesh's axis of chains


class Sharded:
    """All chains as one group on a mesh of all devices."""

    name = "sharded"

    def __init__(self) -> None:
        self.details = ""

    def begin(self, stage: Stage, ledger: Ledger) -> list[Group]:
        """The chains, with as many places as the columns of the mesh need."""
        chains, states, emission = begin_chains(stage, jax.local_devices()[:1], ledger)
        data = jax.device_get(chains[0].data)
        for chain in chains:
            chain.data = data  # on the host, as no device needs all of it any more
        in_rows = _in_rows(stage.method, stage.target, chains[0].data)
        mesh = mesh_of(jax.devices(), len(chains), in_rows)
        columns, rows = mesh.devices.shape
        self.details = f"{columns} x {rows} devices for chains x rows"
        size = columns * math.ceil(len(chains) / columns)
        one_by_one = mesh.devices.flat[0].platform == "cpu"
        replicated, by_rows = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec(ROWS))
        out = replicated if mesh.is_multi_process else NamedSharding(mesh, PartitionSpec(_COLUMNS))

        def put(data: Data) -> Data:
            with jax.enable_x64(True):  # as they are
                if not in_rows:
                    return programs.put(data, replicated)
                parts = spread(data, stage.target.block, max(SLOTS, rows))
                arrays, counts = programs.put((parts.arrays, parts.counts), by_rows)
                return Data(arrays, programs.put(data.temperature, replicated), counts)

        place = Place(_Advance(mesh, one_by_one, in_rows, out), put, out)
        return [Together(stage, chains, states, emission, size, place)]

    def workers(self, groups: int) -> int:
        """One: there is one group."""
        return 1

    def compile_ahead(self, *program: Any) -> Future[Any] | None:
        """Nothing is compiled ahead."""
        return None


class _Advance(NamedTuple):
    """`_advance` on a mesh, compiled, with the arguments of `programs.advance_together`."""

    mesh: Mesh
    one_by_one: bool
    in_rows: bool
    out: NamedSharding

    def __call__(self, *program: Any) -> Any:
        return self._compiled()(self.mesh, self.one_by_one, self.in_rows, *program)

    def lower(self, *program: Any) -> Any:
        return self._compiled().lower(self.mesh, self.one_by_one, self.in_rows, *program)

    def _compiled(self) -> Any:
        return _compiled(self.one_by_one, self.out)


@cache
def _compiled(one_by_one: bool, out: NamedSharding) -> Any:
    """`_advance` as a compiled function, made at the first call, so that an import touches no device.

    XLA simplifies algebra before it inlines functions on one device, and after that on several: x / exp(u) is x exp(-u)
    here and not there. Where the bits are promised, it leaves algebra as it is.
    """
    options = {"xla_disable_hlo_passes": "algsimp"} if one_by_one else None
    return jax.jit(_advance, static_argnums=range(5), compiler_options=options, out_shardings=out)


def _advance(
    mesh: Mesh,
    one_by_one: bool,
    in_rows: bool,
    kernel: Kernel,
    target: Target,
    buffers: Emission,
    data: Data,
    states: Any,
    counts: jax.Array,
    work: jax.Array,
) -> tuple[jax.Array, jax.Array, Any, Emission]:
    """`programs.advance_together` on a mesh: each device advances its column's chains, on its share of the rows."""

    def local(buffers: Emission, data: Data, states: Any, counts: jax.Array, work: jax.Array) -> Any:
        if not one_by_one:
            return programs.advance_together(kernel, target, buffers, data, states, counts, work)

        def one(chain: tuple[Emission, Any, jax.Array]) -> Any:
            buffers, state, count = chain
            return programs.advance(kernel, target, buffers, data, state, count, work)

        return lax.map(one, (buffers, states, counts))

    chains, everywhere = PartitionSpec(_COLUMNS), PartitionSpec()
    rows: Any = PartitionSpec(ROWS) if in_rows else everywhere
    shares = Data(rows, everywhere, rows)
    return jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(chains, shares, chains, chains, everywhere),
        out_specs=chains,
        check_vma=False,  # all devices of a row of the mesh compute the same
    )(buffers, data, states, counts, work)


def mesh_of(devices: Sequence[Any], chains: int, in_rows: bool) -> Mesh:
    """A mesh of as many `devices` as can be used; see `mesh_shape`.

    Raises:
        ValueError: if a host would have none of its devices in it.
    """
    hosts = {device.process_index for device in devices}
    columns, rows = mesh_shape(len(devices), chains, in_rows, len(hosts))
    used = devices[: columns * rows]
    if hosts != {device.process_index for device in used}:
        raise ValueError(
            f"{chains} chains can't be dealt out so that {len(hosts)} hosts with {len(devices)} devices all have work; "
            f"try chains={len(devices)}, or a number of hosts that is a power of two"
        )
    return Mesh(np.array(used).reshape(columns, rows), (_COLUMNS, ROWS))


def mesh_shape(devices: int, chains: int, in_rows: bool, hosts: int = 1) -> tuple[int, int]:
    """How many columns of a number of devices there are for chains, and how many devices of a column share its rows."""
    every = in_rows or hosts > 1  # the devices of a column compute the same, each for its host, or share the rows
    columns = max(count for count in range(1, chains + 1) if devices % count == 0 or not every)
    columns = min(columns, devices)
    rows = devices // columns if every else 1
    return columns, 2 ** int(math.log2(rows)) if in_rows else rows


def _in_rows(method: Method, target: Target, data: Data) -> bool:
    """Whether rows can be spread: every step sees all rows of a network's arrays, whatever randomness they have."""
    options = method.options()
    whole = options.get("batch_size") is None and not options.get("bootstrap") and method.kind != "guide"
    return whole and isinstance(target.model, Network) and len({len(array) for array in data.arrays}) == 1
