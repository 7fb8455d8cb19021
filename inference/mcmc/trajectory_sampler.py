"""What samplers that follow trajectories share: an iteration is a trajectory, whose steps may be made in pieces.

A trajectory is launched, moved along step by step, and what becomes of its end is decided when no steps are left. It
may have many thousand steps, so a piece may end in the middle of it, and the state holds the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from inference.lanes import repeated, when
from inference.methods import Kernel, Step
from inference.samplers import Sampler
from inference.target.density import Data, Target
from inference.target.vectors import Flattened

__all__ = ["TrajectoryKernel", "TrajectorySampler"]

_STUCK = 0.1  # acceptance below which a chain hardly moves


class TrajectoryKernel(Kernel):
    """Base of kernels whose state has a `path`, with the number of steps that are `left`, and a `position`.

    Positions are vectors, see `inference.target.vectors`.
    """

    def step(self, target: Target, data: Data, state: Any, limit: jax.Array) -> Step:
        """Up to `limit` steps of a trajectory and, if they complete it, what becomes of its end.

        A trajectory before the first iteration, which is numbered -1, only finds the density at the start.
        """
        flat = Flattened.of(target, data)
        path = when(state.path.left == 0, self.launch, lambda state: state.path, state)
        steps = jnp.minimum(path.left, limit)
        steps, path = repeated(steps, steps < limit, lambda path: self.move(flat, data, state, path), path)
        complete = path.left == 0
        counts = complete & self.counts(state)
        state, statistics = self.arrive(flat, data, state._replace(path=path), complete)
        return Step(state, (flat.constrain(state.position, data), statistics), counts, steps)

    def counts(self, state: Any) -> jax.Array:
        """Whether the trajectory under way is an iteration; one before the first, or of another warm-up, is not."""
        return state.iteration >= 0

    def left(self, state: Any) -> Any:
        """How many steps of the trajectory are left."""
        return state.path.left

    def launch(self, state: Any) -> Any:
        """The path at the beginning of a trajectory, with the random numbers of its iteration."""
        raise NotImplementedError(f"{type(self).__name__} must launch a trajectory")

    def move(self, target: Flattened, data: Data, state: Any, path: Any) -> Any:
        """The path after one more step."""
        raise NotImplementedError(f"{type(self).__name__} must have an integrator")

    def arrive(
        self, target: Flattened, data: Data, state: Any, complete: jax.Array
    ) -> tuple[Any, dict[str, jax.Array]]:
        """The next state and its scalars; the position stays the same unless the trajectory is `complete`."""
        raise NotImplementedError(f"{type(self).__name__} must say what becomes of the end")


@dataclass(frozen=True, kw_only=True)
class TrajectorySampler(Sampler):
    """Base of samplers whose kernel is a `TrajectoryKernel`."""

    def notes(self, target: Target, data: Data) -> tuple[str, ...]:
        """The notes of all samplers and, where it is so, that energies can't be in float64."""
        if target.exact:
            return super().notes(target, data)
        return (
            *super().notes(target, data),
            f"{self.name}: the model can't be evaluated in float64, because it fixes float32 (a carry of lax.scan, an "
            "array made with dtype=float32); energies are in float32, and with many rows they are noise",
        )

    def _stuck(self, statistics: dict[str, np.ndarray], chains: Sequence[int]) -> tuple[str, ...]:
        """The concern that the Metropolis step refuses nearly all proposals of some chains."""
        accepted = statistics["acceptance_rate"].mean(axis=1)
        said = f"accepted less than {_STUCK:.0%} of the proposals"
        remedy = (
            "they are in a narrower part of the posterior than the step was tuned for; use a larger target_acceptance "
            "or a smaller step_size, or another start"
        )
        return self._of_chains(chains, accepted < _STUCK, f"{said}: {remedy}")

    def _of_chains(self, chains: Sequence[int], these: np.ndarray, said: str) -> tuple[str, ...]:
        """The concern `said` about those of the `chains` for which `these` is true; empty if there are none."""
        found = [str(chain) for chain, each in zip(chains, these, strict=True) if each]
        return (f"{self.name}: chain{'s' * (len(found) > 1)} {', '.join(found)} {said}",) if found else ()
