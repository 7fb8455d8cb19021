r"""Dropout's distribution of a weight matrix: W = diag(z) M + sigma E, with z Bernoulli and E standard normal.

A row of W, the K weights of one input unit, is w = z m + sigma e with P(z = 1) = keep: a mixture of two normals. With
one mask per weight instead (DropConnect) each weight is such a row with K = 1. A row's entropy and its KL divergence
from a prior N(0, s^2) are

    H[q]      = K/2 log(2 pi e sigma^2) + I(z; w)
    KL(q, p)  = (keep |m|^2 + K sigma^2) / (2 s^2) + K/2 (log(s^2 / sigma^2) - 1) - I(z; w)

where 0 <= I(z; w) <= H(keep) is how much of its mask a row gives away. Gal & Ghahramani (2016) take I = H(keep), which
is right where the two normals don't overlap. The exact value depends on r = |m| / sigma alone: along m the row is
t ~ keep N(r, 1) + (1 - keep) N(0, 1), and with L(t) = logit(keep) + r t - r^2 / 2, the log odds of the mask given t,

    I = H(keep) - keep E_{t ~ N(r, 1)}[softplus(-L)] - (1 - keep) E_{t ~ N(0, 1)}[softplus(L)]

which is one-dimensional. As r grows I tends to H(keep); as r vanishes it tends to 0. At sigma = 0 the matrix has no
density: H[q] is then given without its infinite constant, the first term, and I is H(keep).

Reference: https://arxiv.org/abs/1506.02142.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import Distribution, Independent, Normal, constraints
from numpyro.distributions.kl import kl_divergence

from models.distributions import single

__all__ = ["MaskedMatrix", "mask_entropy", "mask_information"]

_GRID = np.linspace(-9.0, 9.0, 241)  # integrands are smooth with light tails: the trapezoidal rule is exact to rounding


class MaskedMatrix(Distribution):
    """W = diag(z) M + sigma E.

    A convolution's kernel is such a matrix at each of its places: all weights of an input channel share a mask.

    Attributes:
        matrix: M, (..., inputs, units).
        keep: the probability that an input unit, or a weight, is kept: a number, or one per layer as an array.
        sigma: the standard deviation of the noise.
        per: what is kept or dropped as one, an input "unit" or a "weight".
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "matrix": constraints.real,
        "keep": constraints.unit_interval,
        "sigma": constraints.nonnegative,
    }
    reparametrized_params: ClassVar[list[str]] = ["matrix", "sigma"]
    pytree_data_fields = ("matrix", "keep", "sigma")
    pytree_aux_fields = ("per",)

    def __init__(
        self, matrix: Any, keep: Any, sigma: Any = 0.0, per: str = "unit", *, validate_args: bool | None = None
    ) -> None:
        self.matrix, self.keep, self.sigma, self.per = matrix, keep, sigma, per
        super().__init__((), jnp.shape(matrix), validate_args=validate_args)

    @property
    def support(self) -> Any:
        """All real matrices."""
        return constraints.independent(constraints.real, len(self.event_shape))

    @property
    def mask_shape(self) -> tuple[int, ...]:
        """The shape of the mask, which broadcasts against the matrix."""
        if self.per == "weight":
            return self.event_shape
        return (*(1,) * (len(self.event_shape) - 2), self.event_shape[-2], 1)

    def _over_rows(self, values: jax.Array) -> jax.Array:
        """The sum of the values of each row, the weights that share a mask."""
        if self.per == "weight":
            return values
        inputs = values.ndim - 2
        return jnp.sum(values, tuple(axis for axis in self._axes(values) if axis != inputs))

    def _axes(self, values: jax.Array) -> tuple[int, ...]:
        return tuple(range(values.ndim - len(self.event_shape), values.ndim))

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """W, from masks that are drawn first and noise."""
        mask_key, noise_key = jax.random.split(key)
        mask = jax.random.bernoulli(mask_key, self.keep, (*sample_shape, *self.mask_shape))
        return self.around(mask.astype(self.matrix.dtype), noise_key)

    def around(self, mask: jax.Array, key: jax.Array) -> jax.Array:
        """W given `mask`, with noise from `key`."""
        masked = mask * self.matrix
        if isinstance(self.sigma, float) and self.sigma == 0:
            return masked
        return masked + self.sigma * jax.random.normal(key, masked.shape, masked.dtype)

    @property
    def mean(self) -> jax.Array:
        """E[W] = keep M."""
        return self.keep * self.matrix

    @property
    def variance(self) -> jax.Array:
        """Var[W] = keep (1 - keep) M^2 + sigma^2."""
        return self.keep * (1 - self.keep) * jnp.square(self.matrix) + jnp.square(self.sigma)

    def log_prob(self, value: jax.Array, intermediates: Any = None) -> jax.Array:
        """The log density of the mixture, summed over rows; nan at sigma = 0, where there is none."""
        count = math.prod(self.event_shape) // math.prod(self.mask_shape)
        with_mask = self._over_rows(jnp.square(value - self.matrix))
        without = self._over_rows(jnp.square(value))
        variance = jnp.square(self.sigma)
        rows = jnp.logaddexp(
            jnp.log(self.keep) - 0.5 * with_mask / variance, jnp.log1p(-self.keep) - 0.5 * without / variance
        )
        each = rows - 0.5 * count * jnp.log(2 * math.pi * variance)
        return jnp.sum(each, axis=(-1,) if self.per == "unit" else self._axes(each))

    def entropy(self, exact: bool = True) -> jax.Array:
        """H[q]; `exact=False` takes the paper's I = H(keep)."""
        noise = (
            0.0
            if _is_zero(self.sigma)
            else 0.5 * math.prod(self.event_shape) * jnp.log(2 * math.pi * math.e * jnp.square(self.sigma))
        )
        return noise + self.information(exact)

    def information(self, exact: bool = True) -> jax.Array:
        """I(z; w), summed over the rows."""
        if not exact or _is_zero(self.sigma):
            return math.prod(self.mask_shape) * mask_entropy(self.keep)
        square = self._over_rows(jnp.square(self.matrix))
        return jnp.sum(mask_information(jnp.sqrt(square + 1e-30) / self.sigma, self.keep))

    def expected_log_prob(self, prior: Distribution) -> jax.Array | None:
        """E_q[log p]; None if the prior is not normal and sigma is not 0."""
        one = single(prior)
        if isinstance(one, Normal):
            second = self.keep * jnp.square(self.matrix - one.loc) + (1 - self.keep) * jnp.square(one.loc)
            square = (second + jnp.square(self.sigma)) / jnp.square(one.scale)
            return jnp.sum(-jnp.log(one.scale) - 0.5 * math.log(2 * math.pi) - 0.5 * square)
        if _is_zero(self.sigma):
            kept, dropped = one.log_prob(self.matrix), one.log_prob(jnp.zeros_like(self.matrix))
            return jnp.sum(self.keep * kept + (1 - self.keep) * dropped)
        return None


