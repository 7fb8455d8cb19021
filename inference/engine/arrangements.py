"""How the chains of a stage share the machine: which arrangement is taken, and why.

An arrangement is a file of this room with a class that deals chains out to groups; see `inference.engine.group`. The
driver knows no more of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax

from inference.engine.group import Arrangement
from inference.engine.sharded import Sharded
from inference.engine.threads import Threads
from inference.engine.vectorised import Vectorised
from inference.host.hosts import alone, count
from inference.methods import Method
from inference.optimisation.optimiser import Optimisation
from inference.samplers import Sampler

__all__ = ["arrange", "for_hosts"]

_BY_NAME: dict[str, Callable[[], Arrangement]] = {
    "threads": Threads,
    "vectorised": Vectorised,
    "sharded": Sharded,
}


def arrange(method: Method) -> tuple[Arrangement, str]:
    """The arrangement that a method asks for, or the one that fits the machine; and why it was chosen, in words."""
    if count() > 1:  # the chains of every method, as pieces of chains in threads can't be agreed on
        return Sharded(), f"there are {count()} hosts"
    if method.arrangement != "auto":
        return _BY_NAME[method.arrangement](), "asked for"
    devices = jax.local_devices()
    if devices[0].platform == "cpu":
        return Threads(), "on a CPU, chains in threads are faster than chains in one program"
    if method.chains == len(jax.devices()) == 1:
        return Threads(), "there are one chain and one accelerator"
    if len(jax.devices()) > 1:
        return Sharded(), f"there are {len(jax.devices())} accelerators"
    return Vectorised(), "the accelerator is busy only with many chains at once"


def for_hosts(method: Method) -> Method:
    """A method as several hosts run it, which its record tells, so that it has the same bits on another number of them.

    Raises:
        ValueError: if several hosts can't run it.
    """
    if count() == 1:
        return method
    if isinstance(method, Optimisation) and method.restarts > 1:
        alone(f"{method.name} has restarts={method.restarts}, fits side by side,")
    if not isinstance(method, Sampler):
        return method
    if method.arrangement not in ("auto", "sharded"):
        alone(f"{method.name} has arrangement={method.arrangement!r}")
    return replace(method, arrangement="sharded")
