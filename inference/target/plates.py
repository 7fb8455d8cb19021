"""Minibatches of a user's own model: a plate that it subsamples, whose rows are given from outside.

    with numpyro.plate("rows", len(x), subsample_size=8) as rows:
        numpyro.sample("y", dist.Normal(x[rows] @ w, 1.0), obs=y[rows])

NumPyro multiplies the log density of what is inside by the plate's size over the number of its rows. Over rows drawn
without replacement that is an unbiased estimate, if what is inside is observed. A latent site inside would have other
coordinates at each step, so a minibatch is refused. Where no rows are given, the plate has all of them.
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
    """A handler that gives the rows of subsampled plates: some rows, or all of each plate."""

    def __init__(self, rows: jax.Array | None = None, plate: str | None = None) -> None:
        super().__init__()
        self._rows, self._plate = rows, plate

    def process_message(self, msg: dict[str, Any]) -> None:
        """Give a plate its rows, and the number of them."""
        if msg["type"] == "plate" and self._plate in (None, msg["name"]):
            size = msg["args"][0]
            msg["value"] = jnp.arange(size) if self._rows is None else self._rows
            msg["args"] = (size, len(msg["value"]))


@dataclass(frozen=True)
class Subsampled:
    """A model that subsamples one plate, run on all rows of it, or on those that a `Rows` around it gives.

    Attributes:
        model: the user's.
        plate: its name.
        rows: how many it has.
        inside: the latent sites inside.
    """

    model: Callable[..., Any]
    plate: str
    rows: int
    inside: tuple[str, ...]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The model on all rows."""
        with Rows():
            return self.model(*args, **kwargs)


def subsampled(model: Callable[..., Any], trace: dict[str, Any]) -> Subsampled | None:
    """A model whose trace has a subsampled plate; None if it has none.

    Raises:
        ValueError: if it has several.
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
