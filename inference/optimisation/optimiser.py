r"""The one loop of everything that optimises: minibatches, Adam, and a learning rate that decays to 0.

Minimises an objective by Adam (Kingma & Ba 2015). The learning rate falls from its peak to 0 along half a cosine, so
that the last parameters are the answer and not its jitter; optax has other schedules. A minibatch is a slice of one
permutation of the rows per epoch: every row is used once before any is used again, and rows left over when the batch
size does not divide their number wait for the next permutation.

Each step reports s, the share of the squared gradient that is noise, from Adam's averages m of the gradient and v of
its square: noise alone leaves |m|^2 = |v| (1 - b1) / (1 + b1), a gradient without noise |m|^2 = |v|.

Reference: https://arxiv.org/abs/1412.6980.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from inference.methods import Kernel, Method, Step
from inference.target.arguments import fingerprint
from inference.target.density import Data, Position, Target
from inference.target.minibatches import Minibatch, check_batch, permuted
from models.validation import one_of, positive_integer, positive_number

__all__ = ["SCHEDULES", "Descent", "Objective", "Optimisation", "OptimisationState"]


SCHEDULES: dict[str, Callable[[float, int], optax.Schedule]] = {
    "cosine": lambda peak, steps: optax.cosine_decay_schedule(peak, steps),
    "linear": lambda peak, steps: optax.linear_schedule(peak, 0.0, steps),
    "onecycle": lambda peak, steps: optax.cosine_onecycle_schedule(steps, peak),
    "constant": lambda peak, steps: optax.constant_schedule(peak),
}
"""Schedules of the learning rate by name, each made from its peak and the number of steps."""

_FIRST_MEMORY = 0.9  # Adam's b1


class OptimisationState(NamedTuple):
    """A fit's state: all that its next step needs.

    Attributes:
        parameters: what is optimised.
        optimiser: Adam's moments and count.
        order: the rows that a bootstrapped fit sees; empty for a fit that sees all rows.
        iteration: how many steps have been made.
        key: the chain's key; each step folds its number in.
    """

    parameters: Any
    optimiser: Any
    order: jax.Array
    iteration: jax.Array
    key: jax.Array


class Objective:
    """Base of what is minimised. Subclasses are frozen dataclasses, parts of the kernel."""

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> Any:
        """The first parameters, from the start `position` in the target's coordinates."""
        raise NotImplementedError(f"{type(self).__name__} must say what it optimises")

    def loss(
        self, target: Target, data: Data, batch: Minibatch, parameters: Any, key: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """What is minimised, estimated from the rows of `batch`, and its pieces; a "loss" among them is shown."""
        raise NotImplementedError(f"{type(self).__name__} must have a loss")

    def after(self, target: Target, data: Data, parameters: Any, iteration: jax.Array) -> Any:
        """The parameters after `iteration` steps, with the changes that no gradient makes."""
        return parameters


@dataclass(frozen=True)
class Descent(Kernel):
    """A step of Adam per iteration.

    Attributes:
        objective: what is minimised.
        steps: the number of steps over which the learning rate decays.
        learning_rate: the peak of the learning rate.
        schedule: a name of `SCHEDULES`, or a function from the step to a factor of `learning_rate`.
        clip: the largest norm of a gradient; None clips nothing.
        batch_size: rows per step; None uses all.
        resamples: whether each chain sees its own rows, drawn with replacement.
        exact: whether the objective has no noise from minibatches or draws.
    """

    objective: Objective
    steps: int
    learning_rate: float
    schedule: Any
    clip: float | None
    batch_size: int | None
    resamples: bool
    exact: bool

    def init(self, target: Target, data: Data, position: Position, key: jax.Array, settings: None) -> OptimisationState:
        """The state before the first step."""
        rows_key, begin_key, key = jax.random.split(key, 3)
        parameters = self.objective.begin(target, data, position, begin_key)
        rows = len(data.arrays[0]) if self.resamples else 0
        order = jax.random.randint(rows_key, (rows,), 0, rows) if rows else jnp.zeros(0, jnp.int32)
        return OptimisationState(parameters, self.optimiser().init(parameters), order, jnp.int32(0), key)

    def step(self, target: Target, data: Data, state: OptimisationState, limit: jax.Array) -> Step:
        """One step of Adam on one batch."""
        order_key, step_key = jax.random.split(state.key)
        batch = self._batch(state, order_key, data)
        (loss, pieces), gradient = jax.value_and_grad(
            lambda parameters: self.objective.loss(
                target, data, batch, parameters, jax.random.fold_in(step_key, state.iteration)
            ),
            has_aux=True,
        )(state.parameters)
        updates, optimiser = self.optimiser().update(gradient, state.optimiser, state.parameters)
        iteration = state.iteration + 1
        parameters = self.objective.after(target, data, optax.apply_updates(state.parameters, updates), iteration)
        state = OptimisationState(parameters, optimiser, state.order, iteration, state.key)
        return Step(state, ({}, {"loss": loss, "gradient_noise": _noise(optimiser, self._second_memory), **pieces}))

    def optimiser(self) -> optax.GradientTransformation:
        """Adam, with the schedule of its learning rate and clipped gradients."""
        if callable(self.schedule):
            rate: optax.Schedule = lambda step: self.learning_rate * self.schedule(step)  # noqa: E731
        else:
            rate = SCHEDULES[self.schedule](self.learning_rate, self.steps)
        adam = optax.adam(rate, b1=_FIRST_MEMORY, b2=self._second_memory)
        return adam if self.clip is None else optax.chain(optax.clip_by_global_norm(self.clip), adam)

    @property
    def _second_memory(self) -> float:
        # The second moment averages out noise in the gradient; without noise a long memory of the large gradients of
        # the first steps only keeps the last ones from converging.
        return 0.99 if self.exact else 0.999

    def _batch(self, state: OptimisationState, key: jax.Array, data: Data) -> Minibatch:
        """The rows of the next step."""
        if self.batch_size is None:
            return Minibatch(state.order if self.resamples else None, 0, 1)
        rows = len(data.arrays[0])
        count = rows // self.batch_size
        epoch, place = state.iteration // count, state.iteration % count
        places = place * self.batch_size + jnp.arange(self.batch_size)
        chosen = permuted(jax.random.fold_in(key, epoch), places, rows)
        return Minibatch(state.order[chosen] if self.resamples else chosen, place, count)


@dataclass(frozen=True, kw_only=True)
class Optimisation(Method):
    """Base of the methods that optimise. Subclasses give `objective` and `conclude`.

    Attributes:
        side_by_side: whether fits to several data sets can be one program, as in `run_folds`.
        restarts: how many fits from different starts are made, of which the best is kept.
        steps: steps of the optimiser in each fit.
        learning_rate: the peak of the learning rate.
        schedule: how the learning rate changes from its peak: "cosine" or "linear", down to 0; "onecycle", up to the
            peak first; "constant"; or an optax schedule, a function from the step to a factor of `learning_rate`.
        clip: the largest norm of a gradient, over all parameters; larger gradients are scaled down to it.
        patience: stop before all steps are made, once the mean loss of the last `patience` steps is not below the mean
            of as many steps before by more than its standard error; None makes all steps.
        batch_size: rows per step; None uses all rows in every step. For networks.
    """

    kind: ClassVar[str] = "point"
    side_by_side: ClassVar[bool] = True
    restarts: ClassVar[int] = 1

    steps: int = 3000
    learning_rate: float = 0.01
    schedule: Any = "cosine"
    clip: float | None = None
    patience: int | None = None
    batch_size: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_integer(f"{self.name}: steps", self.steps)
        positive_number(f"{self.name}: learning_rate", self.learning_rate)
        if not callable(self.schedule):
            one_of(f"{self.name}: schedule", self.schedule, SCHEDULES)
        if self.clip is not None:
            positive_number(f"{self.name}: clip", self.clip)
        for count in ("patience", "batch_size"):
            if getattr(self, count) is not None:
                positive_integer(f"{self.name}: {count}", getattr(self, count))

    @property
    def iterations(self) -> int:
        """One iteration per step of the optimiser."""
        return self.steps

    @property
    def _exact(self) -> bool:
        """Whether the objective has no noise from minibatches or draws."""
        return False

    @property
    def _resamples(self) -> bool:
        """Whether each chain sees its own rows, drawn with replacement."""
        return False

    @property
    def _evaluations(self) -> int:
        """How often a step evaluates the log density."""
        return 1

    def objective(self) -> Objective:
        """What is minimised."""
        raise NotImplementedError(f"{type(self).__name__} must have an objective")

    def kernel(self) -> Descent:
        """The kernel; neither the number of draws at the end nor the number of fits shapes it."""
        return Descent(
            self.objective(), self.steps, self.learning_rate, self.schedule, self.clip, self.batch_size,
            self._resamples, self._exact,
        )  # fmt: skip

    def suited(self, target: Target, data: Data) -> Optimisation:
        """This method; a `batch_size` needs a network, and at least as many rows."""
        check_batch(self.name, self.batch_size, target, data)
        return self

    def identity(self, target: Target, data: Data) -> str:
        """A fingerprint of the schedule if it is the user's own, else empty."""
        return fingerprint(self.schedule, np.int32(0)) if callable(self.schedule) else ""

    def watch(self, info: dict[str, np.ndarray], done: int) -> None:
        """Stop at the first loss that is not finite."""
        bad = np.flatnonzero(~np.isfinite(info["loss"]))
        if bad.size:
            step = done - len(info["loss"]) + int(bad[0])
            raise FloatingPointError(
                f"{self.name}: the loss became {info['loss'][bad[0]]} at step {step} of {self.steps} with "
                f"learning_rate={self.learning_rate}; try learning_rate={self.learning_rate / 10:g} or clip=10, or "
                "check the scale of the data"
            )

    def gradients(self, info: dict[str, np.ndarray], data: Data) -> float:
        """One gradient per step and particle; a minibatch's counts for its share of the rows."""
        share = 1.0 if self.batch_size is None else self.batch_size / len(data.arrays[0])
        return len(info["loss"]) * share * self._evaluations

    def status(self, info: dict[str, np.ndarray], sums: dict[str, float]) -> str:
        """The mean loss of the last hundred steps."""
        return f"loss {info['loss'][-100:].mean():.5g}"


def _noise(optimiser: Any, second_memory: float) -> jax.Array:
    """The share of the squared gradient that is noise, from Adam's averages, which start at 0."""
    (adam,) = [state for state in jax.tree.leaves(optimiser, is_leaf=_is_adam) if _is_adam(state)]
    first = optax.tree.norm(adam.mu, squared=True) / jnp.square(1 - _FIRST_MEMORY**adam.count)
    second = optax.tree.sum(adam.nu) / (1 - second_memory**adam.count)
    whole = (1 - _FIRST_MEMORY) / (1 + _FIRST_MEMORY)  # what is left of noise in its average
    return jnp.clip((1 - first / second) / (1 - whole), 0.0, 1.0)


def _is_adam(state: Any) -> bool:
    return isinstance(state, optax.ScaleByAdamState)
