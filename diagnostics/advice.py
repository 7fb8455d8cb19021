"""What to do next, in words, from what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from diagnostics.convergences import Convergence

__all__ = ["advice_for_chains", "advice_for_guide"]

_APART, _AT_REST = 1.1, 1.05  # R-hat of chains that differ clearly, and of the halves of one that is at rest
_MOSTLY = 0.9  # of chains and quantities
_RARE = 0.01  # share of draws up to which divergences are answered with shorter steps
_SATURATED = 0.05
_GUIDES = ("lowrank", "fullrank", "mixture")  # that can follow correlations or several modes


def advice_for_chains(found: Convergence, draws: int, stopped: int) -> tuple[str, ...]:
    """For chains of so many draws, beside which some stopped early; empty where there is nothing to do."""
    judged = found.judged
    assert judged is not None
    rhat, ess = found.thresholds["rhat"], found.thresholds["ess"]
    steps = []
    chains = judged.draws.shape[0]
    if judged.least_ess == 0:
        steps.append("Some quantity never moves, or is not finite: look at the step size and at the data's scale.")
    elif judged.worst_rhat > max(rhat, _APART) and np.mean(judged.chainwise_rhat <= _AT_REST) >= _MOSTLY:
        steps.append(
            "Each chain is at rest, in a mode of its own: longer chains will hardly help. Use more chains, and report "
            "what the chains say one by one."
        )
    elif not (judged.worst_rhat <= rhat and judged.least_ess >= ess):
        times = max(2.0, ess / judged.least_ess)
        until = f"until={{'ess': {ess:g}, 'rhat': {rhat:g}}}"
        steps.append(f"Run longer: about draws={_rounded(draws * times):,} per chain, or {until}.")
    if chains == 1:
        steps.append("Run several chains: one can't show whether others would end elsewhere.")
    if stopped:
        steps.append("Chains that stopped before their end are left out: look at why, and run them again.")
    if found.divergences:
        share = found.divergences / (draws * chains)
        steps.append(
            "Divergent draws: use a shorter step (a higher target_acceptance, or step_size)."
            if share <= _RARE
            else "Many draws diverge: use a shorter step, a prior with lighter tails, or inputs and targets of scale 1."
        )
    if found.ebfmi < found.thresholds["ebfmi"]:
        steps.append("The energy moves too slowly (E-BFMI): a prior with lighter tails or longer trajectories help.")
    if found.saturated > _SATURATED:
        steps.append(
            f"{found.saturated:.0%} of the trajectories reached the largest tree depth, so that draws cost more than "
            "they need; rescale the inputs, or raise max_tree_depth."
        )
    if found.bias is not None and found.bias.failures(found.thresholds["temperature"], found.thresholds["noise"]):
        steps.append("The sampler's own error shows: halve step_size, or use larger minibatches or control_variates.")
    return tuple(steps)


def advice_for_guide(guide: str | None, settled: bool, close: bool | None) -> tuple[str, ...]:
    """For a guide by its name, None if there is no choice; `close` is what its importance weights say, if any."""
    if not settled:
        return ("Use more steps, or a learning_rate that suits the loss curve.",)
    if close is None:
        return ("Compare it with exact draws: diagnostics.compare({...}, test, reference='hmc').",)
    if close:
        return ()
    comparison = "compare it with exact draws: diagnostics.compare({...}, test, reference='hmc')."
    others = [name for name in _GUIDES if name != guide]
    if guide is None:
        return (f"{comparison[0].upper()}{comparison[1:]}",)
    return (f"Try a guide that can follow the posterior (guide={' or '.join(map(repr, others))}), and {comparison}",)


def _rounded(count: float) -> int:
    """Up to two digits."""
    unit = 10 ** max(int(np.floor(np.log10(count))) - 1, 0)
    return int(np.ceil(count / unit) * unit)