@kl_divergence.register(MaskedMatrix, Independent)
def _kl_from_prior(q: MaskedMatrix, p: Independent) -> jax.Array:
    """KL(q, p) by the exact entropy."""
    expected = q.expected_log_prob(p)
    if expected is None:
        raise NotImplementedError(f"no closed form against {type(single(p)).__name__}, unless sigma is 0")
    return -q.entropy() - expected


def mask_entropy(keep: Any) -> jax.Array:
    """H(keep) in nats; 0 where `keep` is 0 or 1."""
    inside, keep = _inside(keep)
    return jnp.where(inside, jax.scipy.special.entr(keep) + jax.scipy.special.entr(1 - keep), 0.0)


def mask_information(distance: jax.Array, keep: Any) -> jax.Array:
    """I(z; w) in nats of a row whose |m| / sigma is `distance`, by quadrature; 0 where `keep` is 0 or 1."""
    inside, keep = _inside(keep)
    normal = np.exp(-0.5 * _GRID**2)
    weights = jnp.asarray(normal / normal.sum(), distance.dtype)
    deviation = jnp.asarray(_GRID, distance.dtype)
    odds = jnp.log(keep) - jnp.log1p(-keep)
    half = 0.5 * jnp.square(distance)[..., None]
    along = distance[..., None] * deviation
    if_kept = jax.nn.softplus(-(odds + half + along)) @ weights
    if_dropped = jax.nn.softplus(odds - half + along) @ weights
    return jnp.where(inside, mask_entropy(keep) - keep * if_kept - (1 - keep) * if_dropped, 0.0)


def _inside(keep: Any) -> tuple[jax.Array, jax.Array]:
    """Where a mask is random, and `keep` with 0.5 elsewhere, so that neither values nor gradients are infinite."""
    keep = jnp.asarray(keep)
    inside = (keep > 0) & (keep < 1)
    return inside, jnp.where(inside, keep, 0.5)


def _is_zero(sigma: Any) -> bool:
    return isinstance(sigma, float) and sigma == 0
