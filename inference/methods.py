"""What a method is: a record of the user's options, and a kernel, which is what the one driver compiles and runs.

A kernel has an `init` and a `step`. It holds only what shapes the compiled program; everything else, such as lengths
and step sizes, reaches it as arrays in `settings`. So runs that differ in those share one program, and a step can't
read an option that the program does not depend on. Its state is made of arrays only, and `step` is pure, so the driver
can run it in any number of pieces, show its progress, stop it and, from the state alone, resume it. A run has up to
three stages, all run by the same driver: the chains' starts may come from an ensemble, a `pilot` may find settings that
all chains share, in one round or several, then the chains run.

What a method has to say about its draws is a note, a concern or a caveat. A note is known before the run, and no
verdict depends on it. A concern is found in the draws when the run is over, and fails the verdict. A caveat always
holds for the method's draws, even where they have converged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np

from inference.host.documentation import join_attributes
from inference.target.data_remarks import noiseless
from inference.target.density import Data, Position, Target
from models.validation import one_of, plain_numbers, positive_integer

__all__ = [
    "ARRANGEMENTS",
    "KEEPS",
    "PRECISIONS",
    "STARTS",
    "Draws",
    "Emission",
    "Found",
    "Kernel",
    "Method",
    "Rehearsal",
    "Step",
]

ARRANGEMENTS = ("auto", "threads", "vectorised", "sharded")
KEEPS = ("all", "last_layer", "none")
PRECISIONS = ("float32", "float64")
STARTS = ("ensemble", "map", "random", "prior")

Draws = dict[str, jax.Array]
Emission = tuple[Draws, dict[str, jax.Array]]


class Step(NamedTuple):
    """What `Kernel.step` returns.

    Attributes:
        state: the next state.
        emission: the sites' values and scalars for diagnostics; they count only if `complete` is true.
        complete: whether the step has completed an iteration; if not, the next step continues it.
        work: units of work that the step took, leapfrog steps for instance; an iteration may take many.
    """

    state: Any
    emission: Emission
    complete: Any = True
    work: Any = 1


class Rehearsal(NamedTuple):
    """What a round of a pilot has shown.

    Attributes:
        states: the last state of each of its chains.
        statistics: the scalars of its draws, (chain, draw).
        functions: gives the functions of its draws, (chain, draw, k); the sites' values, if the model is not a network.
    """

    states: Sequence[Any]
    statistics: dict[str, np.ndarray]
    functions: Callable[[], np.ndarray]


class Found(NamedTuple):
    """What a method has learned from a round of its pilot.

    Attributes:
        settings: those of the next round, or of the chains.
        positions: where the pilot's chains got to, from which the next round, or the first chains, go on; None if they
            begin at their own starts.
        note: what a user should know; empty if all went well.
    """

    settings: Any
    positions: list[Position] | None = None
    note: str = ""


class Kernel:
    """Base of what is compiled. Subclasses are frozen dataclasses: a program is looked up by its kernel's value."""

    def init(self, target: Target, data: Data, position: Position, key: jax.Array, settings: Any) -> Any:
        """The state before the first step."""
        raise NotImplementedError(f"{type(self).__name__} must have an init")

    def step(self, target: Target, data: Data, state: Any, limit: jax.Array) -> Step:
        """One iteration, or as much of it as `limit` units of work allow."""
        raise NotImplementedError(f"{type(self).__name__} must have a step")

    def left(self, state: Any) -> Any:
        """How many steps are left in the iteration under way, for kernels whose iterations may span several pieces.

        For a state of several chains, (chain, ...), this is an array.
        """
        return 0


