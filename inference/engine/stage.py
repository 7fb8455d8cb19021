"""What the driver is given, a stage of a run, and what it returns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from inference.engine.kept_draws import Keeping
from inference.engine.ledger import Saved, Values
from inference.host.machine import Cost
from inference.methods import Method
from inference.results.running_averages import Average
from inference.target.density import Position, Target

__all__ = ["Outcome", "Stage", "Stop"]


@runtime_checkable
class Stop(Protocol):
    """When a stage may end before all its iterations are made."""

    @property
    def milestones(self) -> Sequence[int]:
        """The numbers of draws, or of iterations of a method that keeps none, after which to ask."""

    def met(self, draws: Values, scalars: Values) -> bool:
        """Whether the draws and scalars up to a milestone are enough."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage of a run: what the driver is to run.

    Attributes:
        title: what the display calls it.
        method: what to run.
        target: what to run it on.
        data: each chain's data of the target; for many fits together, see `inference.runs.side_by_side`.
        key: the stage's key, into which each chain folds its number.
        starts: each chain's start.
        settings: the kernel's settings, which all chains share.
        keeping: what to keep of the draws.
        stop: when to end early; None makes all iterations.
        gather: False if only the last states are of use; then one chain that fails ends the stage.
    """

    title: str
    method: Method
    target: Target
    data: Sequence[Any]
    key: jax.Array
    starts: list[Position]
    settings: Any
    keeping: Keeping
    stop: Stop | None = None
    gather: bool = True

    def fingerprints(self, chains: list[Saved]) -> dict[str, str]:
        """Of all that the draws depend on, and of where the `chains` are: what several hosts must have in common."""
        return {
            "the model": self.target.identity or _words(self.target.model),
            "the options": _words(self.method),
            "the data": _fingerprint(self.data[0]),
            "the seed": _fingerprint(self.key),
            "the settings": _fingerprint(self.settings),
            "the chains": _fingerprint(chains),
        }


@dataclass(frozen=True)
class Outcome:
    """What the driver hands to the posterior.

    Attributes:
        draws: each site's values, (chain, draw, ...).
        statistics: each scalar of the draws, (chain, draw).
        curves: each scalar of the iterations of a method that optimises, (chain, step).
        averages: each chain's averaged predictions, if any were asked for.
        states: each chain's last state.
        saved: each chain with all that is needed to continue it.
        stopped: the chains that stopped before their end and why; their draws are left out.
        cost: what the stage took, earlier processes included.
        ended: why it ended: "draws", all were made; "until", enough were; "interrupted", by Ctrl-C.
        interrupted: whether Ctrl-C was pressed, even if only while the last iteration was under way.
    """

    draws: Values
    statistics: Values
    curves: Values
    averages: list[Average]
    states: list[Any]
    saved: list[Saved]
    stopped: dict[int, str]
    cost: Cost
    ended: str
    interrupted: bool


def _words(record: Any) -> str:
    """A record as text, without the addresses of its functions, which say nothing."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(record))


def _fingerprint(tree: Any) -> str:
    """The SHA-256 of the arrays of a tree."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        digest.update(f"{array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
