r"""A prior that knows the inputs: EmpCov (Izmailov, Nicholson, Lotfi & Wilson 2021).

Weights of directions in which the inputs never vary are not determined by data, so that they stay at their prior, and
inputs that do vary there at test time meet random weights. EmpCov gives the weights of the first layer the covariance
of what they multiply, so that such weights are close to 0:

    w ~ N(0, alpha S + epsilon I)    for each unit,  S the covariance of the inputs

With S = U diag(l) U' the weights are w = U diag(sqrt(alpha l + epsilon)) U' z with z ~ N(0, I). This root is symmetric,
so it does not depend on the signs that a library gives to U. The site is z, "<layer>.weight.standard", in which the
prior is white: HMC's coordinates are whitened in closed form. "<layer>.weight" holds the weights themselves, as a
deterministic site.

Reference: https://arxiv.org/abs/2106.11905.
"""

from __future__ import annotations

import base64
import hashlib
import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float

from models.priors import Prior, Site
from models.validation import finite_array, nonnegative_number, plain_numbers, positive_integer, positive_number

__all__ = ["Covariance", "EmpCov"]

_NUMBERS = 2**20  # inputs whose patches are looked at together


class Covariance:
    """The covariance S of inputs, hashable and comparable by its values.

    Args:
        matrix: S, symmetric, without negative eigenvalues.

    Raises:
        ValueError: if it is not that.
    """

    def __init__(self, matrix: Any) -> None:
        given = np.array(matrix, np.float64)
        if given.ndim != 2 or given.shape[0] != given.shape[1] or not len(given):
            raise ValueError(f"a covariance must be a square matrix, got shape {given.shape}")
        rounding = 1e-5 * np.abs(given).max()  # it may have been computed in float32
        if not np.isfinite(given).all() or (np.abs(given - given.T) > rounding).any():
            raise ValueError("a covariance must be symmetric and finite")
        self.matrix = (given + given.T) / 2
        values, self.directions = np.linalg.eigh(self.matrix)
        if values.min() < -rounding * len(given):
            raise ValueError(f"a covariance has no negative eigenvalues, this matrix has {values.min():.3g}")
        self.variances = np.maximum(values, 0.0)  # rounding may leave them just below 0
        self._digest = hashlib.sha256(self.matrix.tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Covariance) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def __len__(self) -> int:
        return len(self.matrix)

    def __repr__(self) -> str:
        return f"<covariance {self._digest[:8]} of {len(self)} inputs>"

    def to_json(self) -> list[Any]:
        """The matrix as text."""
        return [len(self), base64.b64encode(self.matrix.tobytes()).decode()]

    @classmethod
    def from_json(cls, described: Any) -> Covariance:
        """The covariance that `to_json` described.

        Raises:
            ValueError: if it is not one.
        """
        try:
            size, text = described
            return cls(np.frombuffer(base64.b64decode(text, validate=True), np.float64).reshape(size, size))
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"a covariance can't be read: {error}") from error


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
            kernel: for a convolution, the side of its kernel: S is then the covariance of all patches of that size in
                the images, without those that padding would add.
        """
        images = finite_array("EmpCov: x", x)
        if kernel is not None:
            positive_integer("EmpCov: kernel", kernel)
            if images.ndim != 4 or min(images.shape[1:3]) < kernel:
                raise ValueError(
                    f"EmpCov: kernel={kernel} needs images at least as large, (n, height, width, channels), got shape "
                    f"{images.shape}"
                )
        if len(images) < 2:
            raise ValueError("EmpCov: x must have at least two rows, or their covariance is not defined")
        count, total, square = 0, np.zeros(1), np.zeros((1, 1))
        shift = _patches(images[:1], kernel).mean(axis=0)  # near the mean, so that sums of squares lose no digits
        for block in np.array_split(images, -(-images.size // _NUMBERS)):
            rows = _patches(block, kernel) - shift
            count, total, square = count + len(rows), total + rows.sum(axis=0), square + rows.T @ rows
        covariance = (square - np.outer(total, total) / count) / (count - 1)
        return cls(Covariance((covariance + covariance.T) / 2), alpha, epsilon)

    @property
    def shapes_outputs(self) -> bool:
        """True: the weights are made of white numbers with alpha and epsilon."""
        return True

    def scale_of(self, site: Site) -> float:
        """The root mean square of the weights' standard deviations."""
        return math.sqrt(float(np.mean(self.alpha * self.covariance.variances + self.epsilon)))

    def sample(self, site: Site, shape: tuple[int, ...]) -> Array:
        """U diag(sqrt(alpha l + epsilon)) U' z, with z a site."""
        where = {"start_scale": 1 / math.sqrt(site.fan_in) / self._unit, "start_mean": site.start / self._unit}
        white = dist.Normal(0.0, 1.0).expand(shape).to_event(len(shape))
        standard = numpyro.sample(f"{site.name}.standard", white, infer=where)
        flat = standard.reshape(len(self.covariance), shape[-1])
        roots = jnp.sqrt(self.alpha * jnp.asarray(self.covariance.variances, flat.dtype) + self.epsilon)
        directions = jnp.asarray(self.covariance.directions, flat.dtype)
        weights = jnp.matmul(directions, roots[:, None] * jnp.matmul(directions.T, flat))
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
            if not site.inputs_first:
                raise ValueError(
                    f"EmpCov needs weights whose first axis is their inputs, and those of '{site.name}' come last, as "
                    "in all of equinox; use a network of models, or of from_flax"
                )
            if site.kind != "weight" or site.fan_in != len(self.covariance):
                raise ValueError(
                    f"EmpCov has the covariance of {len(self.covariance)} inputs, and '{site.name}' sums over "
                    f"{site.fan_in}; it is a prior of the first layer's weights: "
                    'prior={"hidden0.weight": models.EmpCov.of(x), "default": ...}, with kernel=... for a convolution'
                )


def _patches(images: np.ndarray, kernel: int | None) -> Float[np.ndarray, "rows inputs"]:
    """Rows of inputs: flattened, or all patches of images, in the order of a kernel's axes."""
    if kernel is None:
        return images.reshape(len(images), -1).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(images, (kernel, kernel), axis=(1, 2))
    return windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, kernel * kernel * images.shape[-1]).astype(np.float64)
