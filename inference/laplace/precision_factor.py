r"""A precision matrix P in factors: how to draw from its normal, solve with it, and tell that it is singular.

    P = S L L' S,    S = diag(P)^(1/2),    L the Cholesky factor of S^-1 P S^-1, whose diagonal is 1

so that z ~ N(0, 1) gives S^-1 L'^-1 z ~ N(0, P^-1), and log det P = 2 sum log S_ii + 2 sum log L_ii. L_ii^2, which has
no units, is the share of coordinate i that the coordinates before it don't explain. Where it is of the size of
rounding, nothing determines some direction, and the draws and the determinant would be rounding too: then they are NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

__all__ = ["Factor"]

_LEAST = 1e-6  # the least L_ii: rounding of a float32 Jacobian leaves about 5e-8 where there is nothing


class Factor(NamedTuple):
    """P in factors, in float64.

    Attributes:
        scale: the diagonal of S.
        lower: L; None if P is diagonal.
    """

    scale: jax.Array
    lower: jax.Array | None

    @classmethod
    def of(cls, precision: jax.Array) -> Factor:
        """The factors of `precision`, a matrix or a diagonal; NaN if it is not positive definite beyond rounding."""
        with jax.enable_x64(True):
            diagonal = precision if precision.ndim == 1 else jnp.diagonal(precision)
            scale = jnp.sqrt(jnp.where(diagonal > 0, diagonal, jnp.nan))
            if precision.ndim == 1:
                return cls(scale, None)
            lower = jnp.linalg.cholesky(precision / jnp.outer(scale, scale))
            return cls(scale, jnp.where(jnp.min(jnp.diagonal(lower)) >= _LEAST, lower, jnp.nan))

    @property
    def half_log_determinant(self) -> jax.Array:
        """log det P / 2."""
        with jax.enable_x64(True):
            own = jnp.sum(jnp.log(self.scale))
            return own if self.lower is None else own + jnp.sum(jnp.log(jnp.diagonal(self.lower)))

    def spread(self, noise: jax.Array) -> jax.Array:
        """S^-1 L'^-1 z, a draw from N(0, P^-1), in the precision of z."""
        with jax.enable_x64(True):
            wide = noise.astype(jnp.float64)
            if self.lower is not None:
                wide = solve_triangular(self.lower, wide, trans=1, lower=True)
            return (wide / self.scale).astype(noise.dtype)

    def whitened(self, vector: jax.Array) -> jax.Array:
        """L^-1 S^-1 v, in the precision of v: its squared norm is v' P^-1 v, and `spread` turns it into P^-1 v."""
        with jax.enable_x64(True):
            wide = vector.astype(jnp.float64) / self.scale
            if self.lower is not None:
                wide = solve_triangular(self.lower, wide, lower=True)
            return wide.astype(vector.dtype)
