"""Minibatches of a user's own model: a plate that it subsamples, whose rows are given from outside.

    with numpyro.plate("rows", len(x), subsample_size=8) as rows:
        numpyro.sample("y", dist.Normal(x[rows] @ w, 1.0), obs=y[rows])

NumPyro multiplies the log density of the sites inside the plate by the plate's size over the number of rows given. For
rows drawn without replacement that is an unbiased estimate, if all sites inside are observed. A latent site inside
would have other coordinates at each step, so minibatches are then refused. Where no rows are given, the plate has all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from models.effects import Messenger

__all__ = ["Rows", "Subsampled", "subsampled"]


class Rows(Messenger):
    """A handler that gives plates their rows: `rows`, or all if None; to the plate named `plate`, or to all if None."""

    def __init__(self, rows: jax.Array | None = None, plate: str | None = None) -> None:
        super().__init__()
        self._rows, self._plate = rows, plate

    def process_message(self, msg: dict[str, Any]) -> None:
        """Give a plate its rows and their number."""
        if msg["type"] == "plate" and self._plate in (None, msg["name"]):
            size = msg["args"][0]
            msg["value"] = jnp.arange(size) if self._rows is None else self._rows
            msg["args"] = (size, len(msg["value"]))


@dataclass(frozen=True)
class Subsampled:
    """A model that subsamples one plate; it runs on all rows of the plate, or on those that a `Rows` around it gives.

    Attributes:
        model: the user's model.
        plate: the plate's name.
        rows: how many rows the plate has.
        inside: the names of the latent sites inside the plate.
    """

    model: Callable[..., Any]
    plate: str
    rows: int
    inside: tuple[str, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model on all rows."""
        with Rows():
            return self.model(*args, **kwargs)


def subsampled(model: Callable[..., Any], trace: dict[str, Any]) -> Subsampled | None:
    """The model as a `Subsampled`, if its trace has a subsampled plate; None if it has none.

    Raises:
        ValueError: if the trace has several subsampled plates.
    """
    plates = {
        name: site["args"][0]
        for name, site in trace.items()
        if site["type"] == "plate" and site["args"][1] not in (None, site["args"][0])
    }
    if not plates:
        return None
    if len(plates) > 1:
        raise ValueError(
            f"the model subsamples several plates, {', '.join(plates)}, and minibatches are of one; leave "
            "subsample_size out of the others"
        )
    ((plate, rows),) = plates.items()
    inside = tuple(
        name
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"]
        if plate in (frame.name for frame in site["cond_indep_stack"])
    )
    return Subsampled(model, plate, rows, inside)
