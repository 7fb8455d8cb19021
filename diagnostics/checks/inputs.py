"""The inputs and targets that a check of a network is given, in whichever form."""

from __future__ import annotations

from typing import Any

import numpy as np

from data.pairs import as_pair
from inference import Posterior
from models import Network

__all__ = ["inputs_and_targets"]


def inputs_and_targets(what: str, posterior: Posterior, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Validated inputs and targets, in the units of the `y` that was given to `run`.

    Args:
        what: the name of the function that needs them, for messages.
        posterior: the posterior of a network.
        x: the inputs; or a `Split` or a pair `(x, y)`, if `y` is None.
        y: the targets.
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(f"{what} needs a posterior, got {type(posterior).__name__}")
    if not isinstance(posterior.model, Network):
        raise TypeError(f"{what} needs the posterior of a network of models, whose rows are known; this is another's")
    if y is None:
        x, y = as_pair(what, x)
    inputs, targets = posterior.model.validate(x, y, posterior.method.precision)
    return inputs, targets
