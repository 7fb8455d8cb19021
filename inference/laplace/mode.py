r"""The mode of Laplace's approximation: its log density, gradient and precision, and Newton's steps to it.

    u <- u + t P^-1 g,    g = d log density / du

over the sites that the normal is over, with the best of a few t, as long as the density rises. P is the Gauss-Newton
precision, positive definite, so that its steps lead uphill; on a linear model with known noise one step is enough.
Newton's decrement d = sqrt(g' P^-1 g) tells what is left of the way, in standard deviations of the normal.

Where the evidence chooses the prior's scale, MacKay's updates lead near a maximum of the evidence, but they hold the
curvature while the scale changes and can end below the evidence of the given prior. So a mode under the given prior is
kept as well, and the factor c is searched in one dimension, by the evidence itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

from inference.laplace.evidence import Scaled, Scales, scaled_by_evidence
from inference.laplace.gauss_newton import gauss_newton, prior_curvature, separable
from inference.laplace.precision_factor import Factor
from inference.target.density import Data, Position, Target
from inference.target.trees import choose
from models import Network

__all__ = ["Mode", "Modes", "Surface"]

_CANDIDATES, _WIDEST = 8, 2 * math.log(2.0)  # of the search; its first step in log c, twice the prior's scale
_FEW = 6  # Newton steps of a candidate: enough to tell which is best, which is then climbed to the end
_NEWTON, _GAIN = 50, 1e-4  # steps at most, and what the last of them adds to the log density, in nats
_SHARES = (0.0, 2**-10, 2**-8, 2**-6, 2**-4, 0.25, 0.5, 1.0)  # t: 0 if no step is better


class Mode(NamedTuple):
    """A point that is optimised, and the scales of prior and noise there.

    Attributes:
        position: u.
        scales: what the evidence says about prior and noise, which no gradient changes.
    """

    position: Position
    scales: Scales


class Modes(NamedTuple):
    """Two points that are optimised side by side, of which the one with the higher evidence is kept.

    Attributes:
        given: the mode with the prior and the noise's prior as given.
        found: the mode with the scales that the evidence asks for on the way.
    """

    given: Mode
    found: Mode


@dataclass(frozen=True)
class Surface:
    """The log density of a target around its mode.

    Attributes:
        target: the target whose log density it is.
        data: the target's data.
        structure: the structure of the precision, see `inference.laplace.approximation`.
        by_evidence: whether the evidence chooses the scales.
    """

    target: Target
    data: Data
    structure: str
    by_evidence: bool

    def parts(self, position: Position) -> tuple[Position, Position]:
        """The sites that the normal is over, and the others."""
        if self.structure != "last_layer":
            return position, {}
        assert isinstance(self.target.model, Network)
        last = self.target.model.last_layer(self.data.arrays[0])
        held = [site.layer for site in self.target.model.sites(self.data.arrays[0]) if site.layer != last]
        rest = {name for name in position if any(name.startswith(f"{layer}.") for layer in held)}
        return (
            {name: value for name, value in position.items() if name not in rest},
            {name: value for name, value in position.items() if name in rest},
        )

    def scaled(self, position: Position) -> Scaled | None:
        """The parts whose scale the evidence chooses; None if it chooses none."""
        return scaled_by_evidence(self.target, self.data, self.parts(position)[0]) if self.by_evidence else None

    def change(self, mode: Mode, noise: bool) -> jax.Array:
        """What the evidence adds to the log density by the prior's scale and, if `noise`, by the noise."""
        return mode.scales.change(mode.position, self.scaled(mode.position), noise)

    def gradient(self, mode: Mode) -> jax.Array:
        """g, over the sites that the normal is over."""
        chosen, rest = self.parts(mode.position)

        def log_density(chosen: Position) -> jax.Array:
            here = mode._replace(position=chosen | rest)
            return self.target.log_density(here.position, self.data) + self.change(here, noise=True)

        return ravel_pytree(jax.grad(log_density)(chosen))[0]

    def precision(self, mode: Mode) -> jax.Array:
        """P, or its diagonal."""
        target, data = self.target, self.data
        chosen, rest = self.parts(mode.position)
        flat, unravel = ravel_pytree(chosen)
        diagonal = self.structure == "diagonal"
        one_row = data.rows(slice(0, 1)) if isinstance(target.model, Network) else data

        def log_prior(flat: jax.Array) -> jax.Array:
            here = mode._replace(position=unravel(flat) | rest)
            terms = target.terms(here.position, one_row)
            return (
                target.tempered(terms._replace(log_likelihood=jnp.zeros_like(terms.log_prior)), data)
                + terms.log_jacobian
                + self.change(here, noise=False)
            )

        likelihood = gauss_newton(target, data, chosen, rest, diagonal)
        prior = prior_curvature(log_prior, flat, diagonal, separable(target, one_row, mode.position))
        with jax.enable_x64(True):
            if self.by_evidence:
                counted = mode.scales.counted(chosen, len(data.arrays[0])).astype(jnp.float64)
                likelihood *= counted if diagonal else jnp.sqrt(jnp.outer(counted, counted))
            return likelihood / jnp.asarray(data.temperature, jnp.float64) + prior

    def with_evidence(self, mode: Mode) -> Mode:
        """`mode` with the scales that its curvature asks for."""
        chosen, rest = self.parts(mode.position)
        scaled, precision = scaled_by_evidence(self.target, self.data, chosen), self.precision(mode)
        return mode._replace(scales=mode.scales.updated(self.target, self.data, chosen, rest, scaled, precision))

    def log_evidence(self, mode: Mode) -> tuple[jax.Array, Factor]:
        """log density + D/2 log(2 pi) - log det P / 2 in float64, and P in factors; NaN where P is singular."""
        size = ravel_pytree(self.parts(mode.position)[0])[0].size
        factor = Factor.of(self.precision(mode))
        scaled = self.scaled(mode.position)
        density = self.target.exact_log_density(mode.position, self.data)
        with jax.enable_x64(True):
            wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), mode)
            change = wide.scales.change(wide.position, scaled, noise=False)
            return density + change + 0.5 * size * math.log(2 * math.pi) - factor.half_log_determinant, factor

    def best(self, modes: Modes) -> Mode:
        """The mode with the highest evidence: with the given prior, with the one found, or with others near it.

        After the two modes c is searched in one dimension: each candidate climbs a little from the best mode so far,
        with c larger or smaller by a step that halves after every second one, and the last one climbs to the end. The
        given prior is the first candidate and climbs to the end too, so the evidence never ends below that prior's.
        """
        starts = jax.tree.map(lambda *leaves: jnp.stack(leaves), *modes)
        search = [_WIDEST * 0.5 ** (i // 2) * (-1) ** i for i in range(_CANDIDATES)]
        steps = np.array([0.0, 0.0, *search, 0.0])
        climbs = np.array([_NEWTON, _FEW, *[_FEW] * _CANDIDATES, _NEWTON], np.int32)

        def consider(i: jax.Array, carry: tuple[jax.Array, Mode]) -> tuple[jax.Array, Mode]:
            highest, best = carry
            start = choose(i < 2, jax.tree.map(lambda leaf: leaf[jnp.minimum(i, 1)], starts), best)
            other = self._with_factor(start, start.scales.log_factor + jnp.asarray(steps, jnp.float32)[i])
            mode = self.climbed(choose(i == 0, start, other), jnp.asarray(climbs)[i])
            evidence, _ = self.log_evidence(mode)
            with jax.enable_x64(True):
                better = evidence > highest  # never where it is not a number
                return jnp.where(better, evidence, highest), choose(better, mode, best)

        with jax.enable_x64(True):
            lowest = jnp.asarray(-jnp.inf, jnp.float64)
        return lax.fori_loop(0, len(steps), consider, (lowest, modes.found))[1]

    def _with_factor(self, mode: Mode, log_factor: jax.Array) -> Mode:
        """`mode` under the prior's factor `log_factor`, with the weights that are determined there counted."""
        mode = mode._replace(scales=mode.scales._replace(log_factor=log_factor.astype(mode.scales.log_factor.dtype)))
        return mode._replace(scales=mode.scales._replace(determined=self.with_evidence(mode).scales.determined))

    def climbed(self, mode: Mode, most: Any = _NEWTON) -> Mode:
        """Where at most `most` of Newton's steps lead from `mode`."""

        def rising(carry: tuple[jax.Array, jax.Array, Mode]) -> jax.Array:
            count, gain, _ = carry
            return (count < most) & (gain > _GAIN)

        def climb(carry: tuple[jax.Array, jax.Array, Mode]) -> tuple[jax.Array, jax.Array, Mode]:
            count, _, mode = carry
            chosen, rest = self.parts(mode.position)
            flat, unravel = ravel_pytree(chosen)
            factor = Factor.of(self.precision(mode))
            whole = factor.spread(factor.whitened(self.gradient(mode)))

            def moved(share: jax.Array) -> Mode:
                return mode._replace(position=unravel(jnp.where(share > 0, flat + share * whole, flat)) | rest)

            shares = jnp.asarray(_SHARES, flat.dtype)
            values = lax.map(lambda share: self._exact_log_density(moved(share)), shares)
            with jax.enable_x64(True):
                gains = (values - values[0]).astype(flat.dtype)
            best = jnp.argmax(jnp.where(jnp.isfinite(gains), gains, -jnp.inf))
            return count + 1, gains[best], moved(shares[best])

        begun = jnp.asarray(jnp.inf, next(iter(mode.position.values())).dtype)
        return lax.while_loop(rising, climb, (jnp.int32(0), begun, mode))[2]

    def _exact_log_density(self, mode: Mode) -> jax.Array:
        """The log density that a mode maximises, in float64."""
        log_density = self.target.exact_log_density(mode.position, self.data)
        scaled = self.scaled(mode.position)
        with jax.enable_x64(True):
            wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), mode)
            return log_density + wide.scales.change(wide.position, scaled, noise=True)
