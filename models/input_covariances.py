r"""A prior that knows the inputs: EmpCov (Izmailov, Nicholson, Lotfi & Wilson 2021).

Weights of directions in which the inputs never vary are not determined by data, so that they stay at their prior, and
inputs that do vary there at test time meet random weights. EmpCov gives the weights of the first layer the covariance
of what they multiply, so that such weights are close to 0:

    w ~ N(0, alpha S + epsilon I)    for each unit,  S the covariance of the inputs

With S = U diag(l) U' the weights are w = U diag(sqrt(alpha l + epsilon)) z with z ~ N(0, I). The site is z,
"<layer>.weight.standard", in which the prior is white: HMC's coordinates are whitened in closed form. "<layer>.weight"
holds the weights themselves, as a deterministic site.

Reference: https://arxiv.org/abs/2106.11905.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float

from models.priors import Prior, Site
from models.validation import finite_array, nonnegative_number, plain_numbers, positive_number

__all__ = ["Covariance", "EmpCov"]


class Covariance:
    """The covariance S of inputs, hashable and comparable by its values.

    Args:
        matrix: S, symmetric.
    """

    def __init__(self, matrix: Any) -> None:
        self.matrix = np.asarray(matrix, np.float64)
        if self.matrix.ndim != 2 or self.matrix.shape[0] != self.matrix.shape[1]:
            raise ValueError(f"a covariance must be a square matrix, got shape {self.matrix.shape}")
        values, self.directions = np.linalg.eigh(self.matrix)
        self.variances = np.maximum(values, 0.0)  # rounding may leave them just below 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Covariance) and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash(self.matrix.tobytes())

    def __len__(self) -> int:
        return len(self.matrix)

    def __repr__(self) -> str:
        return f"<covariance of {len(self)} inputs>"


@dataclass(frozen=True)
class EmpCov(Prior):
    """Normal weights of the first layer with the covariance alpha S + epsilon I, made by `EmpCov.of(x)`.

    Used by a rule: `prior={"hidden0.weight": models.EmpCov.of(train.x), "default": models.Normal(0.1)}`.

    Attributes:
        covariance: S, a `Covariance` or a matrix.
        alpha: the factor of S, above 0.
        epsilon: the variance in directions in which the inputs never vary, at least 0.
    """

    covariance: Any
    alpha: float = 1.0
    epsilon: float = 1e-4

    def __post_init__(self) -> None:
        plain_numbers(self)
        if not isinstance(self.covariance, Covariance):
            object.__setattr__(self, "covariance", Covariance(self.covariance))
        positive_number("EmpCov: alpha", self.alpha)
        nonnegative_number("EmpCov: epsilon", self.epsilon)
        if self.epsilon == 0 and self.covariance.variances.min() <= 1e-12 * self.covariance.variances.max():
            raise ValueError(
                "EmpCov: epsilon must be above 0 for these inputs, which don't vary in some direction; the prior would "
                "have no density"
            )

    @classmethod
    def of(cls, x: Any, alpha: float = 1.0, epsilon: float = 1e-4, kernel: int | None = None) -> EmpCov:
        """The prior for inputs `x`.

        Args:
            x: rows of inputs, (n, ...), flattened; for a convolution images, (n, height, width, channels).
            alpha: the factor of their covariance.
            epsilon: the variance in directions in which they never vary.
            kernel: for a convolution, the side of its kernel: S is then the covariance of the patches that it sees.
        """
        rows = finite_array("EmpCov: x", x).astype(np.float64)
        if kernel is not None:
            if rows.ndim != 4:
                raise ValueError(f"EmpCov: kernel needs images, (n, height, width, channels), got shape {rows.shape}")
            windows = np.lib.stride_tricks.sliding_window_view(rows, (kernel, kernel), axis=(1, 2))
            rows = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, kernel * kernel * rows.shape[-1])
        rows = rows.reshape(len(rows), -1)
        if len(rows) < 2:
            raise ValueError("EmpCov: x must have at least two rows, or their covariance is not defined")
        return cls(Covariance(np.cov(rows, rowvar=False).reshape(rows.shape[1], rows.shape[1])), alpha, epsilon)

    def scale_of(self, site: Site) -> float:
        """The root mean square of the weights' standard deviations."""
        return math.sqrt(float(np.mean(self.alpha * self.covariance.variances + self.epsilon)))

    def sample(self, site: Site, shape: tuple[int, ...]) -> Array:
        """U diag(sqrt(alpha l + epsilon)) z, with z a site."""
        where = {"start_scale": 1 / math.sqrt(site.fan_in) / self._unit, "start_mean": site.start / self._unit}
        white = dist.Normal(0.0, 1.0).expand(shape).to_event(len(shape))
        standard = numpyro.sample(f"{site.name}.standard", white, infer=where)
        flat = standard.reshape(len(self.covariance), shape[-1])
        roots = jnp.sqrt(self.alpha * jnp.asarray(self.covariance.variances, flat.dtype) + self.epsilon)
        weights = jnp.matmul(jnp.asarray(self.covariance.directions, flat.dtype), roots[:, None] * flat)
        return numpyro.deterministic(site.name, weights.reshape(shape))

    @property
    def _unit(self) -> float:
        """The scale of the weights where z has scale 1, from the data alone: a sweep may have traced the rest."""
        return math.sqrt(max(float(np.mean(self.covariance.variances)), 1e-12))

    def log_density(self, weights: Float[np.ndarray, "*inputs units"]) -> float:
        """The log density of the weights of a layer, (..., units)."""
        flat = np.asarray(weights, np.float64).reshape(len(self.covariance), -1)
        variances = self.alpha * self.covariance.variances + self.epsilon
        square = np.square(self.covariance.directions.T @ flat) / variances[:, None]
        return float(-0.5 * (square + np.log(2 * np.pi * variances)[:, None]).sum())

    def check(self, sites: tuple[Site, ...]) -> None:
        """Raise ValueError unless every site is the weight of a layer that sums over as many inputs as S has."""
        for site in sites:
            if site.kind != "weight" or site.fan_in != len(self.covariance):
                raise ValueError(
                    f"EmpCov has the covariance of {len(self.covariance)} inputs, and '{site.name}' sums over "
                    f"{site.fan_in}; it is a prior of the first layer's weights: "
                    'prior={"hidden0.weight": models.EmpCov.of(x), "default": ...}, with kernel=... for a convolution'
                )
