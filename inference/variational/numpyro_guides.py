"""Any NumPyro guide: a function that samples the model's sites, or one of `numpyro.infer.autoguide`.

The guide's `param` sites are its parameters, in unconstrained coordinates here; a param may be a tree of arrays. The
guide is called with the arguments of the model and must sample every latent site under its name, by draws that are
differentiable in the parameters; anything else that it samples must be marked as auxiliary. Its log density is
NumPyro's, over all its sites and factors, including auxiliary ones; the log-Jacobian takes it to unconstrained
coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import Delta, constraints
from numpyro.distributions.transforms import biject_to
from numpyro.infer.autoguide import AutoGuide, AutoLaplaceApproximation

from inference.target.arguments import fingerprint
from inference.target.density import Data, Position, Target, latent_sites
from inference.target.unstable import log_probs
from inference.variational.guide import Drawn, Guide
from models.distributions import innermost

__all__ = ["Foreign"]


@jax.tree_util.register_pytree_node_class
class _Parameters:
    """The params of a guide in unconstrained coordinates, each a tree of arrays, with their static constraints.

    Args:
        free: the params by name.
        kinds: their constraints by name.
    """

    def __init__(self, free: dict[str, Any], kinds: _Kinds) -> None:
        self.free, self.kinds = free, kinds

    def tree_flatten(self) -> tuple[tuple[dict[str, Any]], _Kinds]:
        return (self.free,), self.kinds

    @classmethod
    def tree_unflatten(cls, kinds: _Kinds, children: tuple[dict[str, Any]]) -> _Parameters:
        return cls(children[0], kinds)

    def values(self) -> dict[str, Any]:
        """The params in their own coordinates, as the guide uses them."""
        return {name: jax.tree.map(biject_to(self.kinds[name]), tree) for name, tree in self.free.items()}


class _Kinds(dict[str, Any]):
    """Constraints by name, hashable because a program depends on them."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))


