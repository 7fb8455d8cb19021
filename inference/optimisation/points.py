r"""Point estimates: maximum likelihood and maximum a posteriori.

    MLE   w* = argmax log p(y | w)
    MAP   w* = argmax log p(y | w) + log p(w)          at T = 1

Both maximise over the values of the sites themselves, not over unconstrained coordinates: the log-Jacobian is left out,
so the answer does not depend on the parametrisation that the optimiser uses. A point estimate is a posterior with one
draw. With `tempering="likelihood"`, MAP maximises log p(y | w) / T + log p(w); with "posterior" the temperature
multiplies the whole objective and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax

from inference.methods import Emission
from inference.optimisation.optimiser import Optimisation, OptimisationState
from inference.target.density import Data, Position, Target, Terms
from inference.target.minibatches import Minibatch

__all__ = ["MAP", "MLE", "Point"]


@dataclass(frozen=True, kw_only=True)
class Point(Optimisation):
    """Base of what maximises a density: the parameters are a position, and the answer is one draw.

    Subclasses have `estimate`, "mle" or "map".
    """

    estimate: ClassVar[str]

    @property
    def _exact(self) -> bool:
        return self.batch_size is None

    def notes(self, target: Target, data: Data) -> tuple[str, ...]:
        """Where the temperature does nothing."""
        if data.temperature != 1 and self.estimate == "mle":
            return ("maximum likelihood ignores the temperature",)
        if data.temperature != 1 and target.tempering == "posterior":
            return (f"the mode of the posterior does not depend on its temperature, so {self.name} ignores it",)
        return ()

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> Position:
        """The start itself."""
        return position

    def objective(
        self, target: Target, data: Data, batch: Minibatch, parameters: Position, key: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Minus the log density that is maximised."""
        return -self._log_density(target, data, target.estimate(parameters, data, batch.rows)), {}

    def conclude(self, target: Target, data: Data, state: OptimisationState, key: jax.Array) -> Emission:
        """The last position as the only draw."""
        density = self._log_density(target, data, target.terms(state.parameters, data))
        return jax.tree.map(lambda leaf: leaf[None], (target.constrain(state.parameters, data), {"lp": density}))

    def _log_density(self, target: Target, data: Data, terms: Terms) -> jax.Array:
        return terms.log_likelihood if self.estimate == "mle" else target.tempered(terms, data)


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
