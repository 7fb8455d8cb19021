r"""NUTS: the no-U-turn sampler (Hoffman & Gelman 2014), by NumPyro's kernel on our target.

Draws come from exp(log density) of `inference.target.density`. A trajectory is doubled until it turns back, and a draw
is taken from it with multinomial weights exp(-H), biased to its later half (Betancourt 2017). During warm-up the step
size follows dual averaging towards a target acceptance, and a diagonal mass matrix follows the draws in Stan's windows.
With `mass="tuned"` a pilot finds the scales of the mass, see `inference.mcmc.hmc_pilot`, and the warm-up adapts the
step size alone.

References: https://arxiv.org/abs/1111.4246, https://arxiv.org/abs/1701.02434.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from inference.mcmc.energy_rounding import energy_noise, stretched, too_noisy
from inference.mcmc.hmc import HMC
from inference.mcmc.hmc_adaptation import Settings
from inference.mcmc.hmc_pilot import SCALES
from inference.methods import Found, Kernel, Rehearsal, Step
from inference.samplers import Sampler
from inference.target.density import Data, Position, Target
from inference.target.unstable import HMCState, ParamInfo, hmc
from models.validation import fraction, one_of, positive_integer, positive_number

__all__ = ["NUTS", "Mass", "NUTSKernel"]


class Mass(NamedTuple):
    """What a pilot has found for all chains.

    Attributes:
        scale: the scale of each coordinate, the square root of the inverse mass.
        step_size: the step size that the warm-up begins with.
    """

    scale: Position
    step_size: Any


@dataclass(frozen=True)
class NUTSKernel(Kernel):
    """NumPyro's kernel, whose adaptation is planned when it is compiled.

    Attributes:
        warmup: iterations in which it adapts.
        step_size: see `NUTS`.
        target_acceptance: see `NUTS`.
        max_tree_depth: see `NUTS`.
        mass: see `NUTS`.
    """

    warmup: int
    step_size: float | None
    target_acceptance: float
    max_tree_depth: int
    mass: str

    def init(self, target: Target, data: Data, position: Position, key: jax.Array, settings: Mass | None) -> HMCState:
        """NumPyro's state at `position`, with nothing adapted yet but what `settings` give."""
        potential, gradient = jax.value_and_grad(self._potential(target, data))(position)
        return self._numpyro(target, data, ParamInfo(position, potential, gradient), key, settings)[0]

    def step(self, target: Target, data: Data, state: HMCState, limit: jax.Array) -> Step:
        """One trajectory and the draw from it."""
        # NumPyro's kernel keeps its settings in a closure that its init fills: fill it at the current position.
        here = ParamInfo(state.z, state.potential_energy, state.z_grad)
        _, sample = self._numpyro(target, data, here, state.rng_key)
        state = sample(state)
        depth = jnp.ceil(jnp.log2(state.num_steps + 1.0)).astype(jnp.int32)
        gradient = jax.tree.map(jnp.negative, state.z_grad)
        nearby = target.log_density(stretched(state.z), data)
        statistics = {
            "acceptance_rate": state.accept_prob,
            "diverging": state.diverging,
            "energy": state.energy,
            "energy_noise": energy_noise(state.z, gradient, -state.potential_energy, nearby),
            "lp": -state.potential_energy,
            "n_steps": state.num_steps,
            "reached_max_treedepth": depth >= self.max_tree_depth,
            "step_size": state.adapt_state.step_size,
            "tree_depth": depth,
        }
        return Step(state, (target.constrain(state.z, data), statistics))

    def _potential(self, target: Target, data: Data) -> Any:
        return lambda position: -target.log_density(position, data)

    def _numpyro(
        self, target: Target, data: Data, start: ParamInfo, key: jax.Array, settings: Mass | None = None
    ) -> tuple[HMCState, Any]:
        init_kernel, sample_kernel = hmc(self._potential(target, data), algo="NUTS")
        first = 1.0 if settings is None else settings.step_size
        state = init_kernel(
            start,
            num_warmup=self.warmup,
            step_size=first if self.step_size is None else self.step_size,
            inverse_mass_matrix=None if settings is None else ravel_pytree(settings.scale)[0] ** 2,
            adapt_step_size=self.step_size is None,
            adapt_mass_matrix=self.mass == "adapted",
            target_accept_prob=self.target_acceptance,
            trajectory_length=None,
            max_tree_depth=self.max_tree_depth,
            rng_key=key,
        )
        return state, sample_kernel


@dataclass(frozen=True, kw_only=True)
class NUTS(Sampler):
    """The no-U-turn sampler.

    Defaults: 4 chains of 500 draws after 500 warm-up iterations, which adapt each chain's step size and mass.

    Attributes:
        step_size: the step size of the leapfrog integrator; None adapts it, a number fixes it.
        target_acceptance: the acceptance that the adaptation of the step size aims at, above 0 and below 1.
        max_tree_depth: a trajectory has at most 2^max_tree_depth - 1 steps.
        mass: "adapted" follows the draws of each chain's warm-up, as in NumPyro; "tuned" takes the scales of a pilot,
            one for all weights of a network that can trade places, and a warm-up of 100 iterations is then enough.
    """

    name: ClassVar[str] = "nuts"

    step_size: float | None = None
    target_acceptance: float = 0.8
    max_tree_depth: int = 10
    mass: str = "adapted"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_integer("nuts: max_tree_depth", self.max_tree_depth)
        if self.step_size is not None:
            positive_number("nuts: step_size", self.step_size)
        fraction("nuts: target_acceptance", self.target_acceptance)
        one_of("nuts: mass", self.mass, ("adapted", "tuned"))

    def kernel(self) -> NUTSKernel:
        """The kernel: the length of the warm-up shapes the program, the numbers of chains and draws do not."""
        return NUTSKernel(self.warmup, self.step_size, self.target_acceptance, self.max_tree_depth, self.mass)

    def settings(self, target: Target, data: Data) -> Settings | None:
        """The settings of the first round of the pilot, if there is one."""
        return SCALES.begin(target, data, self.precision) if self.mass == "tuned" else None

    def pilot(self, settings: Settings | Mass | None) -> HMC | None:
        """The chains of the pilot's next round; None if nothing is left to find."""
        options = SCALES.options(settings) if isinstance(settings, Settings) else None
        return None if options is None else HMC(precision=self.precision, arrangement=self.arrangement, **options)

    def tuned(self, target: Target, data: Data, settings: Settings, rehearsal: Rehearsal) -> Found:
        """The settings of the pilot's next round, or the mass that all chains share, and where its chains got to."""
        found = SCALES.after(target, data, settings, rehearsal)
        rounds = found.settings
        if rounds.round >= 0:
            return found
        scale = {name: each * rounds.unit for name, each in rounds.scale.items()}
        return found._replace(settings=Mass(scale, rounds.step_size / rounds.unit))

    def concerns(
        self, target: Target, data: Data, statistics: dict[str, np.ndarray], chains: Sequence[int]
    ) -> tuple[str, ...]:
        """The concern that energies have too much rounding in them."""
        remedy = 'use precision="float64", or method="hmc", whose energies are in float64'
        return too_noisy(self.name, statistics["energy_noise"], statistics["lp"], remedy)
