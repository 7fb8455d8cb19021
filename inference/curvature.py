r"""Curvature of a target at a point: Gauss-Newton for the likelihood, the Hessian for the prior.

The likelihood of an observation depends on the position u through the parameters a of its distribution, with Fisher
information F(a). The Gauss-Newton matrix replaces the Hessian of minus the log-likelihood by

    G = sum over observations of J' F J,    J = da / du

which is its expectation under the model where the observations are as the model says, is never negative, and is the
exact Hessian where a is linear in u and the family is natural. F is written as the square of residuals r(u), each a
parameter times the root of its information, which is held fixed, so that G = sum of (dr/du)' (dr/du):

    Normal(m, s)        m / s,  sqrt(2) log s             F = diag(1 / s^2, 1/2) in m and log s^2
    StudentT(v, m, s)   sqrt((v + 1) / (v + 3)) m / s,  sqrt(2 v / (v + 3)) log s
    Poisson(l)          sqrt(l) log l
    Exponential(l)      log l
    finite outcomes     sqrt(p_k) log p_k for each k      F = diag(p) - p p' in logits

Rows are taken a block at a time; products are summed in float64, because a float32 sum can lose what the prior adds.

Reference: Martens 2020, https://arxiv.org/abs/1412.1193, section 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import lax
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.infer.util import _unconstrain_reparam

from inference.target import Data, Position, Target
from models import Network

__all__ = ["gauss_newton", "prior_curvature", "residuals"]

_BLOCK = 2**22  # numbers of a block's Jacobian
_SAME = 1e-4  # of the largest entry: what rounding leaves between two ways to a diagonal


def residuals(target: Target, position: Position, data: Data) -> jax.Array:
    """What squared and summed is the information of the observations: one number per parameter of each.

    Raises:
        ValueError: if an observation's distribution is not one of those above.
    """
    data = data.in_precision_of(position)
    jacobians = {f"_{name}_log_det" for name in position}
    substituted = handlers.substitute(target.model, substitute_fn=partial(_unconstrain_reparam, position))
    trace = handlers.trace(handlers.seed(substituted, rng_seed=0)).get_trace(*target.arguments.fill(data.arrays))
    found = []
    for name, site in trace.items():
        if site["type"] == "sample" and site["is_observed"] and name not in jacobians:
            scale = 1.0 if site["scale"] is None else site["scale"]
            found += [jnp.ravel(jnp.sqrt(scale) * each) for each in _roots(name, site["fn"])]
    return jnp.concatenate(found) if found else jnp.zeros(0)


def gauss_newton(target: Target, data: Data, position: Position, rest: Position, diagonal: bool) -> jax.Array:
    """G over the coordinates of a position, in the order of `ravel_pytree`, with the `rest` held; or its diagonal."""
    flat, unravel = ravel_pytree(position)

    def of_rows(flat: jax.Array, rows: Data) -> jax.Array:
        return residuals(target, unravel(flat) | rest, rows)

    def add(total: jax.Array, jacobian: jax.Array) -> jax.Array:
        with jax.enable_x64(True):
            wide = jacobian.reshape(-1, flat.size).astype(jnp.float64)
            return total + (jnp.sum(jnp.square(wide), axis=0) if diagonal else wide.T @ wide)

    with jax.enable_x64(True):
        nothing = jnp.zeros(flat.size if diagonal else (flat.size, flat.size), jnp.float64)
    if not isinstance(target.model, Network):  # rows are not known
        return add(nothing, jax.jacfwd(of_rows)(flat, data))

    def of_row(arrays: tuple[jax.Array, ...]) -> jax.Array:
        return jax.jacrev(of_rows)(flat, data._replace(arrays=tuple(array[None] for array in arrays)))

    rows = len(data.arrays[0])
    each = jax.eval_shape(lambda flat: of_rows(flat, data.rows(slice(0, 1))), flat).size
    size = max(1, min(rows, _BLOCK // (each * flat.size)))

    def block(i: jax.Array, total: jax.Array) -> jax.Array:
        arrays = tuple(lax.dynamic_slice_in_dim(array, i * size, size) for array in data.arrays)
        return add(total, jax.vmap(of_row)(arrays))

    whole, left = divmod(rows, size)
    total = lax.fori_loop(0, whole, block, nothing)
    return add(total, jax.vmap(of_row)(data.rows(slice(whole * size, None)).arrays)) if left else total


def prior_curvature(log_prior: Callable[[jax.Array], jax.Array], flat: jax.Array, diagonal: bool) -> jax.Array:
    """The Hessian of minus a log prior, or its diagonal.

    Where it has no other entries than its diagonal, what is negative there counts as 0, as in a Student-t's tails.
    """

    def product(vector: jax.Array) -> jax.Array:
        return -jax.jvp(jax.grad(log_prior), (flat,), (vector,))[1]

    signs = jnp.where(jax.random.bernoulli(jax.random.key(0), shape=flat.shape), 1.0, -1.0).astype(flat.dtype)
    sums = product(jnp.ones_like(flat))
    alone = jnp.max(jnp.abs(signs * product(signs) - sums)) <= _SAME * jnp.max(jnp.abs(sums))
    if diagonal:
        entries = lax.cond(
            alone,
            lambda: jnp.maximum(sums, 0.0),
            lambda: lax.map(lambda i: product(jnp.zeros_like(flat).at[i].set(1.0))[i], jnp.arange(flat.size)),
        )
    else:
        entries = lax.cond(
            alone,
            lambda: jnp.diag(jnp.maximum(sums, 0.0)),
            lambda: lax.map(lambda i: product(jnp.zeros_like(flat).at[i].set(1.0)), jnp.arange(flat.size)),
        )
    with jax.enable_x64(True):
        return entries.astype(jnp.float64)


def _roots(name: str, fn: Any) -> list[jax.Array]:
    """The parameters of a distribution, each times the root of its information, over the distribution's batch."""
    while isinstance(fn, dist.Independent):
        fn = fn.base_dist
    if isinstance(fn, dist.MaskedDistribution):
        return [jnp.where(fn._mask, root, 0.0) for root in _roots(name, fn.base_dist)]
    if isinstance(fn, dist.ExpandedDistribution):
        return [jnp.broadcast_to(root, fn.batch_shape) for root in _roots(name, fn.base_dist)]
    fixed = lax.stop_gradient
    if isinstance(fn, dist.Normal | dist.LogNormal):
        return _spread(fn, fn.loc / fixed(fn.scale), math.sqrt(2), fn.scale)
    if isinstance(fn, dist.StudentT) and not isinstance(fn.df, jax.core.Tracer):
        centre = jnp.sqrt((fn.df + 1) / (fn.df + 3)) * fn.loc / fixed(fn.scale)
        return _spread(fn, centre, jnp.sqrt(2 * fn.df / (fn.df + 3)), fn.scale)
    if isinstance(fn, dist.Poisson):
        return [jnp.sqrt(fixed(fn.rate)) * jnp.log(fn.rate)]
    if isinstance(fn, dist.Exponential):
        return [jnp.broadcast_to(jnp.log(fn.rate), fn.batch_shape)]
    if fn.has_enumerate_support:
        log_probs = fn.log_prob(fn.enumerate_support(expand=False))
        return [jnp.exp(0.5 * fixed(log_probs)) * log_probs]
    raise ValueError(
        f"laplace: the observed site '{name}' is a {type(fn).__name__}, whose Fisher information is not known here; "
        "observe a Normal, StudentT (with fixed df), Poisson, Exponential, Bernoulli or Categorical, or use "
        'method="svi"'
    )


def _spread(fn: Any, centre: jax.Array, root: Any, scale: Any) -> list[jax.Array]:
    """Location and log scale; a scale that nothing is inferred about has no information to add."""
    roots = [jnp.broadcast_to(centre, fn.batch_shape)]
    if isinstance(scale, jax.core.Tracer):
        roots.append(jnp.broadcast_to(root * jnp.log(scale), fn.batch_shape))
    return roots
