"""Chains that another program made, in ArviZ's groups, as a posterior that can be judged.

Nothing is known of their model but the names of its sites, so they are judged in the space of their sites alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from inference import METHODS, Cost, Method, Posterior
from inference.host.arviz import by_chain_and_draw, group_names

__all__ = ["from_elsewhere"]


@dataclass(frozen=True, kw_only=True)
class Elsewhere(Method):
    """The method of chains that another program made: it has no options that could be advised on."""

    name: ClassVar[str] = "elsewhere"
    kind: ClassVar[str] = "chains"


def from_elsewhere(draws: Any) -> Posterior | None:
    """The chains in an `arviz.InferenceData` or an `xarray.DataTree`; None for anything else.

    Raises:
        ValueError: if there is no group "posterior" with variables by chain and draw.
    """
    groups = group_names(draws)
    if groups is None:
        return None
    if "posterior" not in groups:
        raise ValueError(f"convergence needs a group 'posterior', got the groups {', '.join(groups) or 'of nothing'}")
    ours = METHODS.get(draws["posterior"].attrs.get("method", ""))
    if draws["posterior"].attrs.get("inference_library") == "touchstone" and ours and ours.kind != "chains":
        raise ValueError(
            f"these draws are those of {ours.name}, which R-hat always passes; give convergence the posterior itself"
        )
    sites, others = by_chain_and_draw(draws["posterior"])
    if others or not sites:
        raise ValueError(
            "convergence needs a group 'posterior' whose variables have the dimensions chain and draw"
            + (f", and '{others[0]}' has not" if others else "; it is empty")
        )
    statistics = by_chain_and_draw(draws["sample_stats"])[0] if "sample_stats" in groups else {}
    statistics = {name: values for name, values in statistics.items() if values.ndim == 2}
    return Posterior(
        model=_unknown,
        method=Elsewhere(),
        seed=0,
        temperature=1.0,
        tempering="posterior",
        draws=sites,
        statistics=statistics,
        curves={},
        observed={},
        probes=np.zeros(0),
        deterministic=(),
        cost=Cost(0.0, 0.0, 0, 0),
    )


def _unknown(*args: Any) -> None:
    """Stands for the model of another program."""
    raise ValueError("the model of draws that another program made is not known, so they can't predict")
