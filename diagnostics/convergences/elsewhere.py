"""Chains that another program made, in ArviZ's groups, as a posterior that can be judged.

Nothing is known of their model but the names of its sites, so they are judged in the space of their sites alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from inference import Cost, Method, Posterior
from inference.host.arviz import groups_of

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
    groups = groups_of(draws)
    if groups is None:
        return None
    sites = groups.get("posterior", {})
    shapes = {values.shape[:2] for values in sites.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise ValueError(
            "convergence needs a group 'posterior' whose variables all have the dimensions chain and draw first, got "
            f"{'the groups ' + ', '.join(groups) if not sites else 'variables of the shapes ' + str(sorted(shapes))}"
        )
    (shape,) = shapes
    statistics = {name: values for name, values in groups.get("sample_stats", {}).items() if values.shape == shape}
    return Posterior(
        model=_unknown,
        method=Elsewhere(),
        seed=0,
        temperature=1.0,
        tempering="posterior",
        draws=sites,
        statistics=statistics,
        curves={},
        observed=groups.get("observed_data", {}),
        probes=np.zeros(0),
        deterministic=(),
        cost=Cost(0.0, 0.0, 0, 0),
    )


def _unknown(*args: Any) -> None:
    """Stands for the model of another program."""
    raise ValueError("the model of draws that another program made is not known, so they can't predict")
