"""What a method is: a frozen record of options with an `init` and a `step`, which the one driver runs.

A method's state is made of arrays only, and `step` is pure, so the driver can compile it, run it in any number of
pieces, show its progress, stop it and, from the state alone, resume it. A run has up to three stages, each driven
alike: the chains' starts may come from an ensemble, a `pilot` may find settings that all chains share, then the chains
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np

from inference.host.documentation import join_attributes
from inference.target.data_remarks import noiseless
from inference.target.density import Data, Position, Target
from models.validation import one_of, plain_numbers, positive_integer

__all__ = ["KEEPS", "PRECISIONS", "STARTS", "Draws", "Emission", "Method", "Step"]

KEEPS = ("all", "last_layer", "none")
PRECISIONS = ("float32", "float64")
STARTS = ("ensemble", "map", "random", "prior")

Draws = dict[str, jax.Array]
Emission = tuple[Draws, dict[str, jax.Array]]


class Step(NamedTuple):
    """What `Method.step` gives back.

    Attributes:
        state: the next state.
        emission: the sites' values and scalars for diagnostics; they count where the iteration is complete.
        complete: whether an iteration is complete; one that is not is continued by the next step.
        work: what the step took, in units of which an iteration may take many.
    """

    state: Any
    emission: Emission
    complete: Any = True
    work: Any = 1


@dataclass(frozen=True, kw_only=True)
class Method:
    """Base of all methods. Subclasses add their options as fields and document each there, once.

    Attributes:
        name: what `inference.run(method=...)` calls it.
        kind: what its draws are: "chains" of a Markov chain, independent draws from a "guide", or a "point".
        precision: "float32" or "float64", of the whole computation; nothing else in the user's program changes.
        chunk_size: sum the log-likelihood and its gradient over blocks of this many rows, which bounds the memory; None
            takes 2,048 from 20,001 rows on, and all rows at once below. For networks.
    """

    name: ClassVar[str]
    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        join_attributes(cls)

    precision: str = "float32"
    chunk_size: int | None = None

    def __post_init__(self) -> None:
        plain_numbers(self)
        one_of(f"{self.name}: precision", self.precision, PRECISIONS)
        if self.chunk_size is not None:
            positive_integer(f"{self.name}: chunk_size", self.chunk_size)

    @property
    def chains(self) -> int:
        """How many independent repetitions the driver runs."""
        return 1

    @property
    def iterations(self) -> int:
        """How many iterations a chain has."""
        raise NotImplementedError(f"{type(self).__name__} must say how long it runs")

    @property
    def kept(self) -> Sequence[int]:
        """The iterations whose draws are kept; empty if the draws are made by `conclude`."""
        return range(0)

    @property
    def keep(self) -> str:
        """What is kept of each draw, one of `KEEPS`."""
        return "all"

    @property
    def start(self) -> str | None:
        """Where chains start, one of `STARTS`; None chooses by the model."""
        return "random"

    @property
    def linearised(self) -> bool | None:
        """Whether a network predicts as linearised at the mean of the draws, its coordinates' "mean" in `fitted`."""
        return False

    def fixed(self) -> Method:
        """This method with nothing left to choose by temperature or prior, so that runs of a sweep differ in those."""
        return self

    def resolved(self, target: Target, data: Data) -> Method:
        """This method with the options that follow from the model and its data where the user left them to it."""
        return self

    def program(self) -> Method:
        """This method with every option that does not shape its compiled `step` set to one value."""
        return self

    def check(self, target: Target, data: Data) -> None:
        """Raise ValueError, before anything compiles, if the options don't fit the data."""

    def identity(self, target: Target, data: Data) -> str:
        """A fingerprint of what the user's functions among the options compute; nothing if there are none."""
        return ""

    def notes(self, target: Target, data: Data) -> tuple[str, ...]:
        """What a user should know about this method on this target before it runs; no verdict depends on it."""
        return noiseless(target.model, data.arrays) if self.kind != "point" else ()

    def concerns(
        self, target: Target, data: Data, statistics: dict[str, np.ndarray], chains: Sequence[int]
    ) -> tuple[str, ...]:
        """What the scalars of the draws of these chains say against them when the run is over; each fails a verdict."""
        return ()

    @property
    def caveat(self) -> str:
        """What is wrong with the draws even where they have converged, in a sentence; nothing if they are exact."""
        return ""

    def settings(self, target: Target, data: Data) -> Any:
        """Arrays that follow from model and data, computed once on the host and given to `init`."""
        return None

    @property
    def fits(self) -> int:
        """How many fits are made at once, of which the best is kept."""
        return 1

    def portion(self, data: Any, chain: int) -> Any:
        """The data of one chain."""
        return data

    def pilot(self) -> Method | None:
        """A method of one chain with the same program, run first from the start of chain 0; None does without."""
        return None

    def tuned(self, settings: Any, state: Any) -> Any:
        """The settings of all chains, from those of the pilot and its last state."""
        return settings

    def init(self, target: Target, data: Data, position: Position, key: jax.Array, settings: Any) -> Any:
        """The state before the first step."""
        raise NotImplementedError(f"{type(self).__name__} must have an init")

    def step(self, target: Target, data: Data, state: Any, limit: jax.Array) -> Step:
        """One iteration, or as much of it as `limit` units of work allow."""
        raise NotImplementedError(f"{type(self).__name__} must have a step")

    def finish(self, target: Target, data: Data, state: Any) -> Any:
        """The state that `conclude` and `fitted` are given, from the last one of a method that keeps no draws."""
        return state

    def conclude(self, target: Target, data: Data, state: Any, key: jax.Array) -> Emission:
        """Draws and scalars, each with a leading draw axis, from the finished state of a method that keeps none."""
        raise NotImplementedError(f"{type(self).__name__} keeps the draws of its iterations")

    def fitted(self, state: Any) -> dict[str, np.ndarray]:
        """What a user may want of a chain's last state, by name."""
        return {}

    def watch(self, info: dict[str, np.ndarray], done: int) -> None:
        """Look at the scalars of a piece that ended after `done` iterations; raise to stop the run."""

    def gradients(self, info: dict[str, np.ndarray], data: Data) -> float:
        """How many gradients over all rows a piece with these scalars took."""
        return float(info["n_steps"].sum())

    def status(self, info: dict[str, np.ndarray], sums: dict[str, float]) -> str:
        """How it goes, in a few words for the progress bar: by the last piece's scalars and the sums of all so far."""
        return ""

    def under_way(self, state: Any) -> str:
        """Where an iteration stands that takes more than one piece, in a few words."""
        return ""

    @classmethod
    def takes(cls) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(item.name for item in fields(cls))

    def options(self) -> dict[str, Any]:
        """The options by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def record(self) -> dict[str, Any]:
        """Name and options as a file can hold them.

        Raises:
            ValueError: if an option is a function, or another object of the user's.
        """
        for option, value in self.options().items():
            if callable(value):
                what = "function" if hasattr(value, "__name__") else type(value).__name__
                raise ValueError(
                    f"{self.name}: {option} is a {what} of your own, which a file can't hold; keep the draws by "
                    "posterior.idata.to_netcdf(path), or use one that has a name"
                )
        return {"name": self.name, "options": self.options()}


join_attributes(Method)
