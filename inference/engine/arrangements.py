"""How the chains of a stage share the machine: which arrangement is taken, and why.

An arrangement is a file of this room with a class that deals chains out to groups; see `inference.engine.group`. The
driver knows no more of it.
"""

from __future__ import annotations

from collections.abc import Callable

import jax

from inference.engine.group import Arrangement
from inference.engine.sharded import Sharded
from inference.engine.threads import Threads
from inference.engine.vectorised import Vectorised
from inference.methods import Method

__all__ = ["arrange"]

_BY_NAME: dict[str, Callable[[], Arrangement]] = {
    "threads": Threads,
    "vectorised": Vectorised,
    "sharded": Sharded,
}


def arrange(method: Method) -> tuple[Arrangement, str]:
    """The arrangement that a method asks for, or the one that fits the machine; and why it was chosen, in words."""
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
