"""What a method is: a frozen record of options with an `init` and a `step`, which the one driver runs.

A method's state is made of arrays only, and `step` is pure, so the driver can compile it, run it in any number of
pieces, show its progress, stop it and, from the state alone, go on with it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import jax
import numpy as np

from inference.target import Data, Position, Target

__all__ = ["Draws", "Emission", "Method", "Sampler"]

Draws = dict[str, jax.Array]
Emission = tuple[Draws, dict[str, jax.Array]]


@dataclass(frozen=True, kw_only=True)
class Method:
    """Base of all methods. Subclasses add their options as fields and document each there, once.

    Attributes:
        name: what `inference.run(method=...)` calls it.
        kind: what its draws are: "chains" of a Markov chain, independent draws from a "guide", or a "point".
    """

    name: ClassVar[str]
    kind: ClassVar[str]

    @property
    def chains(self) -> int:
        """How many independent repetitions the driver runs."""
        return 1

    @property
    def iterations(self) -> int:
        """How many times the driver calls `step`, per chain."""
        raise NotImplementedError(f"{type(self).__name__} must say how long it runs")

    @property
    def kept(self) -> range:
        """The iterations whose draws are kept; empty if the draws are made by `conclude`."""
        return range(0)

    def program(self) -> Method:
        """This method with every option that does not shape its compiled `step` set to one value."""
        return self

    def check(self, target: Target, data: Data) -> None:
        """Raise ValueError, before anything compiles, if the options don't fit the data."""

    def notes(self, temperature: float, tempering: str) -> tuple[str, ...]:
        """What a user should know about this method under these temperings."""
        return ()

    def init(self, target: Target, data: Data, position: Position, key: jax.Array) -> Any:
        """The state before the first step."""
        raise NotImplementedError(f"{type(self).__name__} must have an init")

    def step(self, target: Target, data: Data, state: Any) -> tuple[Any, Emission]:
        """One iteration: the next state, the sites' values to keep, and scalars for diagnostics."""
        raise NotImplementedError(f"{type(self).__name__} must have a step")

    def conclude(self, target: Target, data: Data, state: Any, key: jax.Array) -> Emission:
        """Draws and their scalars, each with a leading draw axis, from the last state of a method that keeps none."""
        raise NotImplementedError(f"{type(self).__name__} keeps the draws of its iterations")

    def watch(self, info: dict[str, np.ndarray], done: int) -> None:
        """Look at the scalars of a piece that ended after `done` iterations; raise to stop the run."""

    def gradients(self, info: dict[str, np.ndarray], data: Data) -> float:
        """How many gradients over all rows a piece with these scalars took."""
        return float(info["n_steps"].sum())

    def status(self, info: dict[str, np.ndarray], sums: dict[str, float]) -> str:
        """How it goes, in a few words for the progress bar: by the last piece's scalars and the sums of all so far."""
        return ""

    def options(self) -> dict[str, Any]:
        """The options by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, kw_only=True)
class Sampler(Method):
    """Base of Markov chain methods: warm-up iterations, then draws, every `thin`-th of them kept.

    Subclasses have the fields `chains`, `draws`, `warmup` and `thin`.
    """

    kind: ClassVar[str] = "chains"
    draws: int
    warmup: int
    thin: int

    @property
    def iterations(self) -> int:
        """Warm-up, then `thin` iterations per draw."""
        return self.warmup + self.draws * self.thin

    @property
    def kept(self) -> range:
        """The last of every `thin` iterations after the warm-up."""
        return range(self.warmup + self.thin - 1, self.iterations, self.thin)

    def status(self, info: dict[str, np.ndarray], sums: dict[str, float]) -> str:
        """Mean acceptance and the number of divergences."""
        words = f"acceptance {sums['acceptance_rate'] / sums['count']:.2f}"
        return words + (f", {sums['diverging']:.0f} divergent" if sums["diverging"] else "")
