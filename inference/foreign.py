"""Any NumPyro guide: a function that samples the model's sites, or one of `numpyro.infer.autoguide`.

The guide's `param` sites are its parameters, in unconstrained coordinates here; a param may be a tree of arrays. The
guide is called with the arguments of the model and must sample every latent site under its name, by draws that are
differentiable in the parameters; what else it samples must be marked as auxiliary. Its log density is NumPyro's, that
of all its sites and factors, auxiliary ones included; the log-Jacobian takes it to unconstrained coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from numpyro import handlers
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to
from numpyro.infer.autoguide import AutoGuide
from numpyro.infer.util import compute_log_probs

from inference.guides import Drawn, Guide
from inference.target import Data, Position, Target, latent_sites

__all__ = ["Foreign"]

_Parameters = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Foreign(Guide):
    """A user's guide.

    Attributes:
        guide: the guide.
    """

    name: ClassVar[str] = "foreign"

    guide: Any

    @property
    def singular(self) -> bool:
        """An `AutoDelta` has no density."""
        return type(self.guide).__name__ in ("AutoDelta", "AutoLaplaceApproximation")

    def check(self, target: Target, data: Data) -> None:
        """The guide must sample the sites of the model, all of them by differentiable draws."""
        if isinstance(self.guide, AutoGuide):  # looks at its model once, which nothing traced may see
            handlers.seed(self.guide, jax.random.key(0))(*target.arguments.fill(data.arrays))
        found: dict[str, Any] = {}

        def trace(data: Data) -> None:
            found.update(self._log_probs(target, data, {}, jax.random.key(0))[1])

        jax.eval_shape(trace, data)
        sampled, wanted = latent_sites(found), target.position(data)
        for name in wanted:
            if name not in sampled:
                raise ValueError(f"svi: the guide does not sample the site '{name}' of the model")
        for name, site in sampled.items():
            if name not in wanted and not site["infer"].get("is_auxiliary", False):
                raise ValueError(
                    f"svi: the guide samples '{name}', which is no latent site of the model and would be free entropy; "
                    'leave it out, or mark what other sites are made of by infer={"is_auxiliary": True}'
                )
            if site["fn"].support.is_discrete:
                raise ValueError(f"svi: the guide's site '{name}' is discrete, which has no gradient; sum it out")
        if not any(site["type"] == "param" for site in found.values()):
            raise ValueError("svi: the guide has no param sites, so there is nothing to fit")

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> _Parameters:
        """Where the guide itself begins."""
        _, trace = self._log_probs(target, data, {}, key)
        return {
            name: biject_to(_constraint(site)).inv(jnp.asarray(site["value"]))
            for name, site in trace.items()
            if site["type"] == "param"
        }

    def draw(self, target: Target, data: Data, parameters: _Parameters, key: jax.Array) -> Drawn:
        """One call of the guide; its log density is that of all that it samples, and of its factors."""
        log_probs, trace = self._log_probs(target, data, parameters, key)
        sites = latent_sites(target.trace(jax.random.key(0), data, "random"))
        transforms = {name: biject_to(site["fn"].support) for name, site in sites.items()}
        position = {name: transform.inv(trace[name]["value"]) for name, transform in transforms.items()}
        log_density = sum(log_probs.values(), start=jnp.zeros(()))
        for name, transform in transforms.items():
            jacobian = transform.log_abs_det_jacobian(position[name], trace[name]["value"])
            log_density = log_density + jnp.sum(jacobian)
        return Drawn(position, log_density)

    def _log_probs(
        self, target: Target, data: Data, parameters: _Parameters, key: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, Any]]:
        """The log density of each site of the guide, factors included, and its trace."""

        def substitute(site: dict[str, Any]) -> Any:
            if site["type"] != "param" or site["name"] not in parameters:
                return None
            return biject_to(_constraint(site))(parameters[site["name"]])

        guide = handlers.substitute(handlers.seed(self.guide, key), substitute_fn=substitute)
        return compute_log_probs(guide, target.arguments.fill(data.arrays), {}, {})


def _constraint(site: dict[str, Any]) -> Any:
    return site["kwargs"].get("constraint", constraints.real)
