r"""Expectations of a log prior under a normal, where they have a closed form.

    prior N(m, s^2)        E log p(w) = -log s - log(2 pi) / 2 - ((mu - m)^2 + sigma^2) / (2 s^2)
    prior Laplace(m, b)    E log p(w) = -log 2 b - E|w - m| / b
                           E|w - m| = sigma sqrt(2 / pi) exp(-z^2 / 2) + (mu - m) erf(z / sqrt 2),  z = (mu - m) / sigma

for w ~ N(mu, sigma^2). For a prior without a closed form, such as a mixture of normals, draws estimate it.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from numpyro.distributions import Distribution, Laplace, Normal

from models.distributions import single

__all__ = ["expected_log_prob", "is_fixed"]


def expected_log_prob(location: jax.Array, scale: jax.Array, prior: Distribution) -> jax.Array | None:
    """The expectation of a prior's log density under independent normals, summed; None without a closed form."""
    one = single(prior)
    if isinstance(one, Normal):
        square = (jnp.square(location - one.loc) + jnp.square(scale)) / jnp.square(one.scale)
        return jnp.sum(-jnp.log(one.scale) - 0.5 * math.log(2 * math.pi) - 0.5 * square)
    if isinstance(one, Laplace):
        distance = location - one.loc
        spread = scale * math.sqrt(2 / math.pi) * jnp.exp(-0.5 * jnp.square(distance / scale))
        mean = spread + distance * jax.lax.erf(distance / (math.sqrt(2) * scale))
        return jnp.sum(-jnp.log(2 * one.scale) - mean / one.scale)
    return None


def is_fixed(prior: Distribution) -> bool:
    """Whether a prior depends on nothing that is drawn, such as a scale with a prior of its own.

    Where weights and scale are correlated under a guide, an expectation over the weights alone is not the one over
    both.
    """
    one = single(prior)
    return not any(isinstance(getattr(one, name), jax.core.Tracer) for name in ("loc", "scale") if hasattr(one, name))
