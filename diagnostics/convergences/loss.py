r"""Has a loss settled? Three questions about its curve tell, each answered in standard errors.

Over the last fifth of the steps, does it fall, or does it rise? Optimisers whose learning rate decays to 0 stop moving
whether they have arrived or not, so their last fifth is flat either way, and one more question is asked: how far did
the loss still fall from the middle fifth, where the learning rate is half its peak, to the last one? If that is a good
part of the whole descent, the steps ran out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["LEAST_CHANGE", "LEAST_STEPS", "Settling"]

LEAST_STEPS = 50
"""The fewest steps with which a loss can be judged: its last fifth then has 10, enough to see a slope."""

LEAST_CHANGE = 0.1
"""A loss that changes by fewer nats over the last fifth of the steps has settled, however sure the change is."""

_SHARE = 0.01  # share of the whole descent: a fit that has arrived by half-time makes less of it afterwards
_FIFTH = 5


class Settling(NamedTuple):
    """How a loss ended.

    Attributes:
        slope: the least-squares slope over the last fifth of the steps, in its standard errors.
        change: the slope times the number of those steps: how far the loss rose, in nats.
        fall: how far the mean loss fell from the middle fifth to the last one.
        error: the standard error of `fall`.
        share: `fall` as a share of the whole descent, from the first loss to the last fifth.
    """

    slope: float
    change: float
    fall: float
    error: float
    share: float

    @classmethod
    def of(cls, loss: np.ndarray) -> Settling:
        """How `loss` ended, a curve (step,) of at least ten steps."""
        loss = np.asarray(loss, np.float64)
        length = len(loss) // _FIFTH
        middle, last = loss[2 * length : 3 * length], loss[-length:]
        fall = float(middle.mean() - last.mean())
        error = float(np.sqrt((middle.var() + last.var()) / length))
        descent = float(loss[0] - last.mean())
        return cls(*_slope(last), fall, error, fall / descent if descent > 0 else np.inf)

    def failures(self, threshold: float, nats: float = LEAST_CHANGE, share: float = _SHARE) -> list[str]:
        """What shows that the loss has not settled, in words.

        Args:
            threshold: how many standard errors a slope or a fall must have to count.
            nats: how much the loss must have changed to count.
            share: what part of the whole descent a fall must be to count.
        """
        found = []
        if abs(self.slope) > threshold and abs(self.change) > nats:
            way, remedy = ("still falling", "more steps") if self.slope < 0 else ("rising", "a lower learning_rate")
            found.append(f"the loss was {way} at the end, by {abs(self.change):.3g} over the last fifth; use {remedy}")
        if self.fall > max(nats, threshold * self.error) and self.share > share:
            part = f", {self.share:.0%} of its whole descent" if 0.01 <= self.share < np.inf else ""
            found.append(
                f"the steps ran out: from the middle fifth to the last one the loss fell by {self.fall:.3g}{part}; "
                "use more steps"
            )
        return found


def _slope(tail: np.ndarray) -> tuple[float, float]:
    """The least-squares slope of `tail` in its standard errors, and how far it takes the loss over `tail`."""
    step = np.arange(len(tail)) - (len(tail) - 1) / 2
    slope = (step @ tail) / (step @ step)
    residual = tail - tail.mean() - slope * step
    error = np.sqrt((residual @ residual) / max(len(tail) - 2, 1) / (step @ step))
    return float(slope / error) if error > 0 else 0.0, float(slope * len(tail))
