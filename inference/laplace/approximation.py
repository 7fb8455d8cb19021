r"""Laplace's approximation: a normal around the mode, with the curvature there as its precision.

    q(u) = N(u; u*, P^-1),    u* = argmax log density,    P = G / T + H

in unconstrained coordinates u, over all of them ("full"), over each alone ("diagonal"), or over those of a network's
last layer and its noise ("last_layer", the others stay at u*). G is the Gauss-Newton matrix of the log-likelihood and H
the Hessian of minus the log prior and log-Jacobian, see `inference.laplace.gauss_newton`; under `tempering="posterior"`
T divides the prior's part of H as well. On a linear model with known noise q is the posterior.

u* is where the optimiser and then Newton's steps have ended, see `inference.laplace.mode`; with "diagonal" Newton makes
no steps, because a diagonal P is not the curvature along their way.

Predictions are linearised, f(x, u*) + J (u - u*), because Gauss-Newton is the curvature of that model: its posterior is
q, while weights drawn from q and put into the network itself, as with `linearised=False`, underfit (Immer et al. 2021).

With `hyperparameters="evidence"` the scale of the prior, and of the noise where it is inferred, are chosen by the
evidence, see `inference.laplace.evidence`. With "given" the mode of a flexible network with inferred noise overfits: it
takes the noise below what is left when the weights' own uncertainty is counted. So "evidence" is the default there.

The log evidence, log density(u*) + D/2 log(2 pi) - 1/2 log det P, is the network's only with the full structure. With
"diagonal" it takes each weight's volume as if all others were known, and is highest for a network that has none to
speak of. With "last_layer" it is the evidence of a linear model of fixed features.

Each draw takes one evaluation of the log density over all rows, `lp`, by which importance checks judge q.

Reference: Immer et al. 2021, https://arxiv.org/abs/2008.08400.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from numpyro.distributions import Laplace as DoubleExponential

from inference.host.machine import available_memory
from inference.laplace.ascent import Ascent
from inference.laplace.evidence import has_scales, scaled_by_evidence
from inference.laplace.gauss_newton import residuals
from inference.laplace.mode import Mode, Modes, Surface
from inference.methods import Emission
from inference.optimisation.optimiser import Optimisation, OptimisationState
from inference.target.density import Data, Position, Target, latent_sites
from models import Network
from models.distributions import single
from models.validation import one_of, positive_integer

__all__ = ["Laplace"]

_STRUCTURES = ("full", "diagonal", "last_layer")
_WAYS = ("given", "evidence")
_COPIES = 3  # of a full matrix: the curvature, its factor, and one to work on; of the draws: one is being moved
_FAR = 0.5  # largest decrement, in standard deviations: predictions would be off by as much of their own


@dataclass(frozen=True, kw_only=True)
class Laplace(Optimisation):
    """A normal around the mode of the posterior in unconstrained coordinates.

    Defaults: 3,000 steps of the full batch to the mode, the full curvature, then 1,000 draws.

    Attributes:
        structure: the structure of the precision: "full", "diagonal", or "last_layer", full over the last layer of a
            network and its noise.
        draws: how many draws are taken from the normal.
        linearised: whether to predict with the network linearised at the mode; None is True for networks and False for
            any other model, which can't be linearised.
        hyperparameters: "given" by the model, or chosen by the "evidence", which never ends below the evidence of the
            given ones: the standard deviations of the normal priors of the weights in `structure` are multiplied by one
            factor, `posterior.guide["prior_scale_factor"]`, and inferred noise is corrected for the weights that were
            fitted. For structure="full": with the others, the evidence is not the network's. None is "evidence" for the
            full structure of a network with inferred noise and normal priors around 0, at temperature 1 and without
            `patience`; else "given".
    """

    name: ClassVar[str] = "laplace"
    kind: ClassVar[str] = "guide"
    side_by_side: ClassVar[bool] = False

    structure: str = "full"
    draws: int = 1000
    linearised: bool | None = None
    hyperparameters: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("laplace: structure", self.structure, _STRUCTURES)
        positive_integer("laplace: draws", self.draws)
        if self.hyperparameters is not None:
            one_of("laplace: hyperparameters", self.hyperparameters, _WAYS)
        if not isinstance(self.linearised, bool | None):
            raise TypeError(f"laplace: linearised must be True, False or None, got {self.linearised!r}")
        if self.patience is not None and self.hyperparameters == "evidence":
            raise ValueError(
                f'laplace: patience={self.patience} would stop before hyperparameters="evidence" has made its updates, '
                "which are spread over all steps; leave patience out, or take fewer steps"
            )

    @property
    def _exact(self) -> bool:
        return self.batch_size is None

    @property
    def _evaluations(self) -> int:
        return 2 if self.hyperparameters == "evidence" else 1

    def fixed(self) -> Laplace:
        """This method, with the hyperparameters as given if they are left open."""
        return replace(self, hyperparameters="given") if self.hyperparameters is None else self

    def objective(self) -> Ascent:
        """The ascent to the mode, on which the evidence may choose scales."""
        return Ascent(self.structure if self.hyperparameters == "evidence" else None, self.steps)

    def suited(self, target: Target, data: Data) -> Laplace:
        """This method, with hyperparameters that suit the model if they are left open."""
        super().suited(target, data)
        suits = self.structure == "full" and self.patience is None and data.temperature == 1
        way = self.hyperparameters or ("evidence" if suits and has_scales(target, data) else "given")
        chosen = replace(self, hyperparameters=way)
        chosen._check(target, data)
        return chosen

    def _check(self, target: Target, data: Data) -> None:
        """Require that the matrix fits into memory, and that the observations' Fisher information is known."""
        network = isinstance(target.model, Network)
        if not network and (self.structure == "last_layer" or self.linearised):
            option = 'structure="last_layer"' if self.structure == "last_layer" else "linearised=True"
            raise ValueError(f"laplace: {option} needs a network of models; leave it out for your own NumPyro model")
        position = target.position(data)
        jax.eval_shape(lambda position: residuals(target, position, data), position)
        self._check_size(target, data, position)
        chosen, _ = self._surface(target, data).parts(position)
        if self.hyperparameters == "evidence":
            if data.temperature != 1:
                raise ValueError(
                    'laplace: hyperparameters="evidence" needs temperature=1: a tempered posterior has no evidence'
                )
            scaled_by_evidence(target, data, chosen)
        if network:
            self._check_kinks(target, data, chosen)

    def notes(self, target: Target, data: Data) -> tuple[str, ...]:
        """The note that the evidence is not the network's, where it chooses and the structure is not full."""
        if self.hyperparameters != "evidence" or self.structure == "full":
            return super().notes(target, data)
        why = (
            "takes each weight's volume as if all others were known, and prefers a prior that leaves none to speak of"
            if self.structure == "diagonal"
            else "is that of the last layer alone, with the features as they are"
        )
        return (
            *super().notes(target, data),
            f'laplace: the evidence with structure="{self.structure}" {why}; compare the predictions with those of '
            'hyperparameters="given", or use structure="full"',
        )

    def conclude(
        self, target: Target, data: Data, state: OptimisationState, key: jax.Array
    ) -> tuple[Emission, OptimisationState]:
        """Independent draws, with both log densities, the log evidence (NaN if tempered) and Newton's decrement."""
        surface, mode = self._surface(target, data), self._mode(target, data, state.parameters)
        chosen, rest = surface.parts(mode.position)
        flat, unravel = ravel_pytree(chosen)
        evidence, factor = surface.log_evidence(mode)
        with jax.enable_x64(True):
            log_volume = 0.5 * flat.size * math.log(2 * math.pi) - factor.half_log_determinant
            log_volume, evidence = log_volume.astype(flat.dtype), evidence.astype(flat.dtype)
        decrement = jnp.linalg.norm(factor.whitened(surface.gradient(mode)))

        def one(key: jax.Array) -> Emission:
            noise = jax.random.normal(key, flat.shape, flat.dtype)
            position = unravel(flat + factor.spread(noise)) | rest
            change = surface.change(mode._replace(position=position), noise=False)
            statistics = {
                "lp": target.log_density(position, data) + change,
                "log_evidence": jnp.where(data.temperature == 1, evidence, jnp.nan),
                "newton_decrement": decrement,
            }
            if not rest:
                statistics["guide_log_density"] = -log_volume - 0.5 * jnp.sum(jnp.square(noise))
            return target.constrain(position, data), statistics

        return lax.map(one, jax.random.split(key, self.draws)), state._replace(parameters=mode)

    def _mode(self, target: Target, data: Data, parameters: Mode | Modes) -> Mode:
        """The end of Newton's steps from where the optimiser ended; of two modes, the one with the higher evidence."""
        surface = self._surface(target, data)
        if self.structure == "diagonal":
            return parameters.found if isinstance(parameters, Modes) else parameters
        return surface.best(parameters) if isinstance(parameters, Modes) else surface.climbed(parameters)

    def fitted(self, state: OptimisationState) -> dict[str, np.ndarray]:
        """The mode and, if the evidence has chosen it, the factor of the prior's standard deviations."""
        mode = jax.device_get(state.parameters)
        found = {f"{name}.mean": np.asarray(value) for name, value in mode.position.items()}
        factor = {"prior_scale_factor": np.exp(-0.5 * mode.scales.log_factor)}
        return found | (factor if self.hyperparameters == "evidence" else {})

    def concerns(
        self, target: Target, data: Data, statistics: dict[str, np.ndarray], chains: Sequence[int]
    ) -> tuple[str, ...]:
        """The concern that the mode was not reached.

        Raises:
            FloatingPointError: if the precision is not positive definite.
        """
        decrement = float(statistics["newton_decrement"].max())
        if not math.isfinite(decrement):
            raise FloatingPointError(
                f'laplace: the curvature at the mode is not positive definite with structure="{self.structure}": some '
                "weights, or combinations of them, are determined neither by the data nor by the prior; use a normal "
                "prior of about the size of the weights, a smaller network, or more steps"
            )
        if decrement <= _FAR:
            return ()
        away = f"laplace: the normal is {decrement:.2g} standard deviations from the mode, which was not reached"
        if getattr(getattr(target.model, "architecture", None), "activation", None) == "relu":
            return (
                f"{away}: with activation='relu' the density has kinks, and a mode that sits on one has no normal "
                "around it, however many steps are taken; use activation='tanh' or 'silu'",
            )
        return (f"{away}; take more steps or a larger learning_rate, or standardise the data",)

    def _surface(self, target: Target, data: Data) -> Surface:
        return Surface(target, data, self.structure, self.hyperparameters == "evidence")

    def _check_kinks(self, target: Target, data: Data, chosen: Position) -> None:
        """Refuse double exponential priors, which take a unit's weights to 0, where nothing bends its other weights."""
        assert isinstance(target.model, Network)
        if len({site.layer for site in target.model.sites(data.arrays[0])}) == 1:
            return
        sites = latent_sites(target.trace(jax.random.key(0), data, "random"))
        for name in chosen:
            if isinstance(single(sites[name]["fn"]), DoubleExponential):
                raise ValueError(
                    f"laplace: '{name}' has a double exponential prior, which has no curvature: where the mode does "
                    "without a unit, nothing determines its other weights, and there is no normal around it; use "
                    'prior=models.Normal(...), or method="svi"'
                )

    def _check_size(self, target: Target, data: Data, position: Position) -> None:
        memory = available_memory()
        chosen, _ = self._surface(target, data).parts(position)
        weights, every = (sum(math.prod(value.shape) for value in part.values()) for part in (chosen, position))
        size = 8 * weights**2
        if self.structure != "diagonal" and _COPIES * size > memory / 2:
            smaller = 'structure="diagonal"' if self.structure == "last_layer" else '"last_layer" or "diagonal"'
            raise ValueError(
                f'laplace: structure="{self.structure}" over {weights:,} weights is a matrix of {size / 1e9:,.1f} GB, '
                f"of which {_COPIES} are needed; this machine has {memory / 1e9:,.1f} GB in all; use {smaller}"
            )
        size = self.draws * every * next(iter(position.values())).dtype.itemsize
        if _COPIES * size > memory / 2:
            raise ValueError(
                f"laplace: {self.draws:,} draws of {every:,} weights are {size / 1e9:,.1f} GB, of which {_COPIES} "
                f"copies are needed; this machine has {memory / 1e9:,.1f} GB in all; take fewer draws"
            )
