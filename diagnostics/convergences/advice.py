"""What to do next, in words, from what was measured: each piece of advice names the option that it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from inference import Posterior
from models import Network, Normal

if TYPE_CHECKING:
    from diagnostics.convergences.verdict import Convergence

__all__ = ["advice_for_chains", "advice_for_guide", "advice_for_point"]

_APART, _AT_REST = 1.1, 1.05  # R-hat of chains that differ clearly, and of the halves of one that is at rest
_MOSTLY = 0.9  # share of chains and quantities
_RARE = 0.01  # share of draws up to which divergences are answered with shorter steps
_SATURATED, _ALL = 0.05, 0.95  # shares of NUTS trajectories that are cut off
_WASTED_ACCEPTANCE, _MANY_STEPS = 0.6, 200  # above both, trajectories are long and accepted: question their length
_HOPELESS = 20  # if more than this many times as many draws are needed, the method has to change
_GUIDES = ("lowrank", "fullrank", "mixture")  # guides that can follow correlations or several modes


def advice_for_chains(found: Convergence, posterior: Posterior) -> tuple[str, ...]:
    """What to do next about chains; empty where there is nothing to do."""
    judged = found.judged
    assert judged is not None
    steps = list(_on_mixing(found, posterior))
    chains, draws = posterior.shape
    options = posterior.method.options()
    if chains == 1:
        steps.append("Run several chains: one can't show whether others would end elsewhere.")
    if posterior.stopped:
        steps.append("Chains that stopped before their end are left out: look at why, and run them again.")
    if found.divergences:
        share = found.divergences / (draws * chains)
        aim = options.get("target_acceptance") if options.get("step_size") is None else None
        how = f"target_acceptance={(1 + aim) / 2:.3g}" if aim else "a smaller step_size"
        steps.append(
            f"Divergent draws: take shorter steps, {how}."
            if share <= _RARE
            else f"Many draws diverge: take shorter steps ({how}), a prior with lighter tails, or inputs and targets "
            "of scale 1."
        )
    if found.ebfmi < found.thresholds["ebfmi"]:
        steps.append("The energy moves too slowly (E-BFMI): a prior with lighter tails or longer trajectories help.")
    if found.saturated > _ALL:
        steps.append(
            "Every trajectory was cut off at the largest tree depth, so that draws are close to the one before: raise "
            "max_tree_depth, rescale the inputs, or use method='hmc'."
        )
    elif found.saturated > _SATURATED:
        steps.append(
            f"{found.saturated:.0%} of the trajectories were cut off at the largest tree depth, which leaves draws "
            "closer to the one before: raise max_tree_depth, or rescale the inputs."
        )
    if found.bias is not None and found.bias.failures(found.thresholds["temperature"], found.thresholds["noise"]):
        steps.append("The sampler's own error shows: halve step_size, or use larger minibatches or control_variates.")
    return tuple(steps)


def _on_mixing(found: Convergence, posterior: Posterior) -> list[str]:
    """What to do next about chains that disagree or have too few effective draws; empty for other chains."""
    judged = found.judged
    assert judged is not None
    rhat, ess = found.thresholds["rhat"], found.thresholds["ess"]
    apart = judged.apart(rhat).any()
    if not apart and judged.least_ess >= ess:
        return []
    if judged.least_ess == 0:
        return ["Some quantity never moves, or is not finite: look at the step size and at the data's scale."]
    if apart and judged.worst_rhat > max(rhat, _APART) and np.mean(judged.chainwise_rhat <= _AT_REST) >= _MOSTLY:
        return [
            "Each chain is at rest, in a mode of its own: longer chains will hardly help. Use more chains, and report "
            "what the chains say one by one."
        ]
    options = posterior.method.options()
    times = max(2.0, 1.5 * ess / judged.least_ess)  # the least of many ESS is uncertain by a third
    longer = f"Run longer: about draws={_rounded(posterior.shape[1] * times):,} per chain"
    if "until" in options:
        longer += f", or until={{'ess': {ess:g}}}"
    steps = []
    if (
        posterior.method.caveat
        and found.bias is not None
        and times > _HOPELESS
        and isinstance(posterior.model, Network)
    ):
        return [
            f"The draws are far from independent: {longer[0].lower()}{longer[1:]} would be needed. Of the samplers "
            "without a Metropolis step, method='mclmc' moves farthest per gradient; method='hmc' is exact."
        ]
    if "jitter" in options and found.acceptance > _WASTED_ACCEPTANCE and not options["jitter"]:
        steps.append(
            "Trajectories of one length can return to where they began: let the length vary, jitter=0.2, before you "
            "run longer."
        )
    by_prior = options.get("trajectory_length") == "prior"
    if by_prior and found.acceptance > _WASTED_ACCEPTANCE and found.steps > _MANY_STEPS:
        steps.append(
            f"A draw takes {found.steps:,.0f} gradients: the posterior is much narrower than the prior that "
            "trajectory_length is measured by. Try a shorter one, mass='diagonal' with tuning=500, or method='nuts'."
        )
    return [*steps, f"{longer}."]


def _exact_draws(posterior: Posterior) -> str:
    """Advice on how to see the error of an approximation."""
    if isinstance(posterior.model, Network):
        return "Compare it with exact draws: diagnostics.compare({...}, test, reference='hmc')."
    return "Compare its sites with those of exact draws, method='nuts'."


def advice_for_guide(posterior: Posterior, settled: bool, collapsed: bool, far: bool, apart: bool) -> tuple[str, ...]:
    """What to do next about a guide, by what its loss, its free energy and its importance weights say."""
    options = posterior.method.options()
    guide = options.get("guide")
    name = guide if isinstance(guide, str) or guide is None else "one of your own"
    if name is None:  # Laplace's normal has no guide to choose
        return _advice_for_laplace(posterior, settled, collapsed, far or apart)
    made = posterior.curves["loss"].shape[1]
    if not settled and options["patience"] is not None and made < options["steps"]:
        return (f"It was stopped by patience={options['patience']} after {made:,} steps: raise it, or leave it out.",)
    if not settled:
        return (f"Use more steps (steps={3 * options['steps']:,}), or a learning_rate that suits the loss curve.",)
    if collapsed and not isinstance(guide, str):
        return ("Begin your guide elsewhere, by its params or the init_loc_fn of an autoguide, and use more steps.",)
    if collapsed:
        start = "" if options["start"] == "map" else "Start around a MAP point (start='map'). "
        longer = f"use more steps (steps={3 * options['steps']:,})"
        return (f"{start}Keep the best of several fits (restarts=8), and {longer}.",)
    weighted = "guide_log_density" in posterior.statistics
    if weighted and not (far or apart):
        return ()
    compare = _exact_draws(posterior)
    if not weighted:
        return (compare,)
    others = [repr(each) for each in _GUIDES if each != name]
    richer = f"Try a guide that can follow the posterior (guide={' or '.join(others)})."
    if far:
        return (richer, compare)
    more = (
        f"The width may still be on its way: use more steps (steps={3 * options['steps']:,}) or a larger learning_rate."
    )
    return (more, richer, compare)


def _advice_for_laplace(posterior: Posterior, settled: bool, collapsed: bool, apart: bool) -> tuple[str, ...]:
    options = posterior.method.options()
    steps = []
    if not settled and getattr(getattr(posterior.model, "architecture", None), "activation", None) == "relu":
        steps.append("Use activation='tanh' or 'silu': the mode of a network of rectifiers sits on kinks.")
    elif not settled:
        steps.append(
            f"Use more steps (steps={3 * options['steps']:,}), a larger learning_rate, or standardise the data."
        )
    given = "prior_scale_factor" not in posterior.guide and options["structure"] == "full"
    normal = isinstance(getattr(posterior.model, "prior", None), Normal)
    if (collapsed or apart) and given and normal and "noise" in posterior.draws:
        steps.append(
            "Let the evidence choose the scale of the prior and of the noise, hyperparameters='evidence': the mode of "
            "a flexible network takes the noise below what its weights' own uncertainty leaves."
        )
    elif collapsed and given and normal:
        steps.append("Let the evidence choose the scale of the prior, hyperparameters='evidence'.")
    if collapsed or apart:
        steps.append(_exact_draws(posterior))
    return tuple(steps)


def advice_for_point(posterior: Posterior) -> tuple[str, ...]:
    """What to do next about a point estimate or an ensemble whose loss had not settled."""
    options = posterior.method.options()
    advice = [f"Use more steps (steps={3 * options['steps']:,}), or a larger learning_rate."]
    if isinstance(posterior.model, Network):
        advice.append("Standardise the inputs and the targets, as data.load(...).split() does.")
    return tuple(advice)


def _rounded(count: float) -> int:
    """`count` rounded up to two significant digits."""
    unit = 10 ** max(int(np.floor(np.log10(count))) - 1, 0)
    return int(np.ceil(count / unit) * unit)
