r"""The bias of samplers without a Metropolis step, by what they measure while they run.

Where draws follow the posterior at temperature T, two averages are T: the kinetic temperature of the momentum, and, by
integration by parts, the configurational temperature -E[(w - c) . grad log density] / D for any fixed c (Wenzel et al.
2020). A step that is too long, or minibatches that are too noisy for it, raise both. The noise ratio says how much is
due to minibatches: the variance that they add to a step, over the variance of the noise that is injected on purpose.

Reference: https://arxiv.org/abs/2002.02405.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inference import Posterior, mixing

__all__ = ["Bias"]

_SURE = 3.0  # standard errors that an excess must have to count


@dataclass(frozen=True)
class Bias:
    """Temperatures of a sampler's draws, and the noise of its gradients.

    Attributes:
        temperature: T, which the other two temperatures should be.
        kinetic: the temperature of the momentum.
        configurational: the temperature of the positions.
        configurational_error: the Monte Carlo standard error of `configurational`.
        noise_ratio: the variance that minibatches add to a step, over the variance of the injected noise.
    """

    temperature: float
    kinetic: float
    configurational: float
    configurational_error: float
    noise_ratio: float

    @classmethod
    def of(cls, posterior: Posterior) -> Bias | None:
        """The bias by the statistics of the draws; None if the sampler measures no temperatures: see its `caveat`."""
        statistics = posterior.statistics
        if "configurational_temperature" not in statistics:
            return None
        configurational = statistics["configurational_temperature"][..., None].astype(np.float64)
        return cls(
            posterior.temperature,
            float(statistics["kinetic_temperature"].mean()),
            float(configurational.mean()),
            float(mixing.mcse(configurational)[0]),
            float(statistics["gradient_noise_ratio"].mean()),
        )

    def failures(self, excess: float, noise: float) -> list[str]:
        """What misses the thresholds `excess` and `noise`, in words."""
        found = []
        away = abs(self.configurational - self.temperature)
        if not away <= max(excess * self.temperature, _SURE * self.configurational_error):
            found.append(
                f"configurational temperature {self.configurational:.3g} +- {self.configurational_error:.2g} instead "
                f"of {self.temperature:g}: {self._why}"
            )
        if not self.noise_ratio <= noise:
            found.append(
                f"the minibatches add {self.noise_ratio:.0%} to the injected noise, above {noise:.0%}: the draws are "
                "too wide"
            )
        return found

    @property
    def _why(self) -> str:
        if self.configurational > self.temperature:
            return "the step is too long, or the chains are still on their way"
        return "the chains have not spread yet; run longer"

    def __str__(self) -> str:
        return (
            f"temperature {self.temperature:g}: kinetic {self.kinetic:.3g}, configurational {self.configurational:.3g} "
            f"+- {self.configurational_error:.2g}; minibatches add {self.noise_ratio:.1%} to the injected noise"
        )
