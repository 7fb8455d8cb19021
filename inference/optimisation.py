r"""The one loop of everything that optimises: minibatches, Adam, and a learning rate that decays to 0.

Minimises an objective by Adam (Kingma & Ba 2015). The learning rate falls from its peak to 0 along half a cosine, so
that the last parameters are the answer and not its jitter. A minibatch is a slice of one permutation of the rows per
epoch: every row is used once before any is used again, and rows left over when the batch size does not divide their
number wait for the next permutation.

Reference: https://arxiv.org/abs/1412.6980.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from inference.methods import Method, Step
from inference.target import Data, Position, Target
from models import Network
from models.validation import positive_integer, positive_number

__all__ = ["Optimisation", "OptimisationState"]


class OptimisationState(NamedTuple):
    """What the next step needs.

    Attributes:
        parameters: what is optimised.
        optimiser: Adam's moments and count.
        order: the rows that the fit sees, in the order of this epoch; empty for all of them in every step.
        iteration: how many steps have been made.
        key: the chain's key; each step folds its number in.
    """

    parameters: Any
    optimiser: Any
    order: jax.Array
    iteration: jax.Array
    key: jax.Array


@dataclass(frozen=True, kw_only=True)
class Optimisation(Method):
    """Base of the methods that optimise. Subclasses give `begin`, `objective` and `conclude`.

    Attributes:
        steps: of the optimiser.
        learning_rate: the peak, at the first step; it decays to 0 along half a cosine.
        batch_size: rows per step; None uses all rows in every step. For networks.
    """

    kind: ClassVar[str] = "point"

    steps: int = 3000
    learning_rate: float = 0.01
    batch_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_integer(f"{self.name}: steps", self.steps)
        positive_number(f"{self.name}: learning_rate", self.learning_rate)
        if self.batch_size is not None:
            positive_integer(f"{self.name}: batch_size", self.batch_size)

    @property
    def iterations(self) -> int:
        """One per step of the optimiser."""
        return self.steps

    @property
    def _exact(self) -> bool:
        """Whether the objective has no noise, of minibatches or of draws."""
        return False

    @property
    def _resamples(self) -> bool:
        """Whether each chain sees its own rows, drawn with replacement."""
        return False

    @property
    def _evaluations(self) -> int:
        """How often a step evaluates the log density."""
        return 1

    def check(self, target: Target, data: Data) -> None:
        """A minibatch needs a network, and no more rows than there are."""
        if self.batch_size is None:
            return
        if not isinstance(target.model, Network):
            raise ValueError(
                f"{self.name}: batch_size needs a network of models, whose rows are known; for your own NumPyro model "
                "leave it out"
            )
        if self.batch_size > len(data.arrays[0]):
            raise ValueError(
                f"{self.name}: batch_size must be at most the number of rows, {len(data.arrays[0])}, got "
                f"{self.batch_size}; None uses all rows"
            )

    def begin(self, position: Position) -> Any:
        """The first parameters, from a start in the target's coordinates."""
        raise NotImplementedError(f"{type(self).__name__} must say what it optimises")

    def objective(
        self, target: Target, data: Data, rows: jax.Array | None, parameters: Any, key: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """What is minimised, estimated from some rows, and its pieces."""
        raise NotImplementedError(f"{type(self).__name__} must have an objective")

    def init(self, target: Target, data: Data, position: Position, key: jax.Array, settings: None) -> OptimisationState:
        """The state before the first step."""
        rows_key, key = jax.random.split(key)
        parameters = self.begin(position)
        rows = 0 if self.batch_size is None and not self._resamples else len(data.arrays[0])
        order = jax.random.randint(rows_key, (rows,), 0, rows) if self._resamples else jnp.arange(rows)
        return OptimisationState(parameters, self._adam().init(parameters), order, jnp.int32(0), key)

    def step(self, target: Target, data: Data, state: OptimisationState, limit: jax.Array) -> Step:
        """One step of Adam on one batch."""
        order_key, objective_key = jax.random.split(jax.random.fold_in(state.key, state.iteration))
        order, rows = self._batch(state, order_key)
        (loss, pieces), gradient = jax.value_and_grad(
            lambda parameters: self.objective(target, data, rows, parameters, objective_key), has_aux=True
        )(state.parameters)
        updates, optimiser = self._adam().update(gradient, state.optimiser, state.parameters)
        parameters = optax.apply_updates(state.parameters, updates)
        state = OptimisationState(parameters, optimiser, order, state.iteration + 1, state.key)
        return Step(state, ({}, {"loss": loss, **pieces}))

    def watch(self, info: dict[str, np.ndarray], done: int) -> None:
        """Stop at the first loss that is not finite."""
        bad = np.flatnonzero(~np.isfinite(info["loss"]))
        if bad.size:
            step = done - len(info["loss"]) + int(bad[0])
            raise FloatingPointError(
                f"{self.name}: the loss became {info['loss'][bad[0]]} at step {step} of {self.steps} with "
                f"learning_rate={self.learning_rate}; try {self.learning_rate / 10:g}, or check the scale of the data"
            )

    def gradients(self, info: dict[str, np.ndarray], data: Data) -> float:
        """One per step and particle; over a minibatch, its share of the rows."""
        share = 1.0 if self.batch_size is None else self.batch_size / len(data.arrays[0])
        return len(info["loss"]) * share * self._evaluations

    def status(self, info: dict[str, np.ndarray], sums: dict[str, float]) -> str:
        """The mean loss of the last hundred steps."""
        return f"loss {info['loss'][-100:].mean():.5g}"

    def _adam(self) -> optax.GradientTransformation:
        # The second moment averages out noise in the gradient; without noise a long memory of the large gradients of
        # the first steps only keeps the last ones from converging.
        memory = 0.99 if self._exact else 0.999
        return optax.adam(optax.cosine_decay_schedule(self.learning_rate, self.steps), b2=memory)

    def _batch(self, state: OptimisationState, key: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        """The permutation of this epoch and the rows of this step."""
        if self.batch_size is None:
            return state.order, state.order if self._resamples else None
        place = state.iteration % (len(state.order) // self.batch_size)
        order = lax.cond(place == 0, lambda: jax.random.permutation(key, state.order), lambda: state.order)
        return order, lax.dynamic_slice_in_dim(order, place * self.batch_size, self.batch_size)
