"""What would ResNet-20-FRN on CIFAR-10 take on 1 to 512 devices, at 70,248 leapfrog steps per draw as in the paper?

A simulation on paper, of a run as `inference.engine.sharded` arranges it: a mesh of columns of chains and rows of data,
slots of rows that each device sums block by block, and a sum of the slots that has the same order on any number of
devices. A gradient takes

    blocks (overhead + images of a block x seconds per image)    what a device computes, with the images that fill up
    + moving + adding                                            the sums of the slots, see `Sums`
    + overhead of a step

of which the first term is for all chains of a column, one after the other. Izmailov et al. 2021 ran on 512 TPUs, with
70,248 steps per draw (https://arxiv.org/abs/2104.14421); how many hours a draw took there is not known here.

    python -m benchmarks.scaling                                     with the seconds per image of this machine
    python -m benchmarks.scaling --seconds-per-image 1e-5 --block 256 --bandwidth 7e10 --latency 1e-6

What is not in it: that a device is less busy with small blocks, several links of a device at once, stragglers, and the
two float64 energies of a trajectory, which are nothing beside its gradients.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

import models
from benchmarks.timing import medians, table
from inference.engine.sharded import mesh_shape
from inference.target.density import Data
from inference.target.row_shards import SLOTS, spread

__all__ = ["SUMS", "Gradient", "Machine", "Work", "gradient", "main"]

SUMS = ("gathered", "scattered")
"""How the sums of slots become one: gathered whole by every device, as today; or each device sums a share in order."""

_BYTES = 4  # of a float32
_DEVICES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


@dataclass(frozen=True)
class Machine:
    """What a device and its links do.

    Attributes:
        seconds_per_image: seconds per image of a gradient on one device.
        block_overhead: seconds that a block of images takes beside its images, to launch its kernels.
        step_overhead: seconds that a leapfrog step takes beside its gradient.
        bandwidth: bytes per second that a device receives.
        latency: seconds until a message to a neighbour arrives.
        messages: in how many messages a sum of slots goes to a neighbour; at worst one for each site of the network.
        memory: bytes per second that a device reads of its own memory, to add up slots.
    """

    seconds_per_image: float
    block_overhead: float = 1e-4
    step_overhead: float = 1e-5
    bandwidth: float = 7e10
    latency: float = 1e-6
    messages: int = 1
    memory: float = 9e11


@dataclass(frozen=True)
class Work:
    """What is to be done.

    Attributes:
        images: rows of the data.
        parameters: weights of the network.
        block: images per block at most.
        chains: how many chains.
        steps: leapfrog steps per draw.
    """

    images: int = 50_000
    parameters: int = 274_042
    block: int = 16
    chains: int = 1
    steps: int = 70_248


class Gradient(NamedTuple):
    """The seconds of a gradient of all chains of a column, and what is moved for it.

    Attributes:
        computing: for blocks of images, and the step's overhead.
        moving: for sums of slots on their way.
        adding: for adding them up.
        received: bytes that each device receives.
        columns: columns of the mesh, each with its own chains.
        rows: devices of a column, which share its rows of data.
    """

    computing: float
    moving: float
    adding: float
    received: float
    columns: int
    rows: int

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.computing + self.moving + self.adding


def gradient(work: Work, machine: Machine, devices: int, sums: str = "gathered") -> Gradient:
    """The cost of a gradient on a number of devices, with the sums of slots made in one of the ways of `SUMS`.

    With S slots of P parameters on R devices, `gathered` moves S P (R - 1) / R numbers to each device, around a ring of
    R - 1 steps, and each device adds S P numbers. `scattered` sends each device the slots of its share of parameters,
    and gathers the R shares of the sum: (S / R + 1) P (R - 1) / R numbers in 2 (R - 1) steps, and each device adds
    S P / R, in the same order. On one device nothing is moved.
    """
    columns, rows = mesh_shape(devices, work.chains, True)
    chains = math.ceil(work.chains / columns)
    some = Data((np.zeros(work.images, np.int8),), 1.0)
    slots, blocks, size = spread(some, work.block, max(SLOTS, rows)).counts.shape
    ours = slots // rows * blocks
    computing = chains * ours * (machine.block_overhead + size * machine.seconds_per_image) + machine.step_overhead
    whole = chains * work.parameters * _BYTES
    if sums == "gathered":
        received, hops, added = slots * whole * (rows - 1) / rows, rows - 1, slots * whole
    else:
        received, hops, added = (slots / rows + 1) * whole * (rows - 1) / rows, 2 * (rows - 1), slots * whole / rows
    moving = received / machine.bandwidth + hops * machine.messages * machine.latency
    return Gradient(computing, moving, added / machine.memory, received, columns, rows)


def _measured(block: int) -> float:
    """Seconds per image of a gradient of ResNet-20-FRN in a sampler's arrangement, on the device of this process."""
    from benchmarks.networks import images, inside_a_sampler

    x, y = images()
    step, _ = inside_a_sampler(models.resnet20_frn(), x, y, block)
    return medians({"ours": step}, repeats=3)["ours"] / len(x)


def _table(work: Work, machine: Machine) -> list[tuple[str, ...]]:
    heads = ["devices", "chains x rows", "images each"]
    for sums in SUMS:
        heads += [f"{sums}: MB per gradient", "efficiency", "hours per draw"]
    rows = [tuple(heads)]
    alone = gradient(work, machine, 1).seconds
    for devices in _DEVICES:
        costs = [gradient(work, machine, devices, sums) for sums in SUMS]
        first = costs[0]
        row = [f"{devices}", f"{first.columns} x {first.rows}", f"{work.images / first.rows:,.0f}"]
        for cost in costs:
            speed = alone / cost.seconds
            hours = cost.seconds * work.steps / 3600
            row += [f"{cost.received / 1e6:,.1f}", f"{speed / devices:.0%}", f"{hours:,.3g}"]
        rows.append(tuple(row))
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Print the assumptions, and the table."""
    parser = argparse.ArgumentParser(description="ResNet-20-FRN on CIFAR-10 by HMC on many devices, on paper.")
    records: tuple[Any, ...] = (Work, Machine)
    for item in (item for record in records for item in fields(record)):
        kind = int if item.type == "int" else float
        default = None if item.name == "seconds_per_image" else item.default
        said = "measured here by default" if default is None else f"default {default}"
        parser.add_argument(f"--{item.name.replace('_', '-')}", type=kind, default=default, help=said)
    given = vars(parser.parse_args(arguments))
    if given["seconds_per_image"] is None:
        given["seconds_per_image"] = _measured(given["block"])
    work, machine = (record(**{item.name: given[item.name] for item in fields(record)}) for record in records)
    for record in (work, machine):
        print(", ".join(f"{item.name} {getattr(record, item.name):.6g}" for item in fields(record)))
    print(f"a gradient on one device: {gradient(work, machine, 1).seconds:.3g} s\n")
    table(_table(work, machine))


if __name__ == "__main__":
    main()
