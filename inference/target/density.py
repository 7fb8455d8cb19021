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
themselves, so it leaves the Jacobian out. A Gaussian is tempered together with its normaliser, whether its scale is
fixed, learned or an output. A minibatch of B of N rows estimates the log-likelihood without bias by N / B times the
log-likelihood of its rows.

The log-likelihood of many rows is summed over blocks of rows in order, and its gradient with it, block by block: a
block is small enough for the processor's cache, the memory does not grow with the rows, and what is summed depends on
the number of rows alone. Everything is computed in the precision of the position; `exact_log_density` is in float64
whatever that precision is, because a difference of two large float32 energies is mostly rounding. Where the device has
no float64 of its own, the layers stay in float32, see `models.float32_layers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from numpyro import handlers
from numpyro.distributions.transforms import biject_to
from numpyro.infer.initialization import init_to_median, init_to_uniform

from inference.host.arithmetic import has_float64
from inference.target.arguments import Arguments, fingerprint
from inference.target.plates import Rows, Subsampled
from inference.target.row_blocks import log_likelihood_by_blocks
from inference.target.row_shards import Counted, log_likelihood_by_slots
from inference.target.trees import standard_normal
from inference.target.unstable import at_position, constrained, jacobian_sites, log_probs, unconstrained
from models.distributions import proper
from models.float32_layers import with_float32_layers

__all__ = ["TEMPERINGS", "Data", "Position", "Target", "Terms", "View", "latent_sites"]

TEMPERINGS = ("posterior", "likelihood")
Position = dict[str, jax.Array]

_MEDIAN_DRAWS = 101  # draws from the prior to find its median: a start needs no more
_TRIES = 100  # attempts to find a start with a finite density and gradient, as in Stan and NumPyro


class Data(NamedTuple):
    """What compiled programs take as arguments: nothing here is ever closed over.

    Attributes:
        arrays: the array arguments of the model, in order.
        temperature: T, a scalar.
        counts: where rows are spread over devices, which of them count, and the arrays are (slot, block, row, ...);
            see `inference.target.row_shards`. None: all rows are here, and all count.
    """

    arrays: tuple[Any, ...]
    temperature: Any
    counts: Any = None

    @property
    def some(self) -> tuple[Any, ...]:
        """Arrays for what depends on no row: a row of those that are spread over devices, else all."""
        return self.arrays if self.counts is None else tuple(array[0, 0, :1] for array in self.arrays)

    def rows(self, chosen: Any) -> Data:
        """The data with the `chosen` rows alone; all arrays must have one row per example."""
        return self._replace(arrays=tuple(array[chosen] for array in self.arrays))

    def in_precision_of(self, position: Position) -> Data:
        """The data with floating-point numbers in the precision of `position`; integers stay as they are."""
        precision = next(iter(position.values())).dtype
        return jax.tree.map(
            lambda leaf: leaf.astype(precision) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, self
        )


class View(NamedTuple):
    """How a guide evaluates the terms, where it knows more about them than one draw tells.

    Attributes:
        expected: the expectation of the log prior of a site, given its name and its prior; None where only a draw can
            tell.
        layers: puts a handler of the layers' messages, see `models.layers`, around the model; None for no handler.
    """

    expected: Callable[[str, Any], jax.Array | None]
    layers: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None


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
        identity: a fingerprint of what the model computes, for a model that can't be compared by value; see
            `inference.target.arguments`.
        block: rows per block of the log-likelihood, if all arrays have one row per example; 0 takes all rows at once.
        exact: whether the model can be evaluated in float64; a model that insists on float32 somewhere can't.
        narrow: whether the layers of a network stay in float32 there; by default, where the device lacks float64.
    """

    model: Callable[..., Any]
    arguments: Arguments
    tempering: str = "posterior"
    identity: str = ""
    block: int = 0
    exact: bool = True
    narrow: bool = field(default_factory=lambda: not has_float64())

    def terms(self, position: Position, data: Data, view: View | None = None) -> Terms:
        """The three terms at a position, over all rows; computed in one piece if `view` has a handler of the layers."""
        if data.counts is not None:
            one = Data(data.some, data.temperature)
            first = self.terms_at_once(position, one, view)  # for the terms that depend on no row
            return first._replace(log_likelihood=log_likelihood_by_slots(self, position, data))
        if not self.block or self.block >= len(data.arrays[0]) or (view is not None and view.layers is not None):
            return self.terms_at_once(position, data, view)
        first = self.terms_at_once(position, data.rows(slice(0, 1)), view)  # for the terms that depend on no row
        return first._replace(log_likelihood=log_likelihood_by_blocks(self, position, data))

    def terms_at_once(self, position: Position, data: Data, view: View | None = None) -> Terms:
        """The three terms in one piece, in the precision of the position."""
        data = data.in_precision_of(position)
        model = self.model if view is None or view.layers is None else view.layers(self.model)
        model = model if data.counts is None else Counted(model, data.counts)
        by_site, trace = log_probs(at_position(model, position), self.arguments.fill(data.arrays), {})
        jacobians = jacobian_sites(position)
        likelihood = prior = jacobian = jnp.zeros(())
        for name, log_prob in by_site.items():
            if name in jacobians:
                jacobian = jacobian + log_prob
            elif trace[name]["is_observed"]:
                likelihood = likelihood + log_prob
            else:
                scale = 1.0 if trace[name]["scale"] is None else trace[name]["scale"]
                whole = not jnp.ndim(scale)  # an expectation is known only for all values of a site together
                expected = view.expected(name, trace[name]["fn"]) if view is not None and whole else None
                prior = prior + (log_prob if expected is None else scale * expected)
        return Terms(likelihood, prior, jacobian)

    def estimate(self, position: Position, data: Data, rows: jax.Array | None, view: View | None = None) -> Terms:
        """The terms with the log-likelihood estimated from the rows numbered `rows`; None takes all rows."""
        if rows is None:
            return self.terms(position, data, view)
        if isinstance(self.model, Subsampled):
            with Rows(rows, self.model.plate):
                return self.terms(position, data, view)
        terms = self.terms(position, data.rows(rows), view)
        return terms._replace(log_likelihood=terms.log_likelihood * (len(data.arrays[0]) / len(rows)))

    def rows(self, data: Data) -> int:
        """The number of rows from which minibatches are taken."""
        return self.model.rows if isinstance(self.model, Subsampled) else len(data.arrays[0])

    def tempered(self, terms: Terms, data: Data) -> jax.Array:
        """The log density of the sites at the data's temperature, without the Jacobian."""
        if self.tempering == "likelihood":
            return terms.log_likelihood / data.temperature + terms.log_prior
        return (terms.log_likelihood + terms.log_prior) / data.temperature

    def log_density(self, position: Position, data: Data) -> jax.Array:
        """What samplers draw from: the tempered log density in unconstrained coordinates."""
        terms = self.terms(position, data)
        return self.tempered(terms, data) + terms.log_jacobian

    def exact_log_density(self, position: Position, data: Data) -> jax.Array:
        """`log_density` in float64, within a float32 program too; computed in float32 if the model insists on it."""
        if not self.exact:
            value = self.log_density(position, data)
            with jax.enable_x64(True):
                return value.astype(jnp.float64)
        narrow = self.narrow and all(leaf.dtype == jnp.float32 for leaf in position.values())
        target = replace(self, model=with_float32_layers(self.model)) if narrow else self
        with jax.enable_x64(True):
            return target.log_density(jax.tree.map(lambda leaf: leaf.astype(jnp.float64), position), data)

    def constrain(self, position: Position, data: Data) -> dict[str, jax.Array]:
        """The sites' own values, and the model's deterministic sites."""
        return constrained(self.model, self.arguments.fill(data.some), position)

    def position(self, data: Data) -> Position:
        """The shapes of a position; nothing is computed."""
        return jax.eval_shape(lambda data: self._propose(jax.random.key(0), data), data)

    def identified(self, data: Data) -> Target:
        """This target with a fingerprint of its model, so that a changed model is not run by an old program."""
        position = self.position(data)
        what = fingerprint(lambda p, d: (self.terms(p, d), self.constrain(p, d)), position, data)
        return replace(self, identity=what)

    def start(
        self, key: jax.Array, data: Data, how: str = "random", held: tuple[str, ...] = (), gradient: bool = True
    ) -> tuple[Position, jax.Array]:
        """A random position with a finite density and, unless `gradient` is False, gradient, and whether one was found.

        A site whose `infer` entry has a "start_scale" starts at a normal draw with that scale around its "start_mean",
        or 0; others start at a uniform draw on (-2, 2) in unconstrained coordinates. If `how` is "prior", every site
        that can be drawn from its prior starts there. Sites named in `held` start at the median of their prior.
        """

        def again(carry: tuple[jax.Array, Position, jax.Array]) -> tuple[jax.Array, Position, jax.Array]:
            attempt, _, _ = carry
            position = self._propose(jax.random.fold_in(key, attempt), data, how, held)
            if gradient:
                return attempt + 1, position, self._finite(position, data)[1]
            return attempt + 1, position, jnp.isfinite(self.log_density(position, data))

        nowhere = jax.tree.map(jnp.zeros_like, jax.eval_shape(partial(self._propose, how=how, held=held), key, data))
        _, position, found = lax.while_loop(
            lambda carry: (carry[0] < _TRIES) & ~carry[2], again, (jnp.int32(0), nowhere, jnp.array(False))
        )
        return position, found

    def placed(
        self, key: jax.Array, data: Data, sites: dict[str, jax.Array], held: tuple[str, ...]
    ) -> tuple[Position, jax.Array, jax.Array]:
        """A random position with some sites at the values `sites`, its log density, and whether all of it is finite.

        Sites named in `held` are at the median of their prior.
        """
        position = self._propose(key, data, "random", held)
        values = {**self.constrain(position, data), **sites}
        latent = {name: values[name] for name in position}
        moved = unconstrained(self.model, self.arguments.fill(data.arrays), latent)
        position = position | {name: moved[name] for name in sites}
        return position, *self._finite(position, data)

    def _finite(self, position: Position, data: Data) -> tuple[jax.Array, jax.Array]:
        """The log density, and whether it and its gradient are finite."""
        value, gradient = jax.value_and_grad(self.log_density)(position, data)
        finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(gradient)]
        return value, jnp.isfinite(value) & jnp.all(jnp.stack(finite))

    def trace(self, key: jax.Array, data: Data, how: str, held: tuple[str, ...] = ()) -> dict[str, Any]:
        """The trace of one run, with latent sites at "random" or from the "prior", and `held` ones at its median."""
        at_random, at_median = init_to_uniform(radius=2.0), init_to_median(num_samples=_MEDIAN_DRAWS)

        def value(site: dict[str, Any]) -> Any:
            if site["value"] is not None:
                return None
            if not proper(site.get("fn")):
                return at_random(site)
            if site["name"] in held:
                return at_median(site)
            return None if how == "prior" else at_random(site)

        def placeholder(site: dict[str, Any]) -> Any:  # for values that `_propose` draws itself: needs no key
            drawn = how == "random" and site["type"] == "sample" and "start_scale" in site["infer"]
            return jnp.zeros(site["fn"].shape()) if drawn and not site["is_observed"] else None

        model = handlers.seed(handlers.substitute(self.model, substitute_fn=placeholder), key)
        model = handlers.substitute(
            model, substitute_fn=lambda site: None if site["value"] is not None else value(site)
        )
        return handlers.trace(model).get_trace(*self.arguments.fill(data.some))

    def _propose(self, key: jax.Array, data: Data, how: str = "random", held: tuple[str, ...] = ()) -> Position:
        model_key, start_key = jax.random.split(key)
        sites = latent_sites(self.trace(model_key, data, how, held))
        position = {name: biject_to(site["fn"].support).inv(site["value"]) for name, site in sites.items()}
        scales = {
            name: site["infer"]["start_scale"]
            for name, site in sites.items()
            if "start_scale" in site["infer"] and not (how == "prior" and proper(site["fn"]))
        }
        normal = standard_normal(start_key, {name: position[name] for name in scales})
        means = {name: site["infer"].get("start_mean", 0.0) for name, site in sites.items()}
        starts = {name: scale * normal[name] for name, scale in scales.items()}
        return position | {name: start + means[name] if means[name] else start for name, start in starts.items()}


def latent_sites(trace: dict[str, Any]) -> dict[str, Any]:
    """The unobserved sample sites of a trace."""
    return {name: site for name, site in trace.items() if site["type"] == "sample" and not site["is_observed"]}