@dataclass(frozen=True, kw_only=True)
class Foreign(Guide):
    """A NumPyro guide of the user's.

    Attributes:
        guide: a function that samples the model's sites, or an autoguide.
    """

    name: ClassVar[str] = "foreign"
    starts_at_map: ClassVar[bool] = False

    guide: Any

    def singular(self, target: Target, data: Data) -> bool:
        """Whether fewer numbers are drawn than a position has, as where sites are a Delta at a param."""
        _, drawn = self._shapes(target, data)
        random = [site for site in latent_sites(drawn).values() if not _is_point(site["fn"])]
        numbers = sum(math.prod(biject_to(site["fn"].support).inverse_shape(site["shape"])) for site in random)
        return numbers < sum(math.prod(leaf.shape) for leaf in target.position(data).values())

    def check(self, target: Target, data: Data) -> None:
        """Require that the guide has params, and samples all sites of the model by differentiable draws."""
        if isinstance(self.guide, AutoLaplaceApproximation):
            raise ValueError(
                "svi: AutoLaplaceApproximation is fitted as a point, and its normal is made of the curvature there, "
                'which svi does not look at; use method="laplace"'
            )
        if isinstance(self.guide, AutoGuide):  # it looks at its model once, outside of any trace
            handlers.seed(self.guide, jax.random.key(0))(*target.arguments.fill(data.arrays))
        _refuse_moving_supports(target, data)
        wanted, found = self._shapes(target, data)
        sampled = latent_sites(found)
        for name, site in wanted.items():
            if name not in sampled:
                raise ValueError(f"svi: the guide does not sample the site '{name}' of the model")
            if sampled[name]["shape"] != site["shape"]:
                raise ValueError(
                    f"svi: the guide samples the site '{name}' with shape {sampled[name]['shape']}, and the model with "
                    f"shape {site['shape']}; make them agree, or make a new guide for these data"
                )
        for name, site in sampled.items():
            if name not in wanted and not site["infer"].get("is_auxiliary", False):
                raise ValueError(
                    f"svi: the guide samples '{name}', which is no latent site of the model and would be free entropy; "
                    'leave it out, or mark what other sites are made of by infer={"is_auxiliary": True}'
                )
            if site["fn"].support.is_discrete:
                raise ValueError(f"svi: the guide's site '{name}' is discrete, which has no gradient; sum it out")
        params = {name: site for name, site in found.items() if site["type"] == "param"}
        if not params:
            raise ValueError("svi: the guide has no param sites, so there is nothing to fit")
        for name, site in params.items():
            if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(_constraint(site))):
                raise ValueError(f"svi: the constraint of the guide's param '{name}' depends on data; give it numbers")

    def identity(self, target: Target, data: Data) -> str:
        """A fingerprint of where the guide begins and what it draws."""

        def both(data: Data, key: jax.Array) -> Any:
            parameters = self.begin(target, data, {}, key)
            return parameters, self.draw(target, data, parameters, key)

        return fingerprint(both, data, jax.random.key(0))

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> _Parameters:
        """The params with which the guide itself begins, whatever `position` is."""
        _, trace = self._log_probs(target, data, {}, key)
        params = {name: site for name, site in trace.items() if site["type"] == "param"}
        kinds = _Kinds({name: _constraint(site) for name, site in params.items()})
        free = {
            name: jax.tree.map(lambda leaf, kind=kinds[name]: biject_to(kind).inv(jnp.asarray(leaf)), site["value"])
            for name, site in params.items()
        }
        return _Parameters(free, kinds)

    def draw(self, target: Target, data: Data, parameters: _Parameters, key: jax.Array) -> Drawn:
        """One call of the guide; the log density is over all that it samples, and its factors."""
        log_probs, trace = self._log_probs(target, data, parameters.values(), key)
        sites = latent_sites(target.trace(jax.random.key(0), data, "random"))
        transforms = {name: biject_to(site["fn"].support) for name, site in sites.items()}
        position = {name: transform.inv(trace[name]["value"]) for name, transform in transforms.items()}
        log_density = sum(log_probs.values(), start=jnp.zeros(()))
        for name, transform in transforms.items():
            jacobian = transform.log_abs_det_jacobian(position[name], trace[name]["value"])
            log_density = log_density + jnp.sum(jacobian)
        return Drawn(position, log_density)

    def fitted(self, parameters: _Parameters) -> dict[str, np.ndarray]:
        """The guide's params by name; the arrays of a tree by dotted names."""
        wide = any(leaf.dtype == np.float64 for leaf in jax.tree.leaves(parameters))
        with jax.enable_x64(wide):
            leaves, _ = jax.tree_util.tree_flatten_with_path(jax.device_get(parameters.values()))
        return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}

    def _shapes(self, target: Target, data: Data) -> tuple[dict[str, Any], dict[str, Any]]:
        """The latent sites of the model and the trace of the guide, each with its "shape"; nothing is computed."""
        traces: list[dict[str, Any]] = []

        def trace(data: Data) -> None:
            model = latent_sites(target.trace(jax.random.key(0), data, "random"))
            for found in (model, self._log_probs(target, data, {}, jax.random.key(0))[1]):
                shaped = {
                    name: site | {"shape": jnp.shape(site["value"])} if site["type"] == "sample" else site
                    for name, site in found.items()
                }
                traces.append(shaped)

        jax.eval_shape(trace, data)
        model, guide = traces
        return model, guide

    def _log_probs(
        self, target: Target, data: Data, values: dict[str, Any], key: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, Any]]:
        """The log density of each site of the guide, factors included, and its trace, with params at `values`."""

        def substitute(site: dict[str, Any]) -> Any:
            return values.get(site["name"]) if site["type"] == "param" else None

        guide = handlers.substitute(handlers.seed(self.guide, key), substitute_fn=substitute)
        return log_probs(guide, target.arguments.fill(data.arrays), {})


def _refuse_moving_supports(target: Target, data: Data) -> None:
    """Raise ValueError if a site's support depends on another site: a NumPyro guide has one support for all draws."""
    bounds = [
        {name: jax.tree.leaves(site["fn"].support) for name, site in latent_sites(trace).items()}
        for trace in (target.trace(jax.random.key(seed), data, "random") for seed in (0, 1))
    ]
    for name, leaves in bounds[0].items():
        if not all(np.array_equal(one, other) for one, other in zip(leaves, bounds[1][name], strict=True)):
            raise ValueError(
                f"svi: where the site '{name}' lives depends on another site, and a NumPyro guide maps its draws to "
                "one place; use a guide that has a name, such as guide='fullrank', or sample a distance from the bound"
            )


def _constraint(site: dict[str, Any]) -> Any:
    return site["kwargs"].get("constraint", constraints.real)


def _is_point(distribution: Any) -> bool:
    return isinstance(innermost(distribution), Delta)
