r"""Deep ensembles (Lakshminarayanan et al. 2017): point estimates from independent starts, averaged as equals.

Each member maximises log p(y | w) + log p(w) (MAP), or log p(y | w) alone (MLE), from its own random start and with its
own order of minibatches; with `bootstrap` also on its own resample of the rows. A member is a chain of one draw, so
predictions average members as they average draws. Members train side by side in worker threads, which
keeps each member the same in any company; `python -m benchmarks.ensembles` measures what eight of them cost.

Reference: https://arxiv.org/abs/1612.01474.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from inference.optimisation.points import Point
from inference.target.density import Data, Target
from models import Network
from models.validation import one_of, positive_integer

__all__ = ["Ensemble"]


@dataclass(frozen=True, kw_only=True)
class Ensemble(Point):
    """A deep ensemble.

    Defaults: 5 members, each trained for 3,000 steps of the full batch.

    Attributes:
        chains: how many members.
        estimate: what each maximises, "map" or "mle".
        bootstrap: each member sees rows drawn with replacement, as many as there are. For networks.
    """

    name: ClassVar[str] = "ensemble"

    chains: int = 5
    estimate: str = "map"  # type: ignore[misc]
    bootstrap: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_integer("ensemble: chains", self.chains)
        one_of("ensemble: estimate", self.estimate, ("map", "mle"))
        if not isinstance(self.bootstrap, bool):
            raise TypeError(f"ensemble: bootstrap must be True or False, got {self.bootstrap!r}")

    @property
    def _resamples(self) -> bool:
        return self.bootstrap

    def program(self) -> Ensemble:
        """How many members there are does not shape the program of one."""
        return replace(self, chains=1)

    def check(self, target: Target, data: Data) -> None:
        """Rows must be known to be resampled."""
        super().check(target, data)
        if self.bootstrap and not isinstance(target.model, Network):
            raise ValueError("ensemble: bootstrap needs a network of models, whose rows are known; leave it out")
