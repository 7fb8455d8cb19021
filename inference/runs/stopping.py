"""When draws are enough: the least effective sample size and the largest R-hat, in function space.

Looked at after 100 draws per chain, at every doubling from there, and at the end: a rule that is asked after every draw
would stop on the first lucky one. What an optimiser's `patience` asks of its loss is here too.
"""

from __future__ import annotations

import numpy as np

from inference import mixing
from inference.methods import Method
from inference.results.function_space import function_draws, weight_draws
from inference.results.posterior import Posterior
from models import Network

__all__ = ["enough", "milestones", "settled"]

_LEAST_JUDGED = 4  # draws per chain for which R-hat and ESS are defined
_LEAST = 100  # draws per chain before the first look


def milestones(method: Method) -> list[int]:
    """The numbers of draws per chain, or of an optimiser's steps, after which to look; none without a condition."""
    patience = getattr(method, "patience", None)
    if patience:
        return [*range(2 * patience, method.iterations, patience), method.iterations]
    if not getattr(method, "until", None):
        return []
    doublings = int(np.ceil(np.log2(max(len(method.kept), _LEAST) / _LEAST)))
    return [*(_LEAST * 2**i for i in range(doublings)), len(method.kept)]


def settled(loss: np.ndarray, patience: int) -> bool:
    """Whether no curve, (chain, step, ...), has fallen in its last steps by more than the standard error of that.

    The curve of a fit that has failed ends in NaN, and is not waited for.
    """
    last, before = loss[:, -patience:].astype(np.float64), loss[:, -2 * patience : -patience].astype(np.float64)
    error = np.sqrt((last.var(axis=1) + before.var(axis=1)) / patience)
    return not np.any(before.mean(axis=1) - last.mean(axis=1) > error)


def enough(posterior: Posterior) -> bool:
    """Whether the draws so far meet the conditions in `until`; with one chain R-hat is that of its halves.

    An R-hat above its condition that chance explains counts as met, as it does in `diagnostics.convergence`; without a
    condition on the ESS, at least 50 effective draws are asked for, because below that chance explains any R-hat.
    """
    if posterior.shape[1] < _LEAST_JUDGED:
        return False
    functions = function_draws(posterior) if isinstance(posterior.model, Network) else weight_draws(posterior)
    conditions = dict(posterior.method.options()["until"])
    least = min(mixing.ess(functions, kind).min() for kind in ("bulk", "tail"))
    if not least >= conditions.get("ess", mixing.LEAST_ESS):
        return False
    if "rhat" in conditions:
        return not mixing.apart(functions, conditions["rhat"]).any()
    return True
