"""When a run may end before its last iteration: draws that are enough, or a loss that has settled.

Draws are judged by the least effective sample size and the largest R-hat, in function space, after 100 draws per chain,
150, 200, 300, 400, 600 and so on, and at the end: a rule that is asked after every draw would stop on the first lucky
one, and one that waits for every doubling makes up to twice the draws that are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inference import mixing
from inference.engine.kept_draws import FUNCTIONS
from inference.engine.ledger import Values
from inference.engine.stage import Stop
from inference.host.compiling import tracing
from inference.methods import Method
from inference.optimisation.optimiser import Optimisation
from inference.results.function_space import site_columns
from inference.results.network_outputs import function_values, network_outputs
from inference.samplers import Sampler
from models import Network

__all__ = ["EnoughDraws", "Settled", "stop_of"]

_LEAST_JUDGED = 4  # draws per chain for which R-hat and ESS are defined
_LEAST = 100  # draws per chain before the first look


@dataclass(frozen=True)
class EnoughDraws:
    """Whether the draws meet the conditions in `until`; with a single chain, R-hat compares its two halves.

    An R-hat above its condition that chance explains counts as met, as it does in `diagnostics.convergence`; without a
    condition on the ESS, at least 50 effective draws are asked for, because below that chance explains any R-hat.

    Attributes:
        conditions: the least "ess", the largest "rhat", or both.
        draws: how many draws per chain there are at the end.
        model: the model whose draws they are.
        probes: inputs at which the functions of a network are judged.
        precision: the precision in which the functions are computed.
        deterministic: sites of any other model that are not judged, because they follow from the others.
    """

    conditions: dict[str, float]
    draws: int
    model: Callable[..., Any]
    probes: np.ndarray
    precision: str
    deterministic: Collection[str]

    @property
    def milestones(self) -> Sequence[int]:
        """100 draws per chain, each doubling, the places half way to the next one, and the end."""
        doublings = int(np.ceil(np.log2(max(self.draws, _LEAST) / _LEAST)))
        looks = [look for i in range(doublings) for look in (_LEAST * 2**i, _LEAST * 2**i * 3 // 2)]
        return [*(look for look in looks if look < self.draws), self.draws]

    def met(self, draws: Values, scalars: Values) -> bool:
        """Whether the draws so far are enough."""
        functions = self._functions(draws, scalars)
        if functions.shape[1] < _LEAST_JUDGED:
            return False
        least = min(mixing.ess(functions, kind).min() for kind in ("bulk", "tail"))
        if not least >= self.conditions.get("ess", mixing.LEAST_ESS):
            return False
        if "rhat" in self.conditions:
            return not mixing.apart(functions, self.conditions["rhat"]).any()
        return True

    def _functions(self, draws: Values, scalars: Values) -> np.ndarray:
        """What is judged, (chain, draw, quantity): functions of a network, sites of any other model."""
        if FUNCTIONS in scalars:
            return scalars[FUNCTIONS]
        if not isinstance(self.model, Network):
            chain, draw = next(iter(scalars.values())).shape[:2]
            return site_columns(draws, self.deterministic, (chain, draw))
        with tracing(self.precision):
            outputs = network_outputs(self.model, draws, self.probes)
        return function_values(self.model, outputs, draws)


@dataclass(frozen=True)
class Settled:
    """Whether no loss has fallen in its last `patience` steps by more than the standard error of the fall.

    The curve of a fit that has failed ends in NaN, and is not waited for.

    Attributes:
        patience: how many of the last steps are compared with as many steps before them.
        steps: how many steps the optimiser has; once all are made, it can't end early.
    """

    patience: int
    steps: int

    @property
    def milestones(self) -> Sequence[int]:
        """Every `patience` steps, and the end."""
        return [*range(2 * self.patience, self.steps, self.patience), self.steps]

    def met(self, draws: Values, scalars: Values) -> bool:
        """Whether all curves, (chain, step, ...), have settled."""
        loss = scalars["loss"]
        if loss.shape[1] >= self.steps:
            return False
        last, before = (
            part.astype(np.float64)
            for part in (loss[:, -self.patience :], loss[:, -2 * self.patience : -self.patience])
        )
        error = np.sqrt((last.var(axis=1) + before.var(axis=1)) / self.patience)
        return not np.any(before.mean(axis=1) - last.mean(axis=1) > error)


def stop_of(
    method: Method, model: Callable[..., Any], probes: np.ndarray, deterministic: Collection[str] = ()
) -> Stop | None:
    """When a run of a method may end early; None if its options don't ask for that."""
    if isinstance(method, Optimisation) and method.patience:
        return Settled(method.patience, method.steps)
    if isinstance(method, Sampler) and method.until:
        return EnoughDraws(dict(method.until), len(method.kept), model, probes, method.precision, deterministic)
    return None
