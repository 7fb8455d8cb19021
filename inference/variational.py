r"""Stochastic variational inference: the guide closest to the posterior in KL divergence.

Minimises the variational free energy over the guide q, in unconstrained coordinates u with log-Jacobian j(u):

    F(q) = -E_q[log-likelihood] / T - E_q[log-prior] / T' - E_q[j] - H[q],    T' = T or 1

where T' = T under `tempering="posterior"` and 1 under "likelihood"; at T = 1 it is -log p(y) + KL(q || posterior). The
expectations are averages over `particles` reparameterised draws and a minibatch (unbiased, by `inference.target`); the
entropy is in closed form. After the last step the posterior is `draws` independent draws from the guide. Each comes
with `lp`, the log density it approximates, and `guide_log_density`, log q, which importance diagnostics need.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax

from inference import gaussian
from inference.gaussian import MeanField
from inference.methods import Emission
from inference.optimisation import Optimisation, OptimisationState
from inference.target import Data, Position, Target
from models.validation import one_of, positive_integer

__all__ = ["SVI"]

_GUIDES = ("gaussian",)


@dataclass(frozen=True, kw_only=True)
class SVI(Optimisation):
    """Variational inference with a guide.

    Defaults: 5,000 steps of the full batch, then 1,000 draws.

    Attributes:
        guide: "gaussian", one normal per weight (Bayes by Backprop).
        draws: taken from the guide when it is fitted.
        particles: draws per step that estimate the expectations.
    """

    name: ClassVar[str] = "svi"
    kind: ClassVar[str] = "guide"

    guide: str = "gaussian"
    steps: int = 5000
    draws: int = 1000
    particles: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("svi: guide", self.guide, _GUIDES)
        positive_integer("svi: draws", self.draws)
        positive_integer("svi: particles", self.particles)

    def program(self) -> SVI:
        """How many draws are taken at the end does not shape the steps."""
        return replace(self, draws=1)

    @property
    def _evaluations(self) -> int:
        return self.particles

    def begin(self, position: Position) -> MeanField:
        """A narrow guide around the start."""
        return gaussian.begin(position)

    def objective(
        self, target: Target, data: Data, rows: jax.Array | None, parameters: MeanField, key: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The free energy, and the expected log-likelihood in it, untempered."""

        def particle(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            terms = target.estimate(gaussian.draw(parameters, key), data, rows)
            return target.tempered(terms, data) + terms.log_jacobian, terms.log_likelihood

        log_density, log_likelihood = jax.vmap(particle)(jax.random.split(key, self.particles))
        free_energy = -jnp.mean(log_density) - gaussian.entropy(parameters)
        return free_energy, {"expected_log_likelihood": jnp.mean(log_likelihood)}

    def conclude(self, target: Target, data: Data, state: OptimisationState, key: jax.Array) -> Emission:
        """Independent draws from the guide, with both log densities."""

        def one(key: jax.Array) -> Emission:
            position = gaussian.draw(state.parameters, key)
            return target.constrain(position, data), {
                "guide_log_density": gaussian.log_density(state.parameters, position),
                "lp": target.log_density(position, data),
            }

        return lax.map(one, jax.random.split(key, self.draws))
