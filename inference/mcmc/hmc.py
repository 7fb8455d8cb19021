r"""HMC: full-batch Hamiltonian Monte Carlo with a fixed trajectory length (Neal 2011; Izmailov et al. 2021).

Draws come from exp(log density) of `inference.target.density`. A position u gets a momentum p ~ N(0, I), and both
follow the Hamiltonian H(u, p) = -log density(u) + |p|^2 / 2 by the leapfrog integrator, in coordinates scaled by s:

    p <- p + e/2 s g(u),    then L times    u <- u + e s p,   p <- p + e s g(u),    then    p <- p - e/2 s g(u)

with g the gradient of the log density and e the step size; the last half step takes back the half by which the last of
the L kicks was too long. The end is accepted with probability min(1, exp(H - H')), in warm-up too; otherwise the draw
is repeated.

A trajectory has L = ceil(length / step size) steps, and the step that is used is length / L. Each trajectory's length
is multiplied by a number from 1 - `jitter` to 1 + `jitter` (Neal 2011, 3.2): one of fixed length turns a direction in
which the posterior is nearly normal by a fixed angle, and if that is near a multiple of pi, each draw is the one before
or its mirror image. The noise of a regression is such a direction, and the number of rows sets its angle.

**Scales and length.** By default a pilot of four chains finds both, see `inference.mcmc.hmc_pilot`. The setting of the
paper, `trajectory_length="prior"`, has the prior's: s are the prior's standard deviations in unconstrained space,
divided by their median a, and the length is pi a / 2, a quarter of the period under the prior, which makes draws from
it independent. Where all standard deviations are the same, s = 1, and lengths and steps are in the plain coordinates.
With `tempering="posterior"` the prior is sqrt(T) times as wide, and a and that length are sqrt(T) times as large. A
flat prior has s = 1. In coordinates that the pilot has scaled, lengths and step sizes are a times those in u / (a s).

**Step size.** The pilot finds a first step size by dual averaging (Hoffman & Gelman 2014), and each chain continues to
adapt its own in its warm-up, because it may be in a narrower place than the pilot was. Where the step size is given, a
refusal in warm-up halves the next trajectory's step and length instead, and an acceptance takes one halving back.
Nothing is adapted after the warm-up, and a chain's draws do not depend on which other chains run. The energies at both
ends are computed in float64, even on a float32 trajectory, and the sums over its steps are compensated (Kahan), so that
neither large data nor long trajectories drown the energy error in rounding.

References: https://arxiv.org/abs/1206.1901, https://arxiv.org/abs/2104.14421, https://arxiv.org/abs/1111.4246.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from inference.lanes import most, when
from inference.mcmc.energy_rounding import energy_noise, exact_log_densities, stretched, too_noisy
from inference.mcmc.hmc_adaptation import Adaptation, Settings
from inference.mcmc.hmc_pilot import Pilot
from inference.mcmc.leapfrog import Path, kinetic, land, launch, leapfrog
from inference.mcmc.trajectory_sampler import TrajectoryKernel, TrajectorySampler
from inference.methods import Found, Rehearsal
from inference.target.density import Data, Position, Target
from inference.target.prior_scales import relative_scales
from inference.target.trees import choose, standard_normal
from inference.target.vectors import Flattened, as_vector
from models.validation import fraction, one_of, positive_integer, positive_number

__all__ = ["HMC", "HMCKernel", "HMCState"]

_DIVERGENT = 1000.0  # nats of energy error: the integrator has left the trajectory, as in Stan
_NOISE_EVERY = 16  # iterations between measurements: a float64 evaluation now and then costs nothing
_COUNTED = 2**30  # per trajectory: what a counter holds
_ROUNDING = 1e-6  # a length that is 10.0000003 float32 steps is 10 steps


class HMCState(NamedTuple):
    """A chain's state: all that its next step needs.

    Attributes:
        position: where the chain is.
        gradient: the gradient of the log density at `position`.
        log_density: the log density at `position`, in float64.
        path: the trajectory under way, if it has steps left.
        halvings: how often a given step and its length are halved in warm-up: one more after a refusal, one less after
            an acceptance.
        adaptation: the step size, the scales, and the state of their adaptation.
        noise: the rounding noise of the energies, as it was last measured.
        iteration: how many trajectories have ended; -1 before the one that finds the density at the start.
        key: the chain's key; each iteration folds its number in.
    """

    position: jax.Array
    gradient: jax.Array
    log_density: jax.Array
    path: Path
    halvings: jax.Array
    adaptation: Adaptation
    noise: jax.Array
    iteration: jax.Array
    key: jax.Array


@dataclass(frozen=True)
class HMCKernel(TrajectoryKernel):
    """HMC's kernel: a leapfrog trajectory and the decision at its end.

    Attributes:
        jitter: see `HMC`.
        target_acceptance: the acceptance that the adaptation of the step size aims at.
    """

    jitter: float
    target_acceptance: float

    def init(self, target: Target, data: Data, position: Position, key: jax.Array, settings: Settings) -> HMCState:
        """A chain at rest at `position`, before a trajectory of no length that finds density and gradient there.

        So the network is compiled once, in the step, and not once more for the first state.
        """
        here, settings = as_vector(position), settings._replace(scale=as_vector(settings.scale))
        nothing = jnp.zeros_like(here)
        zero = jnp.zeros((), settings.step_size.dtype)
        path = launch(here, nothing, nothing, settings.scale, zero, jnp.int32(1), zero)
        adaptation = Adaptation.begin(settings, here)
        with jax.enable_x64(True):
            nowhere = jnp.full((), -jnp.inf, jnp.float64)  # so that the trajectory's end is accepted
        return HMCState(here, nothing, nowhere, path, jnp.int32(0), adaptation, zero, jnp.int32(-1), key)

    def counts(self, state: HMCState) -> jax.Array:
        """Whether the trajectory is an iteration; one that finds the density, or of another warm-up, is not."""
        return (state.iteration >= 0) & (state.adaptation.again == 0)

    def launch(self, state: HMCState) -> Path:
        """Draw what the iteration needs, a momentum and two uniform numbers, and make the first half kick."""
        zero = jnp.zeros((), state.path.step_size.dtype)
        key = jax.random.fold_in(state.key, state.iteration)
        momentum, *others = standard_normal(key, (state.position, zero, zero))
        for_length, for_acceptance = (ndtr(number) for number in others)
        settings = state.adaptation.settings
        length = settings.length(state.iteration)
        if self.jitter:
            length = length * (1 + self.jitter * (2 * for_length - 1))
        count = jnp.maximum(jnp.ceil(length / settings.step_size * (1 - _ROUNDING)), 1)
        step_size = length / count * 0.5 ** state.halvings.astype(length.dtype)
        most = jnp.where(settings.adapts(state.iteration), settings.most_steps, _COUNTED)
        steps = jnp.minimum(count, most).astype(jnp.int32)
        return launch(state.position, state.gradient, momentum, settings.scale, step_size, steps, for_acceptance)

    def move(self, target: Flattened, data: Data, state: HMCState, path: Path) -> Path:
        """One leapfrog step."""
        return leapfrog(target, data, state.adaptation.settings.scale, path)

    def arrive(
        self, target: Flattened, data: Data, state: HMCState, complete: jax.Array
    ) -> tuple[HMCState, dict[str, jax.Array]]:
        """Take back half of the last kick, then accept the trajectory's end or stay; stay unless it is `complete`."""
        path, settings = state.path, state.adaptation.settings
        momentum = land(path, settings.scale)
        measure = complete & (state.iteration % _NOISE_EVERY == 0)
        places = path.position, stretched(state.position)
        new_log_density, nearby = exact_log_densities(target, data, places, most(1 + measure))
        noise = energy_noise(state.position, state.gradient, state.log_density, nearby)
        noise = jnp.where(measure, noise, state.noise)
        with jax.enable_x64(True):
            energy, new_energy = path.kinetic - state.log_density, kinetic(momentum) - new_log_density
            error = jnp.where(jnp.isfinite(new_energy), new_energy - energy, jnp.inf)
            probability = jnp.exp(-jnp.maximum(error, 0.0)).astype(jnp.float32)
            accepted = complete & (path.uniform < probability)
            log_density = jnp.where(accepted, new_log_density, state.log_density)
            statistics = {
                "acceptance_rate": probability,
                "accepted": accepted,
                "diverging": error > _DIVERGENT,
                "energy": jnp.where(accepted, new_energy, energy),
                "energy_error": error,
                "lp": log_density,
                "n_steps": path.steps,
                "step_size": path.step_size,
                "trajectory_length": settings.length(state.iteration),
            }
        here, there = (state.position, state.gradient), (path.position, path.gradient)
        position, gradient = choose(accepted, there, here)
        statistics["energy_noise"] = noise
        adaptation = when(
            complete & settings.adapts(state.iteration),
            lambda: state.adaptation.after(state.iteration, probability, position, gradient, self.target_acceptance),
            lambda: state.adaptation,
        )
        iteration = state.iteration + complete.astype(jnp.int32)
        halvings = jnp.maximum(state.halvings + jnp.where(accepted, -1, 1) * complete, 0)
        halvings = jnp.where((iteration < settings.warmup) & ~settings.seeking, halvings, 0)
        state = HMCState(position, gradient, log_density, path, halvings, adaptation, noise, iteration, state.key)
        return state, statistics


