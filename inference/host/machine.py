"""What a run costs, and what the machine has: seconds and gradients, memory and cores."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Cost", "available_memory", "cores", "device_memory", "peak_memory"]

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # a container's, cgroup 2 and 1


@dataclass(frozen=True)
class Cost:
    """What a run took.

    Attributes:
        compile_seconds: seconds for tracing and compiling (or reading the compilation cache), and finding the starts.
        run_seconds: seconds for everything after that.
        gradients: gradient evaluations of the log density over all rows, by all chains, warm-up included; a gradient
            over a minibatch counts as the minibatch's share of the rows.
        peak_memory: the process's largest resident size so far, in bytes; 0 where the system does not say.
        arrangement: how the chains shared the machine, "threads", "vectorised" or "sharded"; empty where none ran.
        arranged: why that was chosen, in words.
        products: the precision of float32 products in the words of JAX, "highest" for instance; empty where neither the
            user nor Touchstone has chosen one, as on a CPU, whose products have float32's own.
    """

    compile_seconds: float
    run_seconds: float
    gradients: int
    peak_memory: int
    arrangement: str = ""
    arranged: str = ""
    products: str = ""

    @property
    def seconds(self) -> float:
        """Seconds for compiling and running together."""
        return self.compile_seconds + self.run_seconds

    def __add__(self, other: Cost) -> Cost:
        """The cost of two stages that run one after the other; arrangement and products are those of the second."""
        return Cost(
            self.compile_seconds + other.compile_seconds,
            self.run_seconds + other.run_seconds,
            self.gradients + other.gradients,
            max(self.peak_memory, other.peak_memory),
            *((other.arrangement, other.arranged) if other.arrangement else (self.arrangement, self.arranged)),
            other.products or self.products,
        )


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_memory() -> int:
    """The process's largest resident size so far, in bytes; 0 where the system does not say."""
    if sys.platform == "win32":
        return 0
    import resource  # Unix only

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


def available_memory() -> float:
    """Memory of the machine, or of the container that the process is in, in bytes; infinite where it is not known."""
    found = [math.inf]
    try:
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # on Windows, or where the system lacks these numbers
        pass
    for limit in _LIMITS:
        try:
            found.append(float(Path(limit).read_text()))
        except (OSError, ValueError):  # no container, or the word "max"
            pass
    return min(found)


def device_memory(device: Any) -> float:
    """Memory of a JAX device that is free, in bytes; of a device that does not say, such as a CPU, the machine's."""
    stats = device.memory_stats() or {}
    if "bytes_limit" not in stats:
        return available_memory()
    return float(stats["bytes_limit"] - stats.get("bytes_in_use", 0))
