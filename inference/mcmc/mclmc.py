r"""MCLMC: microcanonical Langevin Monte Carlo, unadjusted and adjusted (Robnik et al. 2023, 2025; Sommer et al. 2025).

Draws come from exp(log density) of `inference.target.density`. A position x has a direction u of length 1, uniform on
the sphere, and both follow the dynamics of `inference.mcmc.isokinetic` with steps of size e, along which the energy

    E = K - log density(x)

would not change if the steps were exact.

**Unadjusted.** An iteration is one step, before which the direction is partly refreshed,

    u <- (u + nu z) / |u + nu z|,    z ~ N(0, I),    nu^2 = (exp(2 e / L) - 1) / d

so that it is forgotten over the length L (`trajectory_length`). There is no Metropolis step: the draws follow a density
that differs from the posterior by the steps' errors, and neither more draws nor R-hat show by how much. The sampler is
exact only in the limit of small steps; its step size is such that a step's error has the variance `energy_variance` per
coordinate. In warm-up a step whose squared error is 1,000 times that, or not finite, is taken back and a new direction
is drawn, so that a first step that is too long does not throw a chain out of its mode. Afterwards nothing is taken
back, and a chain whose log density is no longer finite stops.

**Adjusted.** An iteration is a trajectory from a new direction, of n steps, n drawn evenly from 1 to about 2 L / e. Its
end is accepted with probability min(1, exp(-(E' - E))), in warm-up too; otherwise the draw is repeated. This sampler is
exact. The log densities at both ends and K are in float64, even on a float32 trajectory.

Each chain of a network starts at its own member of an ensemble and adapts on its own, as in MILE. BlackJAX's code is
not used: its integrator loses digits of K in float32, and its tuners are loops on the host that can't be saved.

References: https://arxiv.org/abs/2212.08549, https://arxiv.org/abs/2503.01707, https://arxiv.org/abs/2502.06335.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from inference.lanes import when
from inference.mcmc.hmc import HMC
from inference.mcmc.hmc_adaptation import Settings
from inference.mcmc.hmc_pilot import SCALES
from inference.mcmc.isokinetic import Path, isokinetic, no_energy, refreshed
from inference.mcmc.mclmc_warmup import Geometry, Tuning
from inference.mcmc.trajectory_sampler import TrajectoryKernel, TrajectorySampler
from inference.methods import Found, Rehearsal
from inference.target.density import Data, Position, Target
from inference.target.prior_scales import relative_scales
from inference.target.trees import choose, standard_normal
from inference.target.vectors import Flattened, as_vector
from models.validation import fraction, one_of, positive_integer, positive_number

__all__ = ["MCLMC", "MCLMCKernel", "MCLMCState"]

_DIVERGENT = 1000.0  # nats of energy error, as for HMC
_TAKEN_BACK = 1000.0  # times the wanted squared error: the step was more than 3 times too long
_ROUGH = 30.0  # times the wanted variance, which goes as e^6: a step 1.8 times as long; a network's tails make 10
_LEAST_WARMUP = 40  # iterations: fewer can't find anything
_WARMUP_STEPS = 1000  # per trajectory in warm-up, at most: no runaway while the step size is sought
_GRADIENTS = 2  # per step


class MCLMCState(NamedTuple):
    """A chain's state: all that its next step needs.

    Attributes:
        position: where the chain is, and where a refused trajectory goes back to.
        gradient: the gradient of the log density at `position`.
        log_density: the log density at `position`, as float64; computed in float64 where an energy is judged by it.
        path: the trajectory under way, if it has steps left.
        tuning: the step size, the length, the scales, and the state of their adaptation.
        iteration: how many trajectories have ended.
        key: the chain's key; each iteration folds its number in.
    """

    position: jax.Array
    gradient: jax.Array
    log_density: jax.Array
    path: Path
    tuning: Tuning
    iteration: jax.Array
    key: jax.Array


@dataclass(frozen=True)
class MCLMCKernel(TrajectoryKernel):
    """MCLMC's kernel: a step, or a trajectory, and what becomes of its end.

    Attributes:
        adjusted: see `MCLMC`.
        energy_variance: the variance that the unadjusted sampler's step size aims at.
        target_acceptance: the acceptance that the adjusted sampler's step size aims at.
        find_scales: whether the warm-up adapts the scales.
    """

    adjusted: bool
    energy_variance: float
    target_acceptance: float
    find_scales: bool

    def init(self, target: Target, data: Data, position: Position, key: jax.Array, settings: Geometry) -> MCLMCState:
        """The state of a chain at rest at `position`, without a direction."""
        here, settings = as_vector(position), settings._replace(scale=as_vector(settings.scale))
        value, gradient = jax.value_and_grad(Flattened.of(target, data).log_density)(here, data)
        rest, step_size = jnp.zeros_like(here), jnp.asarray(settings.step_size)
        log_density = target.exact_log_density(position, data)
        nothing = jnp.int32(0)
        path = Path(here, rest, gradient, value, no_energy(), step_size, jnp.zeros_like(step_size), nothing, nothing)
        tuning = Tuning.begin(settings, here)
        return MCLMCState(here, gradient, log_density, path, tuning, nothing, key)

    def launch(self, state: MCLMCState) -> Path:
        """Draw what the iteration needs: a direction, or a change of it, and two uniform numbers."""
        geometry, zero = state.tuning.geometry, jnp.zeros((), state.path.step_size.dtype)
        key = jax.random.fold_in(state.key, state.iteration)
        noise, *others = standard_normal(key, (state.position, zero, zero))
        for_length, for_acceptance = (ndtr(number) for number in others)
        before = jnp.zeros_like(noise) if self.adjusted else state.path.direction
        steps = jnp.int32(1)
        if self.adjusted:
            most = jnp.where(state.tuning.adapting(state.iteration), _WARMUP_STEPS, 2**30)
            steps = jnp.clip(jnp.ceil(2 * for_length * geometry.length / geometry.step_size), 1, most).astype(jnp.int32)
        return state.path._replace(
            position=state.position, gradient=state.gradient, kinetic=no_energy(), step_size=geometry.step_size,
            direction=refreshed(before, noise, geometry.step_size, geometry.length), uniform=for_acceptance,
            steps=steps, left=steps,
        )  # fmt: skip

    def move(self, target: Flattened, data: Data, state: MCLMCState, path: Path) -> Path:
        """One isokinetic step."""
        return isokinetic(target, data, state.tuning.geometry.scale, path)

    def arrive(
        self, target: Flattened, data: Data, state: MCLMCState, complete: jax.Array
    ) -> tuple[MCLMCState, dict[str, jax.Array]]:
        """Go to the end of the trajectory or stay; stay unless the trajectory is `complete`."""
        path, tuning, iteration = state.path, state.tuning, state.iteration
        adapting = tuning.adapting(iteration)
        with jax.enable_x64(True):
            plain = path.log_density.astype(jnp.float64)
        judged = complete if self.adjusted else complete & adapting
        with jax.enable_x64(True):  # or `jax.vmap` would make it float32
            log_density = when(judged, lambda: target.exact_log_density(path.position, data), lambda: plain)
        with jax.enable_x64(True):
            error = path.kinetic - (log_density - state.log_density)
            finite = jnp.isfinite(error)
            error = jnp.where(finite, error, jnp.inf)
            diverging = error > _DIVERGENT
            variance = (error**2 / path.position.size).astype(jnp.float32)
            probability = jnp.exp(-jnp.maximum(error, 0.0)).astype(jnp.float32)
            statistics = {"energy_error": error, "n_steps": _GRADIENTS * path.steps, "step_size": path.step_size}
        if self.adjusted:
            accepted = complete & (path.uniform < probability)
            statistics |= {"acceptance_rate": probability, "accepted": accepted, "diverging": diverging}
        else:
            accepted = complete & (~adapting | (variance < _TAKEN_BACK * self.energy_variance))
            statistics["energy_variance"] = variance
        with jax.enable_x64(True):
            statistics["lp"] = jnp.where(accepted, log_density, state.log_density)
            # From its first draw on, an unadjusted chain compares log densities in the precision of the trajectory.
            exact = self.adjusted | tuning.adapting(iteration + 1) | ~accepted
            log_density = jnp.where(exact, statistics["lp"], plain)
        here, there = (state.position, state.gradient), (path.position, path.gradient)
        position, gradient = choose(accepted, there, here)
        direction = jnp.where(accepted | ~complete, path.direction, 0.0)

        def adapted() -> Tuning:
            if self.adjusted:
                return tuning.after_trajectory(
                    iteration, probability, position, self.find_scales, self.target_acceptance
                )
            ratio = (variance / self.energy_variance).astype(path.step_size.dtype)
            return tuning.after_step(iteration, ratio, finite, position, self.find_scales)

        tuning = when(complete & adapting, adapted, lambda: tuning)
        iteration = iteration + complete.astype(jnp.int32)
        path = path._replace(direction=direction)
        return MCLMCState(position, gradient, log_density, path, tuning, iteration, state.key), statistics


@dataclass(frozen=True, kw_only=True)
class MCLMC(TrajectorySampler):
    """Microcanonical Langevin Monte Carlo; exact only if `adjusted`.

    Defaults: 4 chains of 500 draws, each from its own member of a short ensemble. Unadjusted, an iteration is one step:
    20,000 of warm-up, and 150 per draw. Adjusted, it is a trajectory: 500 of warm-up, and one per draw.

    Attributes:
        adjusted: whether a Metropolis step makes the draws exact.
        warmup: iterations per chain that adapt what is not given and are thrown away; None is the default above.
        thin: iterations per kept draw; None is the default above.
        step_size: the integrator's step size; None adapts it, a number fixes it.
        trajectory_length: the length over which the unadjusted sampler forgets its direction, or the mean length of the
            adjusted sampler's trajectories. None adapts it, a number fixes it. Lengths and steps are in coordinates
            scaled by the prior, see `inference.mcmc.hmc`.
        energy_variance: the variance of a step's error, per coordinate, that the unadjusted sampler's step size aims
            at; None is 5e-4. Smaller is less biased and slower.
        target_acceptance: the acceptance that the adjusted sampler aims at, above 0 and below 1; None is 0.9.
        mass: "prior" scales coordinates by the prior, "diagonal" by the draws of the warm-up, "tuned" by those of a
            pilot, one scale for all weights of a network that can trade places.
    """

    name: ClassVar[str] = "mclmc"

    adjusted: bool = False
    warmup: Any = None
    thin: Any = None
    step_size: float | None = None
    trajectory_length: float | None = None
    energy_variance: float | None = None
    target_acceptance: float | None = None
    mass: str = "prior"

    def __post_init__(self) -> None:
        if not isinstance(self.adjusted, bool | np.bool_):
            raise TypeError(f"mclmc: adjusted must be True or False, got {type(self.adjusted).__name__}")
        super().__post_init__()
        ignored = "energy_variance" if self.adjusted else "target_acceptance"
        if getattr(self, ignored) is not None:
            raise ValueError(f"mclmc: {ignored} is of no use with adjusted={self.adjusted}; leave it out")
        for option in ("step_size", "trajectory_length"):
            if getattr(self, option) is not None:
                positive_number(f"mclmc: {option}", getattr(self, option))
        positive_number("mclmc: energy_variance", self._variance)
        fraction("mclmc: target_acceptance", self._acceptance)
        one_of("mclmc: mass", self.mass, ("prior", "diagonal", "tuned"))
        if self.step_size is None or self.trajectory_length is None or self.mass == "diagonal":
            what = "mclmc: warmup, which finds what step_size, trajectory_length and mass don't give,"
            positive_integer(what, self._warmup, _LEAST_WARMUP)
        elif self.step_size > self.trajectory_length:
            raise ValueError(
                f"mclmc: step_size must be at most trajectory_length, {self.trajectory_length}, got {self.step_size}"
            )

    @property
    def _warmup(self) -> int:
        return (500 if self.adjusted else 20_000) if self.warmup is None else self.warmup

    @property
    def _thin(self) -> int:
        return (1 if self.adjusted else 150) if self.thin is None else self.thin

    @property
    def _variance(self) -> float:
        return 5e-4 if self.energy_variance is None else self.energy_variance

    @property
    def _acceptance(self) -> float:
        return 0.9 if self.target_acceptance is None else self.target_acceptance

    def kernel(self) -> MCLMCKernel:
        """The kernel, with only what shapes the program: lengths, step sizes and iterations are in the settings."""
        return MCLMCKernel(bool(self.adjusted), self._variance, self._acceptance, self.mass == "diagonal")

    @property
    def caveat(self) -> str:
        """The bias of draws without a Metropolis step; nothing if `adjusted`."""
        if self.adjusted:
            return ""
        return (
            "Unadjusted MCLMC has no Metropolis step, so its draws are biased by the step size, and no number here "
            "shows how much: compare with adjusted=True, or with half the step_size."
        )

    def suited(self, target: Target, data: Data) -> MCLMC:
        """This method; a model with fewer than the two coordinates that a direction needs is refused."""
        if sum(leaf.size for leaf in target.position(data).values()) < 2:
            raise ValueError('mclmc: the model must have at least 2 unknowns: 1 has no direction to turn; use "nuts"')
        return self

    def settings(self, target: Target, data: Data) -> Geometry | Settings:
        """The scales, the first length and the first step size, from the prior; or those of the pilot's first round."""
        if self.mass == "tuned":
            return SCALES.begin(target, data, self.precision)
        scale, unit = relative_scales(target, data, self.precision)
        return self._geometry(scale, unit or 1.0)

    def pilot(self, settings: Geometry | Settings) -> HMC | None:
        """The chains of the pilot's next round; None if nothing is left to find."""
        options = SCALES.options(settings) if isinstance(settings, Settings) else None
        return None if options is None else HMC(precision=self.precision, arrangement=self.arrangement, **options)

    def tuned(self, target: Target, data: Data, settings: Settings, rehearsal: Rehearsal) -> Found:
        """The settings of the pilot's next round, or those that all chains share, and where its chains got to."""
        found = SCALES.after(target, data, settings, rehearsal)
        rounds = found.settings
        return found if rounds.round >= 0 else found._replace(settings=self._geometry(rounds.scale, rounds.unit))

    def _geometry(self, scale: Any, unit: float) -> Geometry:
        return Geometry.of(scale, unit, self.trajectory_length, self.step_size, self._warmup)

    def status(self, info: dict[str, np.ndarray], sums: dict[str, float]) -> str:
        """Mean acceptance and divergences if `adjusted`; otherwise mean step size and energy variance."""
        if self.adjusted:
            return super().status(info, sums)
        step_size, variance = (sums[name] / sums["count"] for name in ("step_size", "energy_variance"))
        return f"step size {step_size:.2g}, energy variance {variance:.1e} per coordinate"

    def watch(self, info: dict[str, np.ndarray], done: int) -> None:
        """Stop a chain whose log density is no longer finite: without a Metropolis step, a step can lead there."""
        if not np.isfinite(info["lp"]).all():
            raise FloatingPointError(
                f"mclmc: the log density was no longer finite before iteration {done}; use a smaller step_size, or "
                "adjusted=True, which refuses such steps"
            )

    def concerns(
        self, target: Target, data: Data, statistics: dict[str, np.ndarray], chains: Sequence[int]
    ) -> tuple[str, ...]:
        """The concern that chains hardly move if `adjusted`; otherwise that steps have larger errors than aimed at."""
        if self.adjusted:
            return self._stuck(statistics, chains)
        variance = statistics["energy_variance"].mean(axis=1)
        said = (
            f"made steps with an energy variance of {variance.max():.2g} per coordinate, "
            f"{variance.max() / self._variance:.0f} times what was aimed at: their draws are more biased than was "
            "asked for; warm up longer, or use a smaller step_size"
        )
        return self._of_chains(chains, variance > _ROUGH * self._variance, said)
