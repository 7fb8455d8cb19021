r"""SGLD and SGHMC: samplers that see a minibatch per step and have no Metropolis step.

Let g(w) be an unbiased estimate, from a minibatch, of the gradient of T times the log density at temperature T (under
`tempering="posterior"` that is the full data's log density itself), with covariance V. With step size e, friction a,
preconditioner G, a diagonal, and n standard normal:

    r <- (1 - a) r + e G g(w) + sqrt(2 a e T G) n
    w <- w + r

SGHMC (Chen et al. 2014, equation 15) has a below 1; SGLD (Welling & Teh 2011) is a = 1,

    w <- w + e G g(w) + sqrt(2 e T G) n

The injected noise has temperature T whatever the size of the minibatch. Both samplers are right only as e goes to 0. On
a normal target with Hessian H, SGLD with G = I has the covariance S = (I - e H) S (I - e H) + e^2 V + 2 e T I. Two
biases are left: one for want of a Metropolis step, of the order of e H / 2, and one from the minibatch, e V / 2 T. Both
are measured as the draws are made, by `gradient_noise_ratio`, the mean of e G V / (2 a T), and by two temperatures,
which are T where there is no bias (Wenzel et al. 2020):

    kinetic           (1 - a / 2) |r / sqrt(e G)|^2 / D          (for a constant e)
    configurational   -(w - c) . g(w) / D        for any fixed c: integration by parts

where c is the position halfway through the warm-up. The log density `lp` of a draw is over all rows.

Each step draws its own minibatch. BlackJAX's SGHMC is not used: its momentum has temperature 1 whatever T is and comes
from a key that is used again, and all steps of a trajectory share a batch.

References: Welling & Teh 2011 (10.5555/3104482.3104568), arXiv:1402.4102, arXiv:2002.02405 (temperatures).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import numpy as np

from inference.methods import Found, Rehearsal
from inference.samplers import Sampler
from inference.sgmcmc.langevin_step import LangevinKernel
from inference.sgmcmc.step_sizes import SCHEDULES, Cycles, Settings
from inference.sgmcmc.temperatures import Bias
from inference.target.density import Data, Target
from inference.target.minibatches import check_rows
from models.validation import fraction, one_of, positive_integer, positive_number

__all__ = ["SGHMC", "SGLD"]

_CYCLES, _TUNING = 4, 500
_MOST_STEPS = 2**31 - 1  # as int32 counts them; of a cycle that has no end, too


@dataclass(frozen=True, kw_only=True)
class _StochasticGradient(Sampler):
    """Base of SGLD and SGHMC.

    Attributes:
        step_size: e, at its largest. None lets a pilot, and then the warm-up of each chain, find one that keeps the
            gradient's noise at 5 % of the injected noise and, by the largest curvature, the other bias within 10 % of a
            variance, as far as the warm-up has come to the posterior.
        batch_size: rows per step; None uses all rows, which leaves only the bias for want of a Metropolis step. For
            networks, and for models of your own that subsample a plate; see `inference.target.plates`.
        schedule: "constant"; "decaying" after the warm-up as (1 + 10 t)^(-1/3), t from 0 to 1 (Teh et al. 2016); or
            "cyclical", a cosine from e to 0 in each cycle. A cycle goes without noise to another mode in its share of
            the warm-up, and gives its share of the draws in the rest (Zhang et al. 2020).
        cycles: the number of cycles of the cyclical schedule; None is 4.
        preconditioner: None, or "rmsprop": G = 1 / root mean square of the gradient, scaled to a mean of 1, from the
            first half of the pilot (Li et al. 2016); G is fixed from there on, so it needs no correction term.
        control_variates: whether to take away the gradient's noise near the position halfway through the warm-up, at
            the cost of two gradients per step.
        tuning: steps of the pilot, which runs for `step_size=None` and for a preconditioner; None is 500.
    """

    draws: int = 500
    warmup: int = 10_000
    thin: int = 100
    step_size: float | None = None
    batch_size: int | None = None
    schedule: str = "constant"
    cycles: int | None = None
    preconditioner: str | None = None
    control_variates: bool = False
    tuning: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for count in ("batch_size", "cycles", "tuning"):
            if getattr(self, count) is not None:
                positive_integer(f"{self.name}: {count}", getattr(self, count))
        if self.step_size is not None:
            positive_number(f"{self.name}: step_size", self.step_size)
            if self.step_size < np.finfo(self.precision).tiny:
                raise ValueError(
                    f"{self.name}: {self.precision} can't hold step_size={self.step_size}; use a larger one"
                )
        one_of(f"{self.name}: schedule", self.schedule, SCHEDULES)
        if self.preconditioner is not None:
            one_of(f"{self.name}: preconditioner", self.preconditioner, ("rmsprop",))
        if not isinstance(self.control_variates, bool):
            raise TypeError(f"{self.name}: control_variates must be True or False, got {self.control_variates!r}")
        if self.control_variates and self.batch_size is None:
            raise ValueError(f"{self.name}: control_variates need minibatches; give batch_size")
        if self.cycles is not None and self.schedule != "cyclical":
            raise ValueError(f'{self.name}: cycles are those of schedule="cyclical"; leave cycles out, or ask for it')
        if self.tuning is not None and not self._piloted:
            raise ValueError(
                f"{self.name}: tuning is the length of a pilot, and with a step_size and no preconditioner none is "
                "run; leave tuning out"
            )
        for count in ("draws", "warmup"):
            if getattr(self, count) % self._number_of_cycles:
                raise ValueError(
                    f"{self.name}: {self._number_of_cycles} cycles must divide draws and warmup, of which each has its "
                    f"share, got {count}={getattr(self, count)}"
                )
        steps = max(self.iterations * self.thin, self._tuning)
        if steps > _MOST_STEPS:
            most = f"{self.name}: a chain has at most {_MOST_STEPS:,} steps"
            raise ValueError(f"{most}; warmup + draws * thin is {steps:,}")

    @property
    def _piloted(self) -> bool:
        """Whether something is left for a pilot to find."""
        return self.step_size is None or self.preconditioner is not None

    @property
    def _tuning(self) -> int:
        return _TUNING if self.tuning is None else self.tuning

    @property
    def _number_of_cycles(self) -> int:
        return (self.cycles or _CYCLES) if self.schedule == "cyclical" else 1

    @property
    def _damping(self) -> float:
        """The friction a."""
        return 1.0

    @property
    def _cycles(self) -> Cycles:
        cycles = self._number_of_cycles
        return Cycles(cycles, -(-self.warmup // cycles // self.thin), self.draws // cycles)

    @property
    def iterations(self) -> int:
        """One iteration per `thin` steps, of which the last gives a draw."""
        return self._cycles.cycles * self._cycles.length

    @property
    def kept(self) -> Sequence[int]:
        """The iterations after the warm-up of each cycle."""
        return self._cycles

    def _of_length(self, warmup: int, draws: int) -> _StochasticGradient:
        """This method with one chain of `warmup` and `draws` steps."""
        cycles = 1 if self.schedule == "cyclical" else None
        return replace(self, chains=1, warmup=warmup, draws=draws, thin=1, cycles=cycles, until=None, keep="all")

    @property
    def caveat(self) -> str:
        """The bias of draws without a Metropolis step."""
        return (
            f"{self.name.upper()} has no Metropolis step, so its draws are biased by the step size: the temperatures "
            "show how much, and half the step_size halves it."
        )

    def suited(self, target: Target, data: Data) -> _StochasticGradient:
        """This method; a `batch_size` needs a network or a subsampled plate, and at least as many rows."""
        check_rows(self.name, self.batch_size, target, data)
        return self

    def extended(self, draws: int, until: Any) -> _StochasticGradient:
        """This sampler with so many draws; a schedule that depends on their number is refused."""
        if self.schedule != "constant":
            raise ValueError(
                f"{self.name}: schedule='{self.schedule}' plans its steps over all draws, so more draws are another "
                "run; begin one, or use schedule='constant'"
            )
        return replace(self, draws=draws, until=until)

    def kernel(self) -> LangevinKernel:
        """The kernel, with only what shapes the program: lengths and step sizes are in the settings."""
        precondition = self.preconditioner is not None
        return LangevinKernel(self._damping, self.batch_size, self.schedule, self.control_variates, precondition)

    def settings(self, target: Target, data: Data) -> Settings:
        """The pilot's settings if there is one, else the chains' settings."""
        ones = np.ones(sum(leaf.size for leaf in target.position(data).values()), self.precision)
        settings = self._chain_settings(ones)
        return settings.piloted(self._tuning) if self._piloted else settings

    def _chain_settings(self, preconditioner: np.ndarray) -> Settings:
        """The settings of chains; with a constant step they don't depend on how many draws there will be."""
        settings = Settings.of(self._cycles, self.thin, preconditioner, self.step_size)
        return settings._replace(length=np.int32(_MOST_STEPS)) if self.schedule == "constant" else settings

    def pilot(self, settings: Settings) -> _StochasticGradient | None:
        """One chain that finds a step size that is not given, and the preconditioner; None if neither is sought."""
        return self._of_length(self._tuning - 1, 1) if settings.pilot else None

    def tuned(self, target: Target, data: Data, settings: Settings, rehearsal: Rehearsal) -> Found:
        """The chains' settings, with the step size and the preconditioner that the pilot found."""
        found = jax.device_get(rehearsal.states[0].settings)
        return Found(self._chain_settings(found.preconditioner).found(found, self.schedule))

    def watch(self, info: dict[str, np.ndarray], done: int) -> None:
        """Stop at the first log density that is not finite."""
        bad = np.flatnonzero(~np.isfinite(info["lp"]))
        if bad.size:
            where = (done - len(info["lp"]) + int(bad[0]) + 1) * int(info["n_steps"][0])
            step_size = float(info["step_size"][bad[0]])
            raise FloatingPointError(
                f"{self.name}: the log density became {info['lp'][bad[0]]} by step {where} with step_size="
                f"{step_size:.3g}; try step_size={step_size / 10:.1g}, or check the scale of the data"
            )

    def concerns(
        self, target: Target, data: Data, statistics: dict[str, np.ndarray], chains: Sequence[int]
    ) -> tuple[str, ...]:
        """The concerns that the gradient is too noisy for its step, and that the draws are not at the temperature."""
        bias = Bias.of(statistics, float(data.temperature))
        return tuple(f"{self.name}: {concern}" for concern in bias.concerns(self.control_variates)) if bias else ()

    def gradients(self, info: dict[str, np.ndarray], data: Data) -> float:
        """How many gradients over all rows were taken; a minibatch's counts for its share of the rows."""
        return float(info["n_gradients"].sum())

    def status(self, info: dict[str, np.ndarray], sums: dict[str, float]) -> str:
        """Mean step size and kinetic temperature."""
        step_size, temperature = (sums[name] / sums["count"] for name in ("step_size", "kinetic_temperature"))
        return f"step size {step_size:.3g}, kinetic temperature {temperature:.3g}"


@dataclass(frozen=True, kw_only=True)
class SGLD(_StochasticGradient):
    """Stochastic gradient Langevin dynamics, whose draws are biased by the step size; see the module.

    Defaults: 4 chains of 500 draws, one every 100 steps, after 10,000 steps of warm-up; a pilot of 500 steps and the
    warm-up find the step size. On most networks that is too short for a posterior, and so is ten times that: without
    momentum a chain diffuses.
    """

    name: ClassVar[str] = "sgld"


@dataclass(frozen=True, kw_only=True)
class SGHMC(_StochasticGradient):
    """Stochastic gradient HMC, whose draws are biased by the step size; see the module.

    Defaults: 4 chains of 500 draws, one every 500 steps, after 50,000 steps of warm-up; a pilot of 500 steps and the
    warm-up find the step size.

    Attributes:
        friction: a, above 0 and below 1: the share of the momentum that a step takes away.
    """

    name: ClassVar[str] = "sghmc"

    warmup: int = 50_000
    thin: int = 500
    friction: float = 0.02

    def __post_init__(self) -> None:
        super().__post_init__()
        fraction("sghmc: friction", self.friction)

    @property
    def _damping(self) -> float:
        return self.friction
