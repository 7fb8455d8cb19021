r"""The bias of samplers without a Metropolis step, by what they measure while they run.

Where draws follow the posterior at temperature T, two averages are T: the kinetic temperature of the momentum, and, by
integration by parts, the configurational temperature -E[(w - c) . grad log density] / D for any fixed c (Wenzel et al.
2020). A step that is too long, or minibatches that are too noisy for it, raise both. The noise ratio says how much is
due to minibatches: the variance that they add to a step, over the variance of the noise that is injected on purpose.

What was measured is judged twice. `concerns` is what a run tells when it is over: only what no user should overlook,
with wide thresholds that must be missed by several Monte Carlo errors, so that a short run raises no false alarm.
`failures` is stricter, with the thresholds that `diagnostics.convergence` is given.

Reference: https://arxiv.org/abs/2002.02405.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from inference import mixing

__all__ = ["Bias"]

_SURE = 3.0  # standard errors that an excess must have for a verdict to count it
_TOO_MUCH = 0.1  # the minibatches' noise as a share of the injected noise, of which a run tells
_FAR, _CERTAIN = 0.5, 5.0  # the distance from T of which a run tells: as a share of T, and in standard errors
_LEAST = 100  # draws per chain: fewer are a trial run, whose standard error is not to be believed


@dataclass(frozen=True)
class Bias:
    """Temperatures of a sampler's draws, and the noise of its gradients.

    Attributes:
        temperature: T, which the other two temperatures should be.
        kinetic: the temperature of the momentum.
        configurational: the temperature of the positions.
        configurational_error: the Monte Carlo standard error of `configurational`.
        noise_ratio: the variance that minibatches add to a step, over the variance of the injected noise.
        draws: how many draws per chain were measured.
    """

    temperature: float
    kinetic: float
    configurational: float
    configurational_error: float
    noise_ratio: float
    draws: int = _LEAST

    @classmethod
    def of(cls, statistics: Mapping[str, np.ndarray], temperature: float) -> Bias | None:
        """The bias by the statistics of the draws; None if the sampler measures no temperatures: see its `caveat`."""
        if "configurational_temperature" not in statistics:
            return None
        configurational = statistics["configurational_temperature"][..., None].astype(np.float64)
        return cls(
            temperature,
            float(statistics["kinetic_temperature"].mean()),
            float(configurational.mean()),
            float(mixing.mcse(configurational)[0]),
            float(statistics["gradient_noise_ratio"].mean()),
            configurational.shape[1],
        )

    def failures(self, excess: float, noise: float) -> list[str]:
        """What misses the thresholds `excess` and `noise`, in words."""
        found = []
        if not self._away <= max(excess * self.temperature, _SURE * self.configurational_error):
            why = (
                "the step is too long, or the chains are still on their way"
                if self.configurational > self.temperature
                else "the chains have not spread yet; run longer"
            )
            found.append(
                f"configurational temperature {self.configurational:.3g} +- {self.configurational_error:.2g} instead "
                f"of {self.temperature:g}: {why}"
            )
        if not self.noise_ratio <= noise:
            found.append(
                f"the minibatches add {self.noise_ratio:.0%} to the injected noise, above {noise:.0%}: the draws are "
                "too wide"
            )
        return found

    def concerns(self, control_variates: bool) -> tuple[str, ...]:
        """What a run tells about its draws, with what to do; `control_variates` are recommended where they are off."""
        found = []
        if self.noise_ratio > _TOO_MUCH:
            remedies = (
                " or a larger batch_size" if control_variates else ", a larger batch_size or control_variates=True"
            )
            found.append(
                f"the minibatches' noise is {self.noise_ratio:.0%} of the injected noise, so the draws are too wide; "
                f"use a smaller step_size{remedies}"
            )
        certain = self._away > _FAR * self.temperature + _CERTAIN * self.configurational_error
        if certain and self.draws >= _LEAST:
            why = (
                "the chains have not spread out: run longer, or with a larger step_size"
                if self.configurational < self.temperature
                else "the step is too long, or the chains are still on their way: use a smaller step_size or a longer "
                "warmup"
            )
            found.append(
                f"the configurational temperature is {self.configurational:.2g} +- {self.configurational_error:.1g}, "
                f"not {self.temperature:g}; {why}"
            )
        return tuple(found)

    @property
    def _away(self) -> float:
        return abs(self.configurational - self.temperature)

    def __str__(self) -> str:
        return (
            f"temperature {self.temperature:g}: kinetic {self.kinetic:.3g}, configurational {self.configurational:.3g} "
            f"+- {self.configurational_error:.2g}; minibatches add {self.noise_ratio:.1%} to the injected noise"
        )
