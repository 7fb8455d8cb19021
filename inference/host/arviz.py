r"""The one place that knows ArviZ, of which there are two worlds: up to 0.23 for Python 3.11, and 1.x.

Statistics of arrays come from `arviz_stats`, the part of ArviZ that both worlds share: R-hat, ESS and Monte Carlo error
are those of ArviZ 0.23 and of 1.x to the last bit, and k-hat is that of 1.x (0.23 takes one draw more into the tail).
Groups of draws are an `arviz.InferenceData` in the first world and an `xarray.DataTree` in the second, with the same
groups, variables and dimensions.

Everything is imported where it is first used, because that takes longer than importing all the rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

__all__ = [
    "bfmi",
    "by_chain_and_draw",
    "ess",
    "group_names",
    "grouped",
    "load_statistics",
    "mcse",
    "pareto_smoothed",
    "rhat",
]

_TAIL = (0.05, 0.95)  # the quantiles whose ESS is the tail's
_FEWEST = 30  # draws of which a fifth is a tail that a Pareto distribution can be fitted to, with a first quartile


def rhat(draws: Float[np.ndarray, "chain draw k"], kind: str = "rank") -> Float[np.ndarray, " k"]:
    """Split R-hat of each quantity: "rank", the larger one of "z_scale" (of the values) and "folded" (of distances)."""
    return _of_arrays().rhat(draws, chain_axis=0, draw_axis=1, method=kind)


def ess(draws: Float[np.ndarray, "chain draw k"], kind: str = "bulk") -> Float[np.ndarray, " k"]:
    """Effective sample size of each quantity: "bulk", "tail" or "mean"."""
    which = {"prob": _TAIL} if kind == "tail" else {}
    return _of_arrays().ess(draws, chain_axis=0, draw_axis=1, method=kind, **which)


def mcse(draws: Float[np.ndarray, "chain draw k"]) -> Float[np.ndarray, " k"]:
    """Monte Carlo standard error of the mean of each quantity."""
    return _of_arrays().mcse(draws, chain_axis=0, draw_axis=1, method="mean")


def bfmi(energy: Float[np.ndarray, "chain draw"]) -> Float[np.ndarray, " chain"]:
    """The energy fraction of missing information of each chain."""
    return _of_arrays().bfmi(energy)


def pareto_smoothed(
    log_weights: Float[np.ndarray, " draw"], efficiency: float = 1.0
) -> tuple[Float[np.ndarray, " draw"], float]:
    """Importance weights whose largest are smoothed (Vehtari et al. 2024), normalised, as logarithms, and k-hat.

    K-hat is infinite, and nothing is smoothed, where there is no tail to fit: with fewer than 30 draws, or where a
    quarter of the tail or more has one and the same weight, such as 0 in double precision.

    Args:
        log_weights: logarithms of the weights, up to a constant.
        efficiency: the effective share of the draws, on which the length of the tail depends.
    """
    log_weights = np.asarray(log_weights, np.float64)
    count = len(log_weights)
    if count >= _FEWEST:
        # The tail as `arviz_stats` takes it: a fifth of few draws, 3 sqrt(effective draws) / efficiency of many.
        length = int(3 * np.sqrt(count / efficiency) if count * efficiency > 225 else count / 5)
        tail = np.exp(np.sort(log_weights)[-length:] - log_weights.max())
        if tail[int(length / 4 + 0.5) - 1] > tail[0]:
            smoothed, k = _of_arrays().psislw(-log_weights, r_eff=efficiency)  # it takes log-likelihoods, and negates
            return smoothed, float(k) if np.isfinite(k) else np.inf
    return log_weights - logsumexp(log_weights), np.inf


def grouped(
    draws: Mapping[str, Mapping[str, np.ndarray]],
    curves: Mapping[str, np.ndarray],
    observed: Mapping[str, np.ndarray],
    chains: list[int],
    attributes: dict[str, Any],
) -> Any:
    """Groups of draws as ArviZ has them: an `InferenceData` by ArviZ 0.23, a `DataTree` by 1.x.

    Args:
        draws: the groups whose variables are (chain, draw, ...).
        curves: variables of the group "sample_stats" that are (chain, step).
        observed: the variables of the group "observed_data".
        chains: the numbers of the chains.
        attributes: attributes of every group.
    """
    arviz = _arviz()
    first_world = _is_first_world(arviz)
    without_draws: dict[str, Any] = {"default_dims": []} if first_world else {"sample_dims": []}
    with warnings.catch_warnings():
        for world in ("More chains", "Found chain dimension to be longer"):  # than draws, as in an ensemble
            warnings.filterwarnings("ignore", world)
        groups = {
            name: arviz.dict_to_dataset(dict(variables), attrs=attributes, coords={"chain": chains})
            for name, variables in draws.items()
        }
        groups["sample_stats"] = groups["sample_stats"].merge(
            {name: (("chain", "step"), values) for name, values in curves.items()}
        )
        groups["observed_data"] = arviz.dict_to_dataset(dict(observed), attrs=attributes, **without_draws)
    if first_world:
        return arviz.InferenceData(**groups)
    import xarray

    return xarray.DataTree.from_dict(groups)


def group_names(draws: Any) -> list[str] | None:
    """The names of the groups of an `InferenceData` or a `DataTree`; None for anything else.

    Both are told by what they have, whichever world is installed.
    """
    names = getattr(draws, "groups", None)
    if names is None or not hasattr(draws, "to_netcdf"):
        return None
    return [path.strip("/") for path in (names() if callable(names) else names) if path.strip("/")]


def by_chain_and_draw(group: Any) -> tuple[dict[str, np.ndarray], list[str]]:
    """The variables of a group as (chain, draw, ...), and the names of those that have no such dimensions."""
    chains, others = {}, []
    for name, values in group.data_vars.items():
        if {"chain", "draw"} <= set(values.dims):
            chains[str(name)] = np.asarray(values.transpose("chain", "draw", ...))
        else:
            others.append(str(name))
    return chains, others


def load_statistics() -> None:
    """Import what computes statistics, which takes a second: for whoever will need it, and waits for something else."""
    _of_arrays()


def _of_arrays() -> Any:
    from arviz_stats.base import array_stats

    return array_stats


def _arviz() -> Any:
    with warnings.catch_warnings():  # 0.23 announces 1.x, once a day
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing a major refactor", FutureWarning)
        import arviz
    return arviz


def _is_first_world(arviz: Any) -> bool:
    return int(arviz.__version__.partition(".")[0]) < 1
