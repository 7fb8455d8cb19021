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
from inference.optimisation import Optimisation, OptimisationState
from inference.target import Data, Position, Target, Terms

__all__ = ["MAP", "MLE"]


@dataclass(frozen=True, kw_only=True)
class _Point(Optimisation):
    """What both have in common: the parameters are a position, and the answer is one draw."""

    def _log_density(self, target: Target, data: Data, terms: Terms) -> jax.Array:
        raise NotImplementedError(f"{type(self).__name__} must say what it maximises")

    @property
    def _exact(self) -> bool:
        return self.batch_size is None

    def begin(self, position: Position) -> Position:
        """The start itself."""
        return position

    def objective(
        self, target: Target, data: Data, rows: jax.Array | None, parameters: Position, key: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Minus the log density that is maximised."""
        return -self._log_density(target, data, target.estimate(parameters, data, rows)), {}

    def conclude(self, target: Target, data: Data, state: OptimisationState, key: jax.Array) -> Emission:
        """The last position as the only draw."""
        density = self._log_density(target, data, target.terms(state.parameters, data))
        return jax.tree.map(lambda leaf: leaf[None], (target.constrain(state.parameters, data), {"lp": density}))


@dataclass(frozen=True, kw_only=True)
class MLE(_Point):
    """Maximum likelihood: the prior is ignored, and so is the temperature.

    Defaults: 3,000 steps of the full batch.
    """

    name: ClassVar[str] = "mle"

    def notes(self, temperature: float, tempering: str) -> tuple[str, ...]:
        """The temperature does nothing here."""
        return ("maximum likelihood ignores the temperature",) if temperature != 1 else ()

    def _log_density(self, target: Target, data: Data, terms: Terms) -> jax.Array:
        return terms.log_likelihood


@dataclass(frozen=True, kw_only=True)
class MAP(_Point):
    """Maximum a posteriori: the mode of the posterior density of the sites.

    Defaults: 3,000 steps of the full batch.
    """

    name: ClassVar[str] = "map"

    def notes(self, temperature: float, tempering: str) -> tuple[str, ...]:
        """The temperature of the whole posterior does not move its mode."""
        if temperature != 1 and tempering == "posterior":
            return ("the mode of the posterior does not depend on its temperature, so map ignores it",)
        return ()

    def _log_density(self, target: Target, data: Data, terms: Terms) -> jax.Array:
        return target.tempered(terms, data)