@dataclass(frozen=True, kw_only=True)
class HMC(TrajectorySampler):
    """Hamiltonian Monte Carlo with a fixed trajectory length.

    Defaults: 4 chains of 500 draws after 100 warm-up iterations, in coordinates that a pilot has scaled and with the
    length that it found best; each from its own member of a short ensemble. `HMC.paper()` has the setting of Izmailov
    et al. 2021 instead.

    Attributes:
        trajectory_length: "tuned" takes the length that a pilot found best; "prior" is pi/2 in coordinates whitened by
            the prior, as in the paper; or a number; see `inference.mcmc.hmc`. None is "tuned", but "prior" where
            `step_size` is given.
        step_size: the step size of the leapfrog integrator; None lets a pilot and the warm-up of each chain find it, a
            number fixes it.
        target_acceptance: the acceptance that pilot and warm-up aim at, above 0 and below 1.
        tuning: iterations of the pilot, unless rounds of it are made again; a round has 16 at least.
        jitter: each trajectory's length is multiplied by a number drawn evenly from 1 - jitter to 1 + jitter; 0 lets
            directions in which the posterior is nearly normal return to where they began.
        mass: "tuned" scales coordinates by the pilot's draws and gradients, one scale for all weights of a network that
            can trade places; "diagonal" does that for each coordinate on its own, which may not fit another chain;
            "prior" scales them by the prior. None is "tuned" if the length is, else "prior".
    """

    name: ClassVar[str] = "hmc"

    warmup: int = 100
    trajectory_length: str | float | None = None
    step_size: float | None = None
    target_acceptance: float = 0.85
    tuning: int = 100
    jitter: float = 0.2
    mass: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.trajectory_length, str):
            if self.trajectory_length not in ("tuned", "prior"):
                raise ValueError(
                    "hmc: trajectory_length must be 'tuned', 'prior' or a number above 0, got "
                    f"{self.trajectory_length!r}"
                )
        elif self.trajectory_length is not None:
            positive_number("hmc: trajectory_length", self.trajectory_length)
        if self.step_size is not None:
            positive_number("hmc: step_size", self.step_size)
        fraction("hmc: target_acceptance", self.target_acceptance)
        positive_integer("hmc: tuning", self.tuning, least=10)
        if isinstance(self.jitter, bool) or not isinstance(self.jitter, int | float):
            raise TypeError(f"hmc: jitter must be a number from 0 to below 1, got {type(self.jitter).__name__}")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"hmc: jitter must be from 0 to below 1, got {self.jitter!r}")
        if self.mass is not None:
            one_of("hmc: mass", self.mass, ("tuned", "diagonal", "prior"))

    @classmethod
    def paper(cls, **options: Any) -> HMC:
        """HMC as Izmailov et al. 2021 run it: the prior's trajectory length, in coordinates scaled by the prior."""
        return cls(**{"trajectory_length": "prior", "mass": "prior", **options})

    @property
    def _length(self) -> str | float:
        """`trajectory_length` with its default chosen."""
        if self.trajectory_length is not None:
            return self.trajectory_length
        return "tuned" if self.step_size is None else "prior"

    @property
    def _mass(self) -> str:
        """`mass` with its default chosen."""
        return self.mass or ("tuned" if self._length == "tuned" else "prior")

    @property
    def _pilot(self) -> Pilot:
        """What the pilot is to find."""
        sought = self._length == "tuned", self.step_size is None
        return Pilot(self.tuning, self.warmup, self.target_acceptance, self._mass, *sought)

    def kernel(self) -> HMCKernel:
        """The kernel, with only what shapes the program: lengths, step sizes and iterations are in the settings."""
        return HMCKernel(float(self.jitter), self.target_acceptance)

    def settings(self, target: Target, data: Data) -> Settings:
        """The scales, the trajectory length and the first step size, from the prior."""
        scale, unit = relative_scales(target, data, self.precision)
        if unit is None and self._length == "prior":
            raise ValueError(
                "hmc: trajectory_length='prior' needs a prior that is not flat everywhere; give trajectory_length a "
                "number in the units of the weights, or 'tuned'"
            )
        unit = unit or 1.0
        length = 0.5 * math.pi * unit if isinstance(self._length, str) else float(self._length)
        return self._pilot.first(Settings.of(scale, unit, length, self.step_size))

    def pilot(self, settings: Settings) -> HMC | None:
        """The chains of the pilot's next round; None if nothing is left to find."""
        options = self._pilot.options(settings)
        return None if options is None else replace(self, **options)

    def tuned(self, target: Target, data: Data, settings: Settings, rehearsal: Rehearsal) -> Found:
        """The settings of the pilot's next round, or those that all chains share, and where its chains got to."""
        return self._pilot.after(target, data, settings, rehearsal, self.step_size)

    def concerns(
        self, target: Target, data: Data, statistics: dict[str, np.ndarray], chains: Sequence[int]
    ) -> tuple[str, ...]:
        """The concerns that energies have too much rounding in them, and that chains hardly move."""
        remedy = "standardise the data, or leave large constants and casts to float32 out of the model"
        found = too_noisy(self.name, statistics["energy_noise"], statistics["lp"], remedy)
        return found + self._stuck(statistics, chains)
