"""A target whose positions are one vector each, instead of an array for each site.

A sampler does the same to every coordinate, so that a program over one vector is a fraction of one over many sites: it
compiles faster, and a step of a small network runs faster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from inference.target.density import Data, Position, Target

__all__ = ["Flattened", "as_vector"]


def as_vector(position: Position) -> jax.Array:
    """Flatten a position, its sites in the order of their names."""
    return ravel_pytree(position)[0]


@dataclass(frozen=True)
class Flattened:
    """A target on vectors; see `inference.target.density.Target` for what its functions are.

    Attributes:
        target: the target on positions by site.
        shapes: the shape of each site, in the order of their names.
    """

    target: Target
    shapes: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, target: Target, data: Data) -> Flattened:
        """`target` on vectors."""
        shapes = target.position(data)
        return cls(target, {name: shapes[name].shape for name in sorted(shapes)})

    def position(self, vector: Any) -> Position:
        """The sites of a vector, the inverse of `as_vector`; arrays of NumPy if it is one."""
        sizes = [math.prod(shape) for shape in self.shapes.values()]
        # The gradient of a split puts the parts together again; that of slices would pad and add each of them.
        parts: Any = (
            np.split(vector, np.cumsum(sizes)[:-1]) if isinstance(vector, np.ndarray) else lax.split(vector, sizes)
        )
        return {name: part.reshape(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def log_density(self, vector: jax.Array, data: Data) -> jax.Array:
        """The log density at a vector."""
        return self.target.log_density(self.position(vector), data)

    def exact_log_density(self, vector: jax.Array, data: Data) -> jax.Array:
        """The log density at a vector in float64, if the model allows it."""
        return self.target.exact_log_density(self.position(vector), data)

    def constrain(self, vector: jax.Array, data: Data) -> dict[str, jax.Array]:
        """The sites' own values at a vector, and the model's deterministic sites."""
        return self.target.constrain(self.position(vector), data)