@dataclass(frozen=True, kw_only=True)
class Method:
    """Base of all methods. Subclasses add their options as fields and document each there, once.

    Attributes:
        name: the name by which `inference.run(method=...)` finds it.
        kind: what its draws are: Markov "chains", independent draws from a "guide", or a "point".
        precision: "float32" or "float64", for the whole computation; the rest of the user's program is unaffected.
        chunk_size: rows per block over which the log-likelihood and its gradient are summed, which bounds the memory;
            None takes 2,048 for data of more than 20,000 rows, and all rows at once for fewer. For networks only.
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
    def arrangement(self) -> str:
        """How the chains share the machine, one of `ARRANGEMENTS`; see `inference.engine.arrangements`."""
        return "threads"

    @property
    def iterations(self) -> int:
        """How many iterations a chain has."""
        raise NotImplementedError(f"{type(self).__name__} must say how long it runs")

    @property
    def kept(self) -> Sequence[int]:
        """The iterations whose draws are kept; empty if the draws are made by `conclude`."""
        return range(0)

    @property
    def start(self) -> str | None:
        """Where chains start, one of `STARTS`; None chooses according to the model."""
        return "random"

    def suited(self, target: Target, data: Data) -> Method:
        """This method with the options that the user left open chosen to suit the model and its data.

        Raises:
            ValueError: if the options don't fit the model or its data; raised before anything compiles.
        """
        return self

    def fixed(self) -> Method:
        """This method with no option left to follow temperature or prior, so that runs of a sweep differ in those."""
        return self

    def identity(self, target: Target, data: Data) -> str:
        """A fingerprint of what the user's own functions among the options compute; empty if there are none."""
        return ""

    def notes(self, target: Target, data: Data) -> tuple[str, ...]:
        """What a user should know about this method on this target before it runs; no verdict depends on it."""
        return noiseless(target.model, data.arrays) if self.kind != "point" else ()

    def concerns(
        self, target: Target, data: Data, statistics: dict[str, np.ndarray], chains: Sequence[int]
    ) -> tuple[str, ...]:
        """What `statistics`, the scalars of the draws of `chains`, say against the draws; each fails the verdict."""
        return ()

    @property
    def caveat(self) -> str:
        """What is wrong with the draws even where they have converged, in a sentence; empty if they are exact."""
        return ""

    def kernel(self) -> Kernel:
        """What the driver compiles and runs."""
        raise NotImplementedError(f"{type(self).__name__} must have a kernel")

    def settings(self, target: Target, data: Data) -> Any:
        """Arrays that follow from options, model and data, computed once on the host and passed to the kernel."""
        return None

    def pilot(self, settings: Any) -> Method | None:
        """A method to run before the chains, from the first starts; None if nothing is to be found.

        It is asked again after each round, with the settings that the round led to. The number of its chains must not
        depend on the number of chains that the user asks for.
        """
        return None

    def tuned(self, target: Target, data: Data, settings: Any, rehearsal: Rehearsal) -> Found:
        """What a round of the pilot, which ran with `settings`, has found."""
        raise NotImplementedError(f"{type(self).__name__} has no pilot")

    def conclude(self, target: Target, data: Data, state: Any, key: jax.Array) -> tuple[Emission, Any]:
        """Make the draws of a method that keeps none while it runs, from a chain's last state.

        Returns:
            Draws and scalars, each with a leading draw axis, and the state that `fitted` is given.
        """
        raise NotImplementedError(f"{type(self).__name__} keeps the draws of its iterations")

    def fitted(self, state: Any) -> dict[str, np.ndarray]:
        """The parts of a chain's last state that a user may want, by name."""
        return {}

    def watch(self, info: dict[str, np.ndarray], done: int) -> None:
        """Look at the scalars of a piece that ended after `done` iterations; raise to stop the run."""

    def gradients(self, info: dict[str, np.ndarray], data: Data) -> float:
        """How many gradients over all rows a piece took that emitted the scalars `info`."""
        return float(info["n_steps"].sum())

    def status(self, info: dict[str, np.ndarray], sums: dict[str, float]) -> str:
        """A few words for the progress bar, from the last piece's scalars `info` and the `sums` of all scalars."""
        return ""

    @classmethod
    def takes(cls) -> tuple[str, ...]:
        """The names of the method's options."""
        return tuple(item.name for item in fields(cls))

    def options(self) -> dict[str, Any]:
        """The options by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def record(self) -> dict[str, Any]:
        """The method's name and options in a form that a file can hold.

        Raises:
            ValueError: if an option is a function, or another callable object, of the user's own.
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
