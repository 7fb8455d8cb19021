"""When draws are enough: the least effective sample size and the largest R-hat, in function space.

Looked at after 100 draws per chain, at every doubling from there, and at the end: a rule that is asked after every draw
would stop on the first lucky one.
"""

from __future__ import annotations

import numpy as np

from inference import mixing
from inference.functions import function_draws, weight_draws
from inference.methods import Method
from inference.posterior import Posterior
from models import Network

__all__ = ["enough", "milestones"]

_LEAST_JUDGED = 4  # draws per chain for which R-hat and ESS are defined
_LEAST = 100  # draws per chain before the first look


def milestones(method: Method) -> list[int]:
    """The numbers of draws per chain after which to look; none without a condition."""
    if not getattr(method, "until", None):
        return []
    doublings = int(np.ceil(np.log2(max(len(method.kept), _LEAST) / _LEAST)))
    return [*(_LEAST * 2**i for i in range(doublings)), len(method.kept)]


def enough(posterior: Posterior) -> bool:
    """Whether the draws so far meet the conditions in `until`; with one chain R-hat is that of its halves."""
    if posterior.shape[1] < _LEAST_JUDGED:
        return False
    functions = function_draws(posterior) if isinstance(posterior.model, Network) else weight_draws(posterior)
    conditions = dict(posterior.method.options()["until"])
    if "ess" in conditions:
        least = min(mixing.ess(functions, kind).min() for kind in ("bulk", "tail"))
        if not least >= conditions["ess"]:
            return False
    if "rhat" in conditions:
        worst = (mixing.rhat(functions) if len(functions) > 1 else mixing.chainwise_rhat(functions)).max()
        if not worst <= conditions["rhat"]:
            return False
    return True
