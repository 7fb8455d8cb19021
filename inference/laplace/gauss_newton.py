r"""Curvature of a target at a point: Gauss-Newton for the likelihood, the Hessian for the prior.

The likelihood of an observation depends on the position u through the parameters a of its distribution, with Fisher
information F(a). The Gauss-Newton matrix replaces the Hessian of minus the log-likelihood by

    G = sum over observations of J' F J,    J = da / du

G is the expectation of that Hessian where the observations are as the model says. It is never negative, and it is the
exact Hessian where a is linear in u and the family is natural. F is written as the square of residuals r(u), each a
parameter times the root of its information, which is held fixed, so that G = sum of (dr/du)' (dr/du):

    Normal(m, s)        m / s,  sqrt(2) log s             F = diag(1 / s^2, 1/2) in m and log s^2
    StudentT(v, m, s)   sqrt((v + 1) / (v + 3)) m / s,  sqrt(2 v / (v + 3)) log s
    Poisson(l)          sqrt(l) log l
    Exponential(l)      log l
    Binomial(n, p)      sqrt(n p (1 - p)) logit p
    finite outcomes     sqrt(p_k) log p_k for each k      F = diag(p) - p p' in logits

Rows are taken a block at a time; products are summed in float64, because a float32 sum can lose what the prior adds.

Reference: Martens 2020, https://arxiv.org/abs/1412.1193, section 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import lax
from jax.flatten_util import ravel_pytree
from numpyro import handlers

from inference.target.density import Data, Position, Target
from inference.target.unstable import at_position, carries_a_derivative, jacobian_sites, mask_of
from models import Network
from models.distributions import single

__all__ = ["determined", "gauss_newton", "prior_curvature", "residuals", "separable"]

_BLOCK = 2**22  # numbers in the Jacobian of a block of rows


def residuals(target: Target, position: Position, data: Data) -> jax.Array:
    """The residuals r, one per parameter of each observation, whose Jacobian squared and summed is G.

    Raises:
        ValueError: if an observation's distribution is not one of those above.
    """
    jacobians = jacobian_sites(position)
    found = []
    for name, site in _trace(target, position, data).items():
        if site["type"] == "sample" and site["is_observed"] and name not in jacobians:
            weight, batch = jnp.sqrt(1.0 if site["scale"] is None else site["scale"]), _observations(site)
            for root in _roots(name, site["fn"]):
                root = jnp.broadcast_to(root, batch + root.shape[len(site["fn"].batch_shape) :])
                found.append(jnp.ravel(_beside(root, weight, batch) * root))
    return jnp.concatenate(found) if found else jnp.zeros(0)


def _observations(site: dict[str, Any]) -> tuple[int, ...]:
    """The shape of a site's observations, which without a plate may be larger than its distribution's batch."""
    shape = jnp.shape(site["value"])
    return jnp.broadcast_shapes(site["fn"].batch_shape, shape[: len(shape) - site["fn"].event_dim])


def gauss_newton(target: Target, data: Data, position: Position, rest: Position, diagonal: bool) -> jax.Array:
    """G, or its `diagonal`, over the coordinates of `position` in the order of `ravel_pytree`, with `rest` held."""

    def of(jacobian: jax.Array) -> jax.Array:
        flat = jacobian.reshape(-1, jacobian.shape[-1])
        return jnp.sum(jnp.square(flat), axis=0) if diagonal else flat.T @ flat

    return _over_rows(target, data, position, rest, of)


def determined(target: Target, data: Data, position: Position, rest: Position, covariance: jax.Array) -> jax.Array:
    """tr(G_k C) of a network for each residual k of a row; G_k is its part of G, and C `covariance` or a diagonal."""

    def of(jacobian: jax.Array) -> jax.Array:
        product = jacobian * covariance if covariance.ndim == 1 else jacobian @ covariance
        return jnp.sum(product * jacobian, axis=(0, 2))

    return _over_rows(target, data, position, rest, of)


def _over_rows(
    target: Target, data: Data, position: Position, rest: Position, of: Callable[[jax.Array], jax.Array]
) -> jax.Array:
    """The sum over blocks of rows of `of`, a function of the float64 Jacobian (row, residual, coordinate)."""
    flat, unravel = ravel_pytree(position)

    def of_rows(flat: jax.Array, rows: Data) -> jax.Array:
        return residuals(target, unravel(flat) | rest, rows)

    def wide(jacobian: jax.Array) -> jax.Array:
        with jax.enable_x64(True):
            return of(jacobian.astype(jnp.float64))

    if not isinstance(target.model, Network):  # rows are not known
        return wide(jax.jacfwd(of_rows)(flat, data)[None])

    def of_row(arrays: tuple[jax.Array, ...]) -> jax.Array:
        return jax.jacrev(of_rows)(flat, data._replace(arrays=tuple(array[None] for array in arrays)))

    def of_block(arrays: tuple[jax.Array, ...]) -> jax.Array:
        return wide(jax.vmap(of_row)(arrays))

    rows = len(data.arrays[0])
    each = jax.eval_shape(lambda flat: of_rows(flat, data.rows(slice(0, 1))), flat).size
    size = max(1, min(rows, _BLOCK // (each * flat.size)))

    if size == rows:
        return of_block(data.arrays)

    def add(total: jax.Array, arrays: tuple[jax.Array, ...]) -> jax.Array:
        block = of_block(arrays)
        with jax.enable_x64(True):
            return total + block

    def at(i: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(lax.dynamic_slice_in_dim(array, i * size, size) for array in data.arrays)

    whole, left = divmod(rows, size)
    shape = jax.eval_shape(of_block, data.rows(slice(0, size)).arrays)
    with jax.enable_x64(True):
        nothing = jnp.zeros(shape.shape, jnp.float64)
    total = lax.fori_loop(0, whole, lambda i, total: add(total, at(i)), nothing)
    return add(total, data.rows(slice(whole * size, None)).arrays) if left else total


def prior_curvature(
    log_prior: Callable[[jax.Array], jax.Array], flat: jax.Array, diagonal: bool, separable: bool
) -> jax.Array:
    """The Hessian of minus a log prior, or its diagonal.

    For a `separable` prior only the diagonal is computed, and negative entries, as in a Student-t's tails, count as 0.
    For any other prior the Hessian is computed as it is, with one product per coordinate.
    """

    def product(vector: jax.Array) -> jax.Array:
        return -jax.jvp(jax.grad(log_prior), (flat,), (vector,))[1]

    def column(i: jax.Array) -> jax.Array:
        return product(jnp.zeros_like(flat).at[i].set(1.0))

    if separable:
        entries = jnp.maximum(product(jnp.ones_like(flat)), 0.0)
        entries = entries if diagonal else jnp.diag(entries)
    else:
        entries = lax.map(lambda i: column(i)[i] if diagonal else column(i), jnp.arange(flat.size))
    with jax.enable_x64(True):
        return entries.astype(jnp.float64)


def separable(target: Target, data: Data, position: Position) -> bool:
    """Whether the prior is a product over coordinates, by its structure: no number is looked at.

    It is one if every site's distribution is over single numbers and depends on no other site. What depends on the
    position is what carries a derivative in it.
    """
    found = []

    def look(position: Position) -> jax.Array:
        for name, site in _trace(target, position, data).items():
            if name in position:
                one = single(site["fn"])
                depends = any(carries_a_derivative(leaf) for leaf in jax.tree.leaves(one))
                found.append(not one.event_shape and not depends)
        return jnp.zeros(())

    jax.eval_shape(lambda position: jax.jvp(look, (position,), (position,)), position)
    return all(found)


def _trace(target: Target, position: Position, data: Data) -> dict[str, Any]:
    """The trace of the model, run once at `position`."""
    data = data.in_precision_of(position)
    model = handlers.seed(at_position(target.model, position), rng_seed=0)
    return handlers.trace(model).get_trace(*target.arguments.fill(data.arrays))


def _roots(name: str, fn: Any) -> list[jax.Array]:
    """The parameters of a distribution, each times the root of its information.

    Each has the axes of the distribution's batch, then those of its events and outcomes.
    """
    if isinstance(fn, dist.Independent):  # its events are the last axes of its base's batch
        return _roots(name, fn.base_dist)
    if isinstance(fn, dist.MaskedDistribution):
        roots = _roots(name, fn.base_dist)
        return [jnp.where(_beside(root, mask_of(fn), fn.batch_shape), root, 0.0) for root in roots]
    if isinstance(fn, dist.ExpandedDistribution):
        inner = len(fn.base_dist.batch_shape)
        return [jnp.broadcast_to(root, fn.batch_shape + root.shape[inner:]) for root in _roots(name, fn.base_dist)]
    fixed = lax.stop_gradient
    if isinstance(fn, dist.Normal | dist.LogNormal):
        return _spread(fn, fn.loc / fixed(fn.scale), math.sqrt(2), fn.scale)
    if isinstance(fn, dist.StudentT) and not isinstance(fn.df, jax.core.Tracer):
        centre = jnp.sqrt((fn.df + 1) / (fn.df + 3)) * fn.loc / fixed(fn.scale)
        return _spread(fn, centre, jnp.sqrt(2 * fn.df / (fn.df + 3)), fn.scale)
    if isinstance(fn, dist.Poisson):
        return [jnp.broadcast_to(jnp.sqrt(fixed(fn.rate)) * jnp.log(fn.rate), fn.batch_shape)]
    if isinstance(fn, dist.Exponential):
        return [jnp.broadcast_to(jnp.log(fn.rate), fn.batch_shape)]
    if isinstance(fn, dist.BinomialLogits | dist.BinomialProbs):
        information = fixed(fn.total_count * fn.probs * (1 - fn.probs))
        return [jnp.broadcast_to(jnp.sqrt(information) * fn.logits, fn.batch_shape)]
    if fn.has_enumerate_support:
        log_probs = jnp.moveaxis(fn.log_prob(fn.enumerate_support(expand=False)), 0, -1)
        root = jnp.exp(0.5 * fixed(log_probs)) * log_probs
        return [jnp.broadcast_to(root, (*fn.batch_shape, root.shape[-1]))]
    what = "a numpyro.factor" if isinstance(fn, dist.Unit) else f"a {type(fn).__name__}"
    raise ValueError(
        f"laplace: the observed site '{name}' is {what}, whose Fisher information is not known here; observe a Normal, "
        'StudentT (with fixed df), Poisson, Exponential, Binomial, Bernoulli or Categorical, or use method="svi"'
    )


def _beside(root: jax.Array, by_row: Any, batch: tuple[int, ...]) -> jax.Array:
    """`by_row`, such as a mask or a weight, in the shape `batch` and with the further axes of `root` after it."""
    by_row = jnp.broadcast_to(by_row, batch)
    return by_row.reshape(batch + (1,) * (root.ndim - len(batch)))


def _spread(fn: Any, centre: jax.Array, root: Any, scale: Any) -> list[jax.Array]:
    """The roots for location and log scale; a scale that is not inferred has no information to add."""
    roots = [jnp.broadcast_to(centre, fn.batch_shape)]
    if isinstance(scale, jax.core.Tracer):
        roots.append(jnp.broadcast_to(root * jnp.log(scale), fn.batch_shape))
    return roots
