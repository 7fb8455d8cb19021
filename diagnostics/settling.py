r"""Has a loss settled? By three questions about its curve, each measured in standard errors.

Over the last fifth of the steps, is there a slope, down or up? Optimisers whose learning rate decays to 0 stop moving
whether they have arrived or not, so their last fifth is flat either way, and one more question is asked: how far did
the loss still fall from the middle fifth, where the learning rate is half its peak, to the last one? If that is a good
part of the whole descent, the steps ran out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Settling"]

_NATS = 0.1  # a loss that changes by less over the last fifth of the steps has settled, however sure the change is
_SHARE = 0.01  # of the whole descent: a fit that has arrived by half-time makes less of it after
_FIFTH = 5


class Settling(NamedTuple):
    """How a loss ended.

    Attributes:
        slope: the least-squares slope over the last fifth, in its standard errors; 0 if it is of no account.
        fall: how far the mean fell from the middle fifth to the last one.
        error: the standard error of that.
        share: what part of the whole descent, from the first loss to the last fifth, it is.
    """

    slope: float
    fall: float
    error: float
    share: float

    @classmethod
    def of(cls, loss: np.ndarray) -> Settling:
        """Of a curve, (step,), of at least ten."""
        loss = np.asarray(loss, np.float64)
        length = len(loss) // _FIFTH
        middle, last = loss[2 * length : 3 * length], loss[-length:]
        fall = float(middle.mean() - last.mean())
        error = float(np.sqrt((middle.var() + last.var()) / length))
        descent = float(loss[0] - last.mean())
        return cls(_slope(last), fall, error, fall / descent if descent > 0 else np.inf)

    def failures(self, threshold: float) -> list[str]:
        """What says that it has not settled, in words; the threshold is in standard errors."""
        found = []
        if self.slope < -threshold:
            found.append(f"the loss was still falling at the end, by {-self.slope:.1f} standard errors; use more steps")
        elif self.slope > threshold:
            found.append(
                f"the loss was rising at the end, by {self.slope:.1f} standard errors; use a lower learning_rate"
            )
        if self.fall > max(_NATS, threshold * self.error) and self.share > _SHARE:
            share = f", {self.share:.0%} of its whole descent" if np.isfinite(self.share) else ""
            found.append(
                f"the steps ran out: from the middle fifth to the last one the loss fell by {self.fall:.3g}{share}; "
                "use more steps"
            )
        return found


def _slope(tail: np.ndarray) -> float:
    """The least-squares slope of some losses, in its standard errors; 0 if it is of no account."""
    step = np.arange(len(tail)) - (len(tail) - 1) / 2
    slope = (step @ tail) / (step @ step)
    if abs(slope) * len(tail) < _NATS:
        return 0.0
    residual = tail - tail.mean() - slope * step
    error = np.sqrt((residual @ residual) / max(len(tail) - 2, 1) / (step @ step))
    return float(slope / error) if error > 0 else 0.0
