"""What a guide is: a family of distributions over a target's positions, whose parameters are a tree of arrays.

A guide is a frozen record of options. `inference.variational.svi` fits its parameters, and asks it for draws, for their
log density, and for whatever it knows in closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np

from inference.target.density import Data, Position, Target

__all__ = ["Drawn", "Guide"]


class Drawn(NamedTuple):
    """A draw from a guide.

    Attributes:
        position: the draw.
        log_density: log q at `position`, in the target's unconstrained coordinates.
    """

    position: Position
    log_density: jax.Array


@dataclass(frozen=True, kw_only=True)
class Guide:
    """Base of all guides. Subclasses add their options as fields and document each there, once.

    Attributes:
        name: what `guide=...` calls it.
        starts_at_map: whether the guide of a network begins around a MAP point unless the user says otherwise.
    """

    name: ClassVar[str]
    starts_at_map: ClassVar[bool] = True

    def singular(self, target: Target, data: Data) -> bool:
        """Whether its draws have no density, so that importance weights don't exist."""
        return False

    @property
    def evaluations(self) -> int:
        """How often a particle evaluates the log density."""
        return 1

    @property
    def has_points(self) -> bool:
        """Whether sites that are not weights are points: then, as for MAP, their log-Jacobian is left out."""
        return False

    @property
    def by_row(self) -> bool:
        """Whether rows have randomness of their own, so that a step takes all its rows at once; see `layers`."""
        return False

    def check(self, target: Target, data: Data) -> None:
        """Raise ValueError, before anything compiles, if the guide does not fit the model."""

    def identity(self, target: Target, data: Data) -> str:
        """A fingerprint of a user's guide, so that a changed one is compiled again; empty for a built-in guide."""
        return ""

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> Any:
        """The first parameters, of a narrow guide around `position`."""
        raise NotImplementedError(f"{type(self).__name__} must say where it begins")

    def draw(self, target: Target, data: Data, parameters: Any, key: jax.Array) -> Drawn:
        """A draw of all weights, differentiable in the parameters where it can be."""
        raise NotImplementedError(f"{type(self).__name__} must be drawn from")

    def entropy(self, parameters: Any) -> jax.Array | None:
        """H[q]; None if it has no closed form, and is estimated by minus the log density of draws."""
        return None

    def expected_log_prior(self, parameters: Any, name: str, prior: Any) -> jax.Array | None:
        """E_q[log p] of a site; None if it has no closed form, and is estimated by draws."""
        return None

    def layers(self, parameters: Any, key: jax.Array) -> Callable[..., Any] | None:
        """A handler around the model that draws layers per example; None if all examples share a draw."""
        return None

    def strata(self, target: Target, data: Data, parameters: Any, key: jax.Array) -> tuple[jax.Array | None, Drawn]:
        """Weights and stacked draws that together estimate an expectation; None and a single draw without weights."""
        return None, self.draw(target, data, parameters, key)

    def fitted(self, parameters: Any) -> dict[str, np.ndarray]:
        """What a user may want to know of the parameters, by name."""
        return {}

    @classmethod
    def takes(cls) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(item.name for item in fields(cls))
