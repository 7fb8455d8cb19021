"""What the scalars of a stochastic gradient sampler say against its draws, when the run is over.

`diagnostics.convergence` is stricter. This module reports only what no user should overlook: its thresholds are wide,
and a measured value must miss them by several Monte Carlo errors, so that a short run raises no false alarm.
"""

from __future__ import annotations

import numpy as np

from inference import mixing

__all__ = ["noise_concern", "temperature_concern"]

_TOO_MUCH = 0.1  # the minibatches' noise as a share of the injected noise
_FAR, _SURE = 0.5, 5.0  # distance from the temperature: as a share of it, and in standard errors
_LEAST = 100  # draws per chain: fewer are a trial run, whose standard error is not to be believed


def noise_concern(statistics: dict[str, np.ndarray], control_variates: bool) -> tuple[str, ...]:
    """The concern that the gradient is too noisy for its step, and what to do about it; empty if it is not."""
    ratio = float(statistics["gradient_noise_ratio"].mean())
    if not ratio > _TOO_MUCH:
        return ()
    remedies = "or a larger batch_size" if control_variates else "a larger batch_size or control_variates=True"
    return (
        f"the minibatches' noise is {ratio:.0%} of the injected noise, so the draws are too wide; use a smaller "
        f"step_size{' ' if control_variates else ', '}{remedies}",
    )


def temperature_concern(statistics: dict[str, np.ndarray], temperature: float) -> tuple[str, ...]:
    """The concern that the draws' configurational temperature is far from `temperature`; empty if it is not."""
    values = statistics["configurational_temperature"][..., None].astype(np.float64)
    if values.shape[1] < _LEAST:
        return ()
    mean, error = float(values.mean()), float(mixing.mcse(values)[0])
    if not abs(mean - temperature) > _FAR * temperature + _SURE * error:
        return ()
    why = (
        "the chains have not spread out: run longer, or with a larger step_size"
        if mean < temperature
        else "the step is too long, or the chains are still on their way: use a smaller step_size or a longer warmup"
    )
    return (f"the configurational temperature is {mean:.2g} +- {error:.1g}, not {temperature:g}; {why}",)
