"""What Markov chain methods share: warm-up, draws, thinning, starts, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from inference.methods import ARRANGEMENTS, KEEPS, STARTS, Method
from inference.target.data_remarks import explosion
from inference.target.density import Data, Target
from models.validation import one_of, positive_integer, positive_number

__all__ = ["Sampler"]


@dataclass(frozen=True, kw_only=True)
class Sampler(Method):
    """Base of Markov chain methods: warm-up iterations, then draws, every `thin`-th of them kept.

    Attributes:
        chains: how many chains.
        draws: kept draws per chain; with `until`, the largest number of them.
        warmup: iterations per chain that are thrown away before the first draw.
        thin: iterations per kept draw.
        start: where chains start. "ensemble": each at its own member of a short deep ensemble; "map": all at one MAP
            point; "random": at random near 0; "prior": at a draw from the prior. None is "ensemble" for a network
            and "random" for any other model.
        until: stop before all draws are made, once the least effective sample size and the largest R-hat over the
            functions at the posterior's probes (over the sites, if the model is not a network) meet these conditions:
            {"ess": 400, "rhat": 1.01}, or one of the two; an R-hat that chance explains, see `inference.mixing`,
            is small enough. The conditions are checked after 100 draws per chain, 150, 200, 300, 400, 600 and so on,
            and at the end, not more often, so that a run has few chances to stop by luck.
        keep: what to keep of each draw: "all" sites; "last_layer", the last layer of a network and the sites that
            belong to no layer, such as the noise; or "none". Unless all is kept, predictions can be averaged while the
            draws are made (`predict_at`), and convergence is judged by the functions at the probes.
        arrangement: how the chains share the machine. "threads": each chain is a program of its own, and cores or
            devices run several at a time. "vectorised": all chains of a device are one program. "sharded": one program
            for all devices, which share the chains and, where they are more, the rows of a network's data. The same
            posterior, but not the same bits. "auto" takes threads on a CPU, vectorised on an accelerator and sharded
            on several; see docs/scale.md.
    """

    kind: ClassVar[str] = "chains"

    chains: int = 4
    draws: int = 500
    warmup: int = 500
    thin: int = 1
    start: str | None = None
    until: Any = None
    keep: str = "all"
    arrangement: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(f"{self.name}: keep", self.keep, KEEPS)
        one_of(f"{self.name}: arrangement", self.arrangement, ARRANGEMENTS)
        counts = {"chains": self.chains, "draws": self.draws, "thin": self._thin}
        for count, number in counts.items():
            positive_integer(f"{self.name}: {count}", number)
        positive_integer(f"{self.name}: warmup", self._warmup, least=0)
        if self.start is not None:
            one_of(f"{self.name}: start", self.start, STARTS)
        if self.until is not None:
            object.__setattr__(self, "until", _conditions(f"{self.name}: until", self.until))

    def notes(self, target: Target, data: Data) -> tuple[str, ...]:
        """Notes on targets without noise, and on a prior whose functions explode, so that no sampler moves."""
        return super().notes(target, data) + (explosion(target.model, data.arrays[0]) if data.arrays else ())

    @property
    def _warmup(self) -> int:
        """`warmup` as a number; a sampler whose default depends on other options overrides this."""
        return self.warmup

    @property
    def _thin(self) -> int:
        """`thin` as a number; a sampler whose default depends on other options overrides this."""
        return self.thin

    @property
    def iterations(self) -> int:
        """Warm-up, then `thin` iterations per draw."""
        return self._warmup + self.draws * self._thin

    @property
    def kept(self) -> Sequence[int]:
        """The last of every `thin` iterations after the warm-up."""
        return range(self._warmup + self._thin - 1, self.iterations, self._thin)

    def extended(self, draws: int, until: Any) -> Sampler:
        """This sampler with so many draws per chain, of which those of a shorter run are the first."""
        return replace(self, draws=draws, until=until)

    def status(self, info: dict[str, np.ndarray], sums: dict[str, float]) -> str:
        """Mean acceptance and the number of divergences, where the kernel emits them."""
        accepted, diverging = sums.get("acceptance_rate"), sums.get("diverging", 0.0)
        words = [f"acceptance {accepted / sums['count']:.2f}"] if accepted is not None else []
        return ", ".join([*words, f"{diverging:.0f} divergent"] if diverging else words)


def _conditions(name: str, until: Any) -> tuple[tuple[str, float], ...]:
    """The conditions in `until`, a mapping or a sequence of pairs, as sorted pairs, which can be hashed."""
    try:
        pairs = until.items() if isinstance(until, Mapping) else [(word, number) for word, number in until]
    except (TypeError, ValueError) as error:
        raise TypeError(f'{name} must be a mapping such as {{"ess": 400, "rhat": 1.01}}, got {until!r}') from error
    conditions = dict(pairs)
    if not conditions:
        raise ValueError(f'{name} must name "ess", "rhat" or both; None makes all draws')
    for word, number in conditions.items():
        one_of(f"{name}: a condition", word, ("ess", "rhat"))
        positive_number(f"{name}: {word}", number)
    if conditions.get("rhat", 2.0) <= 1:
        raise ValueError(f"{name}: rhat must be above 1, got {conditions['rhat']!r}; R-hat falls towards 1")
    return tuple(sorted((word, float(number)) for word, number in conditions.items()))
