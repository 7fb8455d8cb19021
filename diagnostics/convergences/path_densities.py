r"""The log density along straight paths between draws: is there a barrier between two chains, or within one?

Between the unconstrained positions a and b of two draws, with f the log density that the method draws from,

    f(t) = log density(a + t (b - a)),    chord(t) = f(0) + t (f(1) - f(0)),    barrier = max over t of chord(t) - f(t)

in nats, computed in float64; 0 if the path is nowhere below its chord. Where the log density is quadratic, with the
precision matrix L, the path is a parabola that bulges above its chord, f(t) - chord(t) = t (1 - t) d'L d / 2 with
d = b - a: independent draws of a normal in k dimensions have E d'L d = 2k, so that the middle is k / 4 above. Two draws
on different sides of a barrier have a valley between them instead. A barrier along the straight line does not rule out
a way around it, and where units of a network have traded places, the same function is at the other side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import jax
import numpy as np
from jax import lax
from jaxtyping import Float

from inference import Posterior
from inference.display.cards import card
from inference.display.tables import Table
from inference.host.compiling import tracing
from inference.target.binding import bind
from inference.target.density import Data, Target
from inference.target.unstable import unconstrained
from models.validation import positive_integer

__all__ = ["Paths", "straight_paths"]

_FEWEST_POINTS = 3  # a path has a middle


@dataclass(frozen=True, eq=False, repr=False)
class Paths:
    """The log density along straight paths between pairs of draws; `str()` of it says how high the barriers are.

    Attributes:
        shares: how far along its path a point is, from 0 to 1.
        within: the log density along paths between two draws of one chain, (path, point); no paths if every chain has
            one draw.
        between: the same between draws of two chains; no paths if there is one chain.
    """

    shares: Float[np.ndarray, " point"]
    within: Float[np.ndarray, "path point"]
    between: Float[np.ndarray, "other_path point"]

    @property
    def barriers_within(self) -> Float[np.ndarray, " path"]:
        """How far each path within one chain falls below its chord, in nats."""
        return np.abs(self.above_chord("within").min(axis=1))

    @property
    def barriers_between(self) -> Float[np.ndarray, " other_path"]:
        """How far each path between two chains falls below its chord, in nats."""
        return np.abs(self.above_chord("between").min(axis=1))

    def above_chord(self, kind: str) -> Float[np.ndarray, "path point"]:
        """The log density minus the straight line between its two ends, for the paths "within" or "between" chains."""
        paths = {"within": self.within, "between": self.between}[kind]
        first, last = paths[:, :1], paths[:, -1:]
        above = paths - (first + self.shares * (last - first))
        above[:, [0, -1]] = 0.0  # exactly, whatever rounding left
        return above

    def table(self) -> Table:
        """A row for each kind of path, as text."""
        head = ("path", "number", "median barrier", "largest barrier", "median height of the middle")
        rows = [
            (f"{kind} chains" if kind == "between" else f"{kind} a chain", f"{len(barriers)}",
             f"{np.median(barriers):,.1f}", f"{barriers.max():,.1f}",
             f"{np.median(self.above_chord(kind)[:, len(self.shares) // 2]):+,.1f}")
            for kind, barriers in (("within", self.barriers_within), ("between", self.barriers_between))
            if len(barriers)
        ]  # fmt: skip
        return Table("log density along straight paths between draws, in nats", head, rows)

    def __str__(self) -> str:
        return str(self.table())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        note = "A barrier is how far a path falls below the straight line between the log densities of its two ends."
        return card("Straight paths between draws", self.table(), note=note)


def straight_paths(posterior: Posterior, *args: Any, pairs: int = 10, points: int = 41) -> Paths:
    """The log density along straight paths between draws of one chain, and between draws of two.

    The two draws of a path within a chain are half a chain apart, so that they are as independent as the chain allows.

    Args:
        posterior: chains, the members of an ensemble, or a guide, with all sites of the draws kept.
        args: the data that the posterior was given, as `inference.run` took them: `x, y`, or a `Split`.
        pairs: how many paths of each kind.
        points: how many points each path has, its two ends included.

    Raises:
        ValueError: if there are not two draws, some of their sites were not kept, or the data are others.
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(f"straight_paths needs a posterior, got {type(posterior).__name__}")
    positive_integer("pairs", pairs)
    positive_integer("points", points, least=_FEWEST_POINTS)
    if not posterior.complete:
        raise ValueError('straight_paths needs all sites of the draws; run with keep="all"')
    chains, draws = posterior.shape
    if chains * draws < 2:
        raise ValueError(f"a path is between two draws, and {posterior.method.name} gave one; run several chains")
    shares = np.linspace(0.0, 1.0, points)
    with tracing(posterior.method.precision):
        bound = bind(posterior.model, args, posterior.temperature, posterior.tempering)
        for name, values in posterior.observed.items():
            if name not in bound.observed or not np.array_equal(values, bound.observed[name]):
                raise ValueError(f"the data are not those that the posterior was given: '{name}' differs")
        found = [
            _along_all(bound.target, bound.data, _latent(posterior), ends, shares)
            for ends in (_within(chains, draws, pairs), _between(chains, draws, pairs))
        ]
    return Paths(shares, *found)


def _within(chains: int, draws: int, pairs: int) -> np.ndarray:
    """The ends of paths within a chain, (path, 2), as numbers of draws counted through all chains."""
    if draws < 2:
        return np.zeros((0, 2), int)
    half = draws // 2
    paths = np.arange(min(pairs, chains * (draws - half)))
    chain, turn = paths % chains, paths // chains
    first = turn * (draws - half) // -(-len(paths) // chains)
    return np.stack([chain * draws + first, chain * draws + first + half], axis=1)


def _between(chains: int, draws: int, pairs: int) -> np.ndarray:
    """The ends of paths between chains, (path, 2), as numbers of draws counted through all chains."""
    if chains < 2:
        return np.zeros((0, 2), int)
    both = np.array(list(combinations(range(chains), 2)))
    paths = np.arange(min(pairs, len(both) * draws))
    turns = -(-len(paths) // len(both))
    draw = paths // len(both) * draws // turns
    return both[paths % len(both)] * draws + draw[:, None]


def _latent(posterior: Posterior) -> dict[str, np.ndarray]:
    """The latent sites with all chains one after the other."""
    return {
        name: values.reshape(-1, *values.shape[2:])
        for name, values in posterior.draws.items()
        if name not in posterior.deterministic
    }


def _along_all(
    target: Target, data: Data, sites: dict[str, np.ndarray], ends: np.ndarray, shares: np.ndarray
) -> np.ndarray:
    """The log density along the paths between `ends`, (path, point)."""
    if not len(ends):
        return np.zeros((0, len(shares)))
    first, last = ({name: values[ends[:, i]] for name, values in sites.items()} for i in (0, 1))
    kind = next(iter(sites.values())).dtype
    return np.asarray(_log_densities(target, data, first, last, shares.astype(kind)), np.float64)


@partial(jax.jit, static_argnames=("target",))
def _log_densities(target: Target, data: Data, first: Any, last: Any, shares: jax.Array) -> jax.Array:
    def path(ends: tuple[Any, Any]) -> jax.Array:
        a, b = (unconstrained(target.model, target.arguments.fill(data.arrays), sites) for sites in ends)
        return lax.map(
            lambda t: target.exact_log_density(jax.tree.map(lambda u, v: u + t * (v - u), a, b), data), shares
        )

    return lax.map(path, (first, last))
