r"""The target: model and data as one log density over unconstrained weights.

A position is a dict from the name of each latent site to its unconstrained value u; the site's own value is
w = t(u) with the bijection t of its support. The log density has three terms, kept apart:

    log-likelihood  log p(y | w)         observed sites and factors
    log-prior       log p(w)             latent sites
    log-Jacobian    log |det dt/du|      so that u has a density of its own

This file alone says what temperature and minibatches mean. With temperature T, samplers see

    tempering="posterior":    (log p(y | w) + log p(w)) / T + log |det dt/du|
    tempering="likelihood":    log p(y | w) / T + log p(w)  + log |det dt/du|

The Jacobian belongs to the coordinates and is never tempered. A point estimate maximises the density of the sites
themselves, so it leaves the Jacobian out. A minibatch of B of N rows estimates the log-likelihood without bias by N / B
times that of its rows. A Gaussian is so tempered with its normaliser, whether its scale is fixed, learned or an output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from numpyro import handlers
from numpyro.distributions.transforms import biject_to
from numpyro.infer.initialization import init_to_uniform
from numpyro.infer.util import _unconstrain_reparam, compute_log_probs, constrain_fn

from inference.arguments import Arguments, fingerprint

__all__ = ["TEMPERINGS", "Data", "Position", "Target", "Terms", "latent_sites"]

TEMPERINGS = ("posterior", "likelihood")
Position = dict[str, jax.Array]

_TRIES = 100  # of finding a start with a finite density and gradient, as in Stan and NumPyro


class Data(NamedTuple):
    """What compiled programs take as arguments: nothing here is ever closed over.

    Attributes:
        arrays: the array arguments of the model, in order.
        temperature: T, a scalar.
    """

    arrays: tuple[Any, ...]
    temperature: Any


class Terms(NamedTuple):
    """The three terms of the log density, untempered."""

    log_likelihood: jax.Array
    log_prior: jax.Array
    log_jacobian: jax.Array


@dataclass(frozen=True)
class Target:
    """The log density of a model's latent sites given data; hashable, so that programs are compiled once.

    Attributes:
        model: a NumPyro model.
        arguments: how its arguments are made from `Data.arrays`.
        tempering: which terms the temperature divides, "posterior" or "likelihood".
        identity: what the model computes, for a model that is not equal by value alone; see `inference.arguments`.
    """

    model: Callable[..., Any]
    arguments: Arguments
    tempering: str = "posterior"
    identity: str = ""

    def terms(self, position: Position, data: Data) -> Terms:
        """The three terms at a position, over all rows."""
        substituted = handlers.substitute(self.model, substitute_fn=partial(_unconstrain_reparam, position))
        log_probs, trace = compute_log_probs(substituted, self.arguments.fill(data.arrays), {}, {})
        jacobians = {f"_{name}_log_det" for name in position}
        likelihood = prior = jacobian = jnp.zeros(())
        for name, log_prob in log_probs.items():
            if name in jacobians:
                jacobian = jacobian + log_prob
            elif trace[name]["is_observed"]:
                likelihood = likelihood + log_prob
            else:
                prior = prior + log_prob
        return Terms(likelihood, prior, jacobian)

    def estimate(self, position: Position, data: Data, rows: jax.Array | None) -> Terms:
        """The terms with the log-likelihood estimated from some rows; None means all of them."""
        if rows is None:
            return self.terms(position, data)
        batch = data._replace(arrays=tuple(array[rows] for array in data.arrays))
        terms = self.terms(position, batch)
        return terms._replace(log_likelihood=terms.log_likelihood * (len(data.arrays[0]) / len(rows)))

    def tempered(self, terms: Terms, data: Data) -> jax.Array:
        """The log density of the sites at the data's temperature, without the Jacobian."""
        if self.tempering == "likelihood":
            return terms.log_likelihood / data.temperature + terms.log_prior
        return (terms.log_likelihood + terms.log_prior) / data.temperature

    def log_density(self, position: Position, data: Data) -> jax.Array:
        """What samplers draw from: the tempered log density in unconstrained coordinates."""
        terms = self.terms(position, data)
        return self.tempered(terms, data) + terms.log_jacobian

    def constrain(self, position: Position, data: Data) -> dict[str, jax.Array]:
        """The sites' own values, and the model's deterministic sites."""
        return constrain_fn(self.model, self.arguments.fill(data.arrays), {}, position, return_deterministic=True)

    def identified(self, data: Data) -> Target:
        """This target with a fingerprint of its model, so that a model which has changed meets no old program."""
        key = jax.eval_shape(lambda: jax.random.key(0))
        position = jax.eval_shape(self._propose, key, data)
        what = fingerprint(lambda p, d: (self.terms(p, d), self.constrain(p, d)), position, data)
        return replace(self, identity=what)

    def start(self, key: jax.Array, data: Data) -> tuple[Position, jax.Array]:
        """A random position with finite density and gradient, and whether one was found.

        A site whose `infer` entry has a "start_scale" starts normal with that scale; others start uniform on
        (-2, 2) in unconstrained coordinates.
        """

        def good(position: Position) -> jax.Array:
            value, gradient = jax.value_and_grad(self.log_density)(position, data)
            return jnp.isfinite(value) & jnp.all(
                jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(gradient)])
            )

        def again(carry: tuple[jax.Array, Position, jax.Array]) -> tuple[jax.Array, Position, jax.Array]:
            attempt, _, _ = carry
            position = self._propose(jax.random.fold_in(key, attempt), data)
            return attempt + 1, position, good(position)

        first = self._propose(jax.random.fold_in(key, 0), data)
        _, position, found = lax.while_loop(
            lambda carry: (carry[0] < _TRIES) & ~carry[2], again, (jnp.int32(1), first, good(first))
        )
        return position, found

    def _propose(self, key: jax.Array, data: Data) -> Position:
        model_key, start_key = jax.random.split(key)
        seeded = handlers.seed(self.model, model_key)
        trace = handlers.trace(handlers.substitute(seeded, substitute_fn=init_to_uniform(radius=2.0))).get_trace(
            *self.arguments.fill(data.arrays)
        )
        position = {}
        for i, (name, site) in enumerate(latent_sites(trace).items()):
            value = biject_to(site["fn"].support).inv(site["value"])
            scale = site["infer"].get("start_scale")
            if scale is not None:
                value = scale * jax.random.normal(jax.random.fold_in(start_key, i), value.shape, value.dtype)
            position[name] = value
        return position


def latent_sites(trace: dict[str, Any]) -> dict[str, Any]:
    """The unobserved sample sites of a trace."""
    return {name: site for name, site in trace.items() if site["type"] == "sample" and not site["is_observed"]}
