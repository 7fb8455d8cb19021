r"""Point estimates: maximum likelihood, maximum a posteriori, and deep ensembles of either.

    MLE   w* = argmax log p(y | w)
    MAP   w* = argmax log p(y | w) + log p(w)          at T = 1

Both maximise over the values of the sites themselves, not over unconstrained coordinates: the log-Jacobian is left out,
so the answer does not depend on the parametrisation that the optimiser uses. A point estimate is a posterior with one
draw. With `tempering="likelihood"`, MAP maximises log p(y | w) / T + log p(w); with "posterior" the temperature
multiplies the whole objective and changes nothing.

A deep ensemble (Lakshminarayanan et al. 2017) averages point estimates from independent starts with equal weight. Each
member has its own random start and its own order of minibatches; with `bootstrap` also its own resample of the rows. A
member is a chain of one draw, so predictions average members as they average draws. Members train side by side in
worker threads and do not depend on each other; `python -m benchmarks.ensembles` measures what eight of them cost.

Reference: https://arxiv.org/abs/1612.01474.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
from jax import lax

from inference.methods import Emission
from inference.optimisation.optimiser import Objective, Optimisation, OptimisationState
from inference.target.density import Data, Position, Target, Terms
from inference.target.minibatches import Minibatch
from models import Network
from models.validation import one_of, positive_integer

__all__ = ["MAP", "MLE", "Ensemble", "NegativeLogDensity", "Point"]


@dataclass(frozen=True)
class NegativeLogDensity(Objective):
    """Minus the log density that is maximised; the parameters are a position.

    Attributes:
        estimate: "mle" or "map".
        held: the names of the sites that stay at their start.
    """

    estimate: str
    held: tuple[str, ...] = ()

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> Position:
        """The start `position` itself."""
        return position

    def loss(
        self, target: Target, data: Data, batch: Minibatch, parameters: Position, key: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Minus the log density, without a gradient in the sites that are held."""
        held = {name: lax.stop_gradient(parameters[name]) for name in self.held}
        terms = target.estimate(parameters | held, data, batch.rows)
        return -self.log_density(target, data, terms), {}

    def log_density(self, target: Target, data: Data, terms: Terms) -> jax.Array:
        """What is maximised, from its `terms`."""
        return terms.log_likelihood if self.estimate == "mle" else target.tempered(terms, data)


@dataclass(frozen=True, kw_only=True)
class Point(Optimisation):
    """Base of the methods that maximise a density, whose answer is one draw.

    Subclasses have `estimate`, "mle" or "map".
    """

    estimate: ClassVar[str]

    @property
    def _exact(self) -> bool:
        return self.batch_size is None

    def objective(self) -> NegativeLogDensity:
        """Minus the log density."""
        return NegativeLogDensity(self.estimate)

    def notes(self, target: Target, data: Data) -> tuple[str, ...]:
        """A note if the temperature changes nothing."""
        if data.temperature != 1 and self.estimate == "mle":
            return ("maximum likelihood ignores the temperature",)
        if data.temperature != 1 and target.tempering == "posterior":
            return (f"the mode of the posterior does not depend on its temperature, so {self.name} ignores it",)
        return ()

    def conclude(
        self, target: Target, data: Data, state: OptimisationState, key: jax.Array
    ) -> tuple[Emission, OptimisationState]:
        """The last position as the only draw."""
        terms = target.terms(state.parameters, data)
        emission = target.constrain(state.parameters, data), {"lp": self.objective().log_density(target, data, terms)}
        return jax.tree.map(lambda leaf: leaf[None], emission), state


@dataclass(frozen=True, kw_only=True)
class MLE(Point):
    """Maximum likelihood: the prior is ignored, and so is the temperature.

    Defaults: 3,000 steps of the full batch.
    """

    name: ClassVar[str] = "mle"
    estimate: ClassVar[str] = "mle"


@dataclass(frozen=True, kw_only=True)
class MAP(Point):
    """Maximum a posteriori: the mode of the posterior density of the sites.

    Defaults: 3,000 steps of the full batch.
    """

    name: ClassVar[str] = "map"
    estimate: ClassVar[str] = "map"


@dataclass(frozen=True, kw_only=True)
class Ensemble(Point):
    """A deep ensemble.

    Defaults: 5 members, each trained for 3,000 steps of the full batch.

    Attributes:
        chains: how many members the ensemble has.
        estimate: what each member is, a "map" or an "mle" estimate.
        bootstrap: whether each member sees its own rows, drawn with replacement, as many as there are. For networks.
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

    def suited(self, target: Target, data: Data) -> Optimisation:
        """This method; `bootstrap` needs a network, whose rows are known."""
        if self.bootstrap and not isinstance(target.model, Network):
            raise ValueError("ensemble: bootstrap needs a network of models, whose rows are known; leave it out")
        return super().suited(target, data)
