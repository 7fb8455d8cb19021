"""The ascent to the mode of Laplace's approximation, and how the evidence chooses the scales on the way."""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jax import lax

from inference.laplace.evidence import Scales
from inference.laplace.mode import Mode, Modes, Surface
from inference.optimisation.optimiser import Objective
from inference.target.density import Data, Position, Target
from inference.target.minibatches import Minibatch

__all__ = ["Ascent"]

# How often the evidence chooses, and between which shares of the steps. It begins early, because a network that has
# taken the noise to where all its weights seem determined stays there.
_UPDATES, _FIRST, _LAST = 44, 0.02, 0.9


@dataclass(frozen=True)
class Ascent(Objective):
    """Minus the log density of the unconstrained position.

    Attributes:
        structure: the structure of the precision by whose evidence the scales of prior and noise are chosen; None
            leaves them as given.
        steps: the optimiser's steps, over which those choices are spread.
    """

    structure: str | None
    steps: int

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> Mode | Modes:
        """A mode at `position` with the prior as given; two of them if the evidence may choose another prior."""
        mode = Mode(position, Scales.as_given(position))
        return mode if self.structure is None else Modes(mode, mode)

    def loss(
        self, target: Target, data: Data, batch: Minibatch, parameters: Mode | Modes, key: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Minus the log density; for two modes the sum, of which the part of the found mode is shown."""

        def one(mode: Mode) -> jax.Array:
            terms = target.estimate(mode.position, data, batch.rows)
            change = self._surface(target, data).change(mode, noise=True)
            return -target.tempered(terms, data) - terms.log_jacobian - change

        if isinstance(parameters, Mode):
            return one(parameters), {}
        found = one(parameters.found)
        return one(parameters.given) + found, {"loss": found}

    def after(self, target: Target, data: Data, parameters: Mode | Modes, iteration: jax.Array) -> Mode | Modes:
        """The parameters, now and then with the scales that the evidence asks for at the current position."""
        if isinstance(parameters, Mode):
            return parameters
        every = max(round((_LAST - _FIRST) * self.steps / _UPDATES), 1)
        since = iteration - round(_FIRST * self.steps)
        due = (since >= 0) & (since % every == 0) & (since < _UPDATES * every)
        with_evidence = self._surface(target, data).with_evidence
        return parameters._replace(found=lax.cond(due, with_evidence, lambda mode: mode, parameters.found))

    def _surface(self, target: Target, data: Data) -> Surface:
        return Surface(target, data, self.structure or "diagonal", self.structure is not None)
