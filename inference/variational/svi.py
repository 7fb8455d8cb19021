r"""Stochastic variational inference: the guide closest to the posterior in KL divergence.

Minimises the variational free energy over the guide q, in unconstrained coordinates u with log-Jacobian j(u):

    F(q) = -E_q[log-likelihood] / T - E_q[log-prior] / T' - E_q[j] - H[q],    T' = T or 1

where T' = T under `tempering="posterior"` and 1 under "likelihood"; at T = 1 it is -log p(y) + KL(q || posterior). The
expected log-likelihood is an average over `particles` draws and a minibatch (unbiased, by `inference.target.density`);
expected log-prior and entropy are in closed form where the guide has one, and averages over the same draws elsewhere.

With minibatches the last three terms, KL(q || prior) at T = 1, are shared equally by the M steps of an epoch, or, by
Blundell et al. (2015, equation 9), given to step i = 1, ..., M with weight 2^(M - i) / (2^M - 1): the first steps are
led by the prior, the last ones by the data. The weight is computed as 2^-i / (1 - 2^-M), which can't overflow.

After the last step the posterior is `draws` independent draws from the guide. Each comes with `lp`, the log density it
approximates, and, unless the guide is singular, `guide_log_density`, log q, which importance diagnostics need.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.methods import STARTS, Emission
from inference.optimisation.optimiser import Objective, Optimisation, OptimisationState
from inference.target.density import Data, Position, Target, Terms, View
from inference.target.minibatches import Minibatch
from inference.variational.correlated import FullRank, LowRank
from inference.variational.dropout import Dropout
from inference.variational.gaussian import Gaussian
from inference.variational.guide import Drawn, Guide
from inference.variational.mixture import Mixture
from inference.variational.numpyro_guides import Foreign
from models import Network
from models.validation import one_of, positive_integer

__all__ = ["GUIDES", "SVI", "FreeEnergy", "chosen_guide"]

GUIDES: dict[str, type[Guide]] = {guide.name: guide for guide in (Gaussian, LowRank, FullRank, Mixture, Dropout)}
"""The guides by name."""

_GUIDE_OPTIONS = tuple(dict.fromkeys(option for guide in GUIDES.values() for option in guide.takes()))


@dataclass(frozen=True)
class FreeEnergy(Objective):
    """The free energy of a guide, estimated by draws from it.

    Attributes:
        guide: see `SVI`.
        particles: see `SVI`.
        kl_weights: see `SVI`.
    """

    guide: Guide
    particles: int
    kl_weights: str

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> Any:
        """The guide's first parameters."""
        return self.guide.begin(target, data, position, key)

    def loss(
        self, target: Target, data: Data, batch: Minibatch, parameters: Any, key: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """The free energy, and its pieces untempered: expected log-likelihood and KL divergence from the prior."""
        family = self.guide
        entropy = family.entropy(parameters)

        def one(drawn: Drawn, key: jax.Array) -> tuple[Terms, jax.Array]:
            view = View(partial(family.expected_log_prior, parameters), family.layers(parameters, key))
            terms = target.estimate(drawn.position, data, batch.rows, view)
            if family.has_points:
                terms = terms._replace(log_jacobian=jnp.zeros(()))
            return terms, -drawn.log_density if entropy is None else entropy

        def particle(key: jax.Array) -> tuple[Terms, jax.Array]:
            draw_key, layer_key = jax.random.split(key)
            weights, drawn = family.strata(target, data, parameters, draw_key)
            if weights is None:
                return one(drawn, layer_key)
            each = jax.vmap(one)(drawn, jax.random.split(layer_key, len(weights)))
            return jax.tree.map(lambda leaf: weights @ leaf, each)

        if self.particles == 1:
            terms, entropy_term = particle(key)
        else:
            every = jax.vmap(particle)(jax.random.split(key, self.particles))
            terms, entropy_term = jax.tree.map(jnp.mean, every)
        weight = _blundell(batch) if self.kl_weights == "blundell" else 1.0
        weighted = terms._replace(log_prior=weight * terms.log_prior)
        rest = terms.log_jacobian + entropy_term
        return -target.tempered(weighted, data) - weight * rest, {
            "loss": -target.tempered(terms, data) - rest,
            "expected_log_likelihood": terms.log_likelihood,
            "kl": -terms.log_prior - rest,
        }


@dataclass(frozen=True, kw_only=True, init=False)
class SVI(Optimisation):
    """Variational inference with a guide.

    Defaults: 15,000 steps of the full batch, then 1,000 draws. The options of a guide may be given next to its name:
    `SVI(guide="dropout", rate=0.05)` is `SVI(guide=inference.Dropout(rate=0.05))`.

    Attributes:
        guide: "gaussian", one normal per weight (Bayes by Backprop); "lowrank" or "fullrank", correlated normals;
            "mixture" of Gaussians; "dropout" (MC dropout); a record such as `inference.Dropout(rate=0.05)`, whose help
            explains its options; or any NumPyro guide.
        draws: how many draws are taken from the fitted guide.
        particles: draws per step that estimate the expectations.
        kl_weights: how the KL divergence from the prior is shared out among the minibatches of an epoch, "uniform" or
            "blundell".
        start: the point around which a guide that has a name begins: "random", "map" or "prior". None is "map" for a
            network, where a guide around a random point can collapse onto the prior, and "random" for dropout and for
            any other model.
        restarts: how many guides to fit from different starts, side by side; the one with the least free energy is
            kept.
    """

    name: ClassVar[str] = "svi"
    kind: ClassVar[str] = "guide"

    guide: Any = "gaussian"
    steps: int = 15_000
    draws: int = 1000
    particles: int = 1
    kl_weights: str = "uniform"
    start: str | None = None
    restarts: int = 1  # type: ignore[misc]

    def __init__(self, *, guide: Any = "gaussian", **options: Any) -> None:
        own = {item.name: item.default for item in fields(self)}
        unknown = [option for option in options if option not in own and option not in _GUIDE_OPTIONS]
        if unknown:
            raise TypeError(f"svi has no option {unknown[0]!r}; it takes {', '.join(self.takes())}")
        of_guide = {name: options.pop(name) for name in _GUIDE_OPTIONS if name in options}
        for name, value in {**own, **options, "guide": chosen_guide(guide, of_guide)}.items():
            object.__setattr__(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        for count in ("draws", "particles", "restarts"):
            positive_integer(f"svi: {count}", getattr(self, count))
        one_of("svi: kl_weights", self.kl_weights, ("uniform", "blundell"))
        if self.start is not None:
            one_of("svi: start", self.start, [start for start in STARTS if start != "ensemble"])
        if isinstance(self.guide, Foreign) and (self.start not in (None, "random") or self.restarts > 1):
            option, given = ("restarts", self.restarts) if self.start in (None, "random") else ("start", self.start)
            raise ValueError(
                f"svi: {option}={given!r} is for the guides that have a name; a guide of your own begins where its "
                "params do: leave it out, and change those, or the init_loc_fn of an autoguide"
            )
        if self.kl_weights == "blundell" and self.batch_size is None:
            raise ValueError('svi: kl_weights="blundell" deals out to minibatches; give batch_size')

    @classmethod
    def takes(cls) -> tuple[str, ...]:
        """The names of SVI's own options and of the guides' options."""
        return (*super().takes(), *_GUIDE_OPTIONS)

    def options(self) -> dict[str, Any]:
        """The options by name, including the guide's; an option of a guide that is not given is None."""
        nothing = dict.fromkeys(_GUIDE_OPTIONS)
        if isinstance(self.guide, Foreign):
            return {**super().options(), **nothing, "guide": self.guide.guide}
        of_guide = {item.name: getattr(self.guide, item.name) for item in fields(self.guide)}
        given = {item.name: of_guide[item.name] for item in fields(self.guide) if of_guide[item.name] != item.default}
        return {**super().options(), **nothing, **given, "guide": self.guide.name}

    @property
    def _evaluations(self) -> int:
        return self.particles * self.guide.evaluations

    def objective(self) -> FreeEnergy:
        """The guide's free energy."""
        return FreeEnergy(self.guide, self.particles, self.kl_weights)

    def suited(self, target: Target, data: Data) -> Optimisation:
        """This method, with a start that suits model and guide if it is left open; minibatches need known rows."""
        super().suited(target, data)
        self.guide.check(target, data)
        if self.guide.by_row and self.chunk_size is not None and self.batch_size is None:
            raise ValueError(
                f"svi: chunk_size={self.chunk_size} would do nothing here, because rows with randomness of their own "
                "go through a step together; bound its memory by batch_size, or let rows share their draw, by "
                'estimator="weights" or masks="shared"'
            )
        if self.start is not None:
            return self
        at_map = isinstance(target.model, Network) and self.guide.starts_at_map
        return replace(self, start="map" if at_map else "random")

    def identity(self, target: Target, data: Data) -> str:
        """A fingerprint of the guide and of the schedule, where they are the user's own."""
        return self.guide.identity(target, data) + super().identity(target, data)

    def conclude(
        self, target: Target, data: Data, state: OptimisationState, key: jax.Array
    ) -> tuple[Emission, OptimisationState]:
        """Independent draws from the guide, with `lp` and, unless the guide is singular, `guide_log_density`."""
        family = self.guide
        singular = family.singular(target, data)

        def one(key: jax.Array) -> Emission:
            drawn = family.draw(target, data, state.parameters, key)
            statistics = {"lp": target.log_density(drawn.position, data)}
            if not singular:
                statistics["guide_log_density"] = drawn.log_density
            return target.constrain(drawn.position, data), statistics

        return lax.map(one, jax.random.split(key, self.draws)), state

    def fitted(self, state: OptimisationState) -> dict[str, np.ndarray]:
        """The guide's parameters, by name."""
        return self.guide.fitted(jax.device_get(state.parameters))


def _blundell(batch: Minibatch) -> jax.Array:
    """M pi_i for the i-th of M minibatches; 1 on average over an epoch."""
    return batch.epoch * jnp.exp2(-(batch.place + 1.0)) / (1 - 2.0**-batch.epoch)


def chosen_guide(guide: Any, options: dict[str, Any]) -> Guide:
    """The record of a guide, from its name and `options`, or of a user's own; options that are None are left out."""
    options = {name: value for name, value in options.items() if value is not None}
    if isinstance(guide, type):
        name = guide.__name__
        raise TypeError(f"svi: guide must be a name or a NumPyro guide, got the class {name}; make one: {name}(model)")
    if isinstance(guide, Guide):
        if options:
            raise ValueError(f"svi: guide is a record of its own options, so {next(iter(options))!r} must be set on it")
        return guide
    if isinstance(guide, str):
        one_of("svi: guide", guide, GUIDES)
    elif not callable(guide):
        raise TypeError(f"svi: guide must be a name or a NumPyro guide, got {type(guide).__name__}")
    takes = GUIDES[guide].takes() if isinstance(guide, str) else ()
    for option in options:
        if option not in takes:
            whose = next(name for name, other in GUIDES.items() if option in other.takes())
            called = guide if isinstance(guide, str) else type(guide).__name__
            raise ValueError(f"svi: {option} is an option of guide={whose!r}, not of {called!r}")
    return GUIDES[guide](**options) if isinstance(guide, str) else Foreign(guide=guide)
