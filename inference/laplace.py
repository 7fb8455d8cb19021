r"""Laplace's approximation: a normal around the mode, with the curvature there as its precision.

    q(u) = N(u; u*, P^-1),    u* = argmax log density,    P = G / T + H

in unconstrained coordinates u, over all of them ("full"), each alone ("diagonal"), or those of a network's last layer
and its noise ("last_layer", the others stay at u*). G is the Gauss-Newton matrix of the log-likelihood and H the
Hessian of minus the log prior and log-Jacobian, see `inference.curvature`; under `tempering="posterior"` T divides the
prior's part of H as well. On a linear model with known noise q is the posterior.

Predictions are linearised, f(x, u*) + J (u - u*), because Gauss-Newton is the curvature of that model: its posterior is
q, while weights drawn from q and put into the network itself underfit (Immer et al. 2021). `linearised=False` does so.

With `hyperparameters="evidence"` the scale of the prior, and of the noise where it is inferred, are chosen by the
evidence, see `inference.evidence`. Without it the mode of a flexible network with inferred noise overfits: it takes the
noise below what is left when the weights' own uncertainty is counted.

Reference: Immer et al. 2021, https://arxiv.org/abs/2008.08400.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from inference.curvature import gauss_newton, prior_curvature, residuals
from inference.evidence import Scales, prior_scales_of
from inference.methods import Emission, Step
from inference.optimisation import Minibatch, Optimisation, OptimisationState
from inference.target import Data, Position, Target
from models import Network
from models.validation import one_of, positive_integer

__all__ = ["Laplace"]

_STRUCTURES = ("full", "diagonal", "last_layer")
_WAYS = ("given", "evidence")
# By the evidence: how often, and between which shares of the steps. Early, because a network that has taken the noise
# to where all its weights seem determined stays there.
_UPDATES, _FIRST, _LAST = 44, 0.02, 0.9
_COPIES = 3  # of a full matrix: the curvature, its factor, and one to work on


class Mode(NamedTuple):
    """What is optimised.

    Attributes:
        position: u.
        scales: what the evidence says about prior and noise, which no gradient changes.
    """

    position: Position
    scales: Scales


@dataclass(frozen=True, kw_only=True)
class Laplace(Optimisation):
    """A normal around the mode of the posterior in unconstrained coordinates.

    Defaults: 3,000 steps of the full batch to the mode, the full curvature, then 1,000 draws.

    Attributes:
        structure: of the precision: "full", "diagonal", or "last_layer", full over the last layer of a network and its
            noise.
        draws: taken from the normal.
        linearised: predict with the network linearised at the mode; None is True for networks and False for any other
            model, which can't be.
        hyperparameters: "given" by the model, or chosen by the "evidence": the standard deviations of the normal priors
            of the weights in `structure` are multiplied by one factor, `posterior.guide["prior_scale_factor"]`, and
            inferred noise is corrected for the weights that were fitted.
    """

    name: ClassVar[str] = "laplace"
    kind: ClassVar[str] = "guide"

    structure: str = "full"
    draws: int = 1000
    linearised: bool | None = None
    hyperparameters: str = "given"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("laplace: structure", self.structure, _STRUCTURES)
        positive_integer("laplace: draws", self.draws)
        one_of("laplace: hyperparameters", self.hyperparameters, _WAYS)
        if self.linearised not in (None, True, False):
            raise TypeError(f"laplace: linearised must be True, False or None, got {self.linearised!r}")

    @property
    def _exact(self) -> bool:
        return self.batch_size is None

    def program(self) -> Laplace:
        """What is drawn in the end does not shape the steps; the structure only if the prior follows from it."""
        structure = self.structure if self.hyperparameters == "evidence" else "diagonal"
        return replace(self, draws=1, linearised=None, structure=structure)

    def check(self, target: Target, data: Data) -> None:
        """The matrix must fit into memory, and the information of the observations must be known."""
        super().check(target, data)
        network = isinstance(target.model, Network)
        if not network and (self.structure == "last_layer" or self.linearised):
            option = 'structure="last_layer"' if self.structure == "last_layer" else "linearised=True"
            raise ValueError(f"laplace: {option} needs a network of models; leave it out for your own NumPyro model")
        position = target.position(data)
        jax.eval_shape(lambda position: residuals(target, position, data), position)
        if self.structure != "diagonal":
            self._check_size(target, data, position)
        if self.hyperparameters == "evidence":
            if data.temperature != 1:
                raise ValueError(
                    'laplace: hyperparameters="evidence" needs temperature=1: a tempered posterior has no evidence'
                )
            prior_scales_of(target, data, position)

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> Mode:
        """The start, with the prior as given."""
        return Mode(position, Scales.as_given(next(iter(position.values())).dtype))

    def objective(
        self, target: Target, data: Data, batch: Minibatch, parameters: Mode, key: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Minus the log density of the unconstrained position."""
        terms = target.estimate(parameters.position, data, batch.rows)
        loss = -target.tempered(terms, data) - terms.log_jacobian
        return loss - self._change(target, data, parameters, noise=True), {}

    def step(self, target: Target, data: Data, state: OptimisationState, limit: jax.Array) -> Step:
        """One step towards the mode and, now and then, one of the hyperparameters."""
        step = super().step(target, data, state, limit)
        if self.hyperparameters == "given":
            return step
        every = max(round((_LAST - _FIRST) * self.steps / _UPDATES), 1)
        since = step.state.iteration - round(_FIRST * self.steps)
        due = (since >= 0) & (since % every == 0) & (since < _UPDATES * every)
        mode = lax.cond(
            due, lambda mode: self._by_evidence(target, data, mode), lambda mode: mode, step.state.parameters
        )
        return step._replace(state=step.state._replace(parameters=mode))

    def conclude(self, target: Target, data: Data, state: OptimisationState, key: jax.Array) -> Emission:
        """Independent draws, with both log densities and the log evidence."""
        mode: Mode = state.parameters
        chosen, rest = self._parts(target, data, mode.position)
        flat, unravel = ravel_pytree(chosen)
        precision = self._precision(target, data, mode)
        noise = jax.random.normal(key, (self.draws, flat.size), flat.dtype)
        with jax.enable_x64(True):
            wide = noise.astype(jnp.float64)
            if precision.ndim == 1:
                away, log_root = wide / jnp.sqrt(precision), 0.5 * jnp.sum(jnp.log(precision))
            else:
                factor = jnp.linalg.cholesky(precision)
                away = jax.scipy.linalg.solve_triangular(factor, wide.T, trans=1, lower=True).T
                log_root = jnp.sum(jnp.log(jnp.diagonal(factor)))
            half = 0.5 * flat.size * math.log(2 * math.pi)
            log_density = (log_root - half - 0.5 * jnp.sum(jnp.square(wide), axis=1)).astype(flat.dtype)
            away, volume = away.astype(flat.dtype), (half - log_root).astype(flat.dtype)
        evidence = target.log_density(mode.position, data) + self._change(target, data, mode) + volume

        def one(drawn: tuple[jax.Array, jax.Array]) -> Emission:
            position = unravel(flat + drawn[0]) | rest
            change = self._change(target, data, mode._replace(position=position))
            statistics = {"lp": target.log_density(position, data) + change, "log_evidence": evidence}
            if not rest:
                statistics["guide_log_density"] = drawn[1]
            return target.constrain(position, data), statistics

        return lax.map(one, (away, log_density))

    def fitted(self, state: OptimisationState) -> dict[str, np.ndarray]:
        """The mode, and the factor of the prior's standard deviations."""
        mode = jax.device_get(state.parameters)
        found = {f"{name}.mean": np.asarray(value) for name, value in mode.position.items()}
        factor = {"prior_scale_factor": np.exp(-0.5 * mode.scales.log_factor)}
        return found | (factor if self.hyperparameters == "evidence" else {})

    def concerns(self, statistics: dict[str, np.ndarray], chains: Any) -> tuple[str, ...]:
        """A curvature that no normal has.

        Raises:
            FloatingPointError: if the precision is not positive definite.
        """
        if not np.isfinite(statistics["log_evidence"]).all():
            raise FloatingPointError(
                f'laplace: the curvature at the mode is not positive definite with structure="{self.structure}": some '
                "weights are determined neither by the data nor by the prior; use a normal prior, or more steps"
            )
        return ()

    def _precision(self, target: Target, data: Data, mode: Mode) -> jax.Array:
        """P, or its diagonal."""
        chosen, rest = self._parts(target, data, mode.position)
        flat, unravel = ravel_pytree(chosen)
        diagonal = self.structure == "diagonal"
        one_row = data.rows(slice(0, 1)) if isinstance(target.model, Network) else data

        def log_prior(flat: jax.Array) -> jax.Array:
            position = unravel(flat) | rest
            terms = target.terms(position, one_row)
            return (
                target.tempered(terms._replace(log_likelihood=jnp.zeros_like(terms.log_prior)), data)
                + terms.log_jacobian
                + self._change(target, data, mode._replace(position=position))
            )

        likelihood = gauss_newton(target, data, chosen, rest, diagonal)
        prior = prior_curvature(log_prior, flat, diagonal)
        with jax.enable_x64(True):
            return likelihood / jnp.asarray(data.temperature, jnp.float64) + prior

    def _by_evidence(self, target: Target, data: Data, mode: Mode) -> Mode:
        """The mode with the scales that the curvature there asks for."""
        chosen, _ = self._parts(target, data, mode.position)
        precision = self._precision(target, data, mode)
        return mode._replace(scales=mode.scales.updated(chosen, prior_scales_of(target, data, chosen), precision))

    def _change(self, target: Target, data: Data, mode: Mode, noise: bool = False) -> jax.Array:
        """What the evidence adds to the log density by the prior's scale and, on request, by the noise."""
        if self.hyperparameters == "given":
            return jnp.zeros(())
        chosen, _ = self._parts(target, data, mode.position)
        change = mode.scales.prior_change(chosen, prior_scales_of(target, data, chosen))
        return change + (mode.scales.noise_change(mode.position) if noise else 0.0)

    def _parts(self, target: Target, data: Data, position: Position) -> tuple[Position, Position]:
        """The sites that the normal is over, and the others."""
        if self.structure != "last_layer":
            return position, {}
        assert isinstance(target.model, Network)
        layers = [site.layer for site in target.model.sites(data.arrays[0])]
        held = [layer for layer in layers if layer != layers[-1]]
        rest = {name for name in position if any(name.startswith(f"{layer}.") for layer in held)}
        return (
            {name: value for name, value in position.items() if name not in rest},
            {name: value for name, value in position.items() if name in rest},
        )

    def _check_size(self, target: Target, data: Data, position: Position) -> None:
        chosen, _ = self._parts(target, data, position)
        weights = sum(math.prod(value.shape) for value in chosen.values())
        size, memory = 8 * weights**2, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if _COPIES * size > memory / 2:
            smaller = 'structure="diagonal"' if self.structure == "last_layer" else '"last_layer" or "diagonal"'
            raise ValueError(
                f'laplace: structure="{self.structure}" over {weights:,} weights is a matrix of {size / 1e9:,.1f} GB, '
                f"of which {_COPIES} are needed; this machine has {memory / 1e9:,.1f} GB in all; use {smaller}"
            )
