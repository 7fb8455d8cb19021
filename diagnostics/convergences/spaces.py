r"""The spaces in which chains are judged: the weights, the weights without the network's symmetries, the functions.

A network may have more weights than can be measured one by one. All of them are then screened by the plain R-hat of
the halves of the chains, with n draws each, W the mean of their variances and B / n the variance of their means,

    sqrt(((n - 1) W / n + B / n) / W),

and the weights that are measured are the worst by this number, and others spread evenly over the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from data.rows import spaced
from diagnostics.convergences.symmetries import Alignment
from inference import Posterior, mixing
from inference.results.function_space import function_draws
from models import Network

__all__ = ["Mixing", "aligned_mixing", "function_mixing", "weight_mixing"]

_SPREAD, _WORST = 1000, 100  # how many weights are measured where there are more: evenly spread ones, and the worst
_BLOCK = 2**23  # values that are screened at once


@dataclass(frozen=True, eq=False)
class Mixing:
    """How well chains mix in one space: what ArviZ says of each quantity, computed when it is asked for.

    Attributes:
        draws: the draws of the quantities that are measured, (chain, draw, quantity).
        names: the names of these quantities.
        total: the number of all quantities in the space; of a large space only a part is measured.
    """

    draws: Float[np.ndarray, "chain draw k"]
    names: tuple[str, ...]
    total: int

    @cached_property
    def rhat(self) -> Float[np.ndarray, " k"]:
        """Rank-normalised split R-hat of each quantity; nan where there is one chain."""
        return mixing.rhat(self.draws) if len(self.draws) > 1 else np.full(self.draws.shape[2], np.nan)

    @cached_property
    def ess_bulk(self) -> Float[np.ndarray, " k"]:
        """Bulk effective sample size of each quantity."""
        return mixing.ess(self.draws, "bulk")

    @cached_property
    def ess_tail(self) -> Float[np.ndarray, " k"]:
        """Tail effective sample size of each quantity."""
        return mixing.ess(self.draws, "tail")

    @cached_property
    def mcse(self) -> Float[np.ndarray, " k"]:
        """Monte Carlo standard error of each quantity's mean."""
        return mixing.mcse(self.draws)

    @cached_property
    def chainwise_rhat(self) -> Float[np.ndarray, "chain k"]:
        """R-hat of each chain's halves against each other: is the chain at rest, whatever mode it sits in?"""
        return mixing.chainwise_rhat(self.draws)

    @property
    def judged_rhat(self) -> Float[np.ndarray, " k"]:
        """The R-hat of each quantity; where there is only one chain, the R-hat of its halves."""
        return self.chainwise_rhat[0] if len(self.draws) == 1 else self.rhat

    def apart(self, rhat: float) -> Bool[np.ndarray, " k"]:
        """The quantities about which the chains disagree: R-hat above the threshold and above what chance explains."""
        return mixing.apart(self.draws, rhat, self.total)

    @property
    def worst_rhat(self) -> float:
        """The largest R-hat of all quantities."""
        return float(self.judged_rhat.max())

    @property
    def least_ess(self) -> float:
        """The smallest ESS of all quantities, bulk or tail."""
        return float(min(self.ess_bulk.min(), self.ess_tail.min()))

    def by_site(self) -> dict[str, dict[str, float]]:
        """For each site the worst of its quantities: R-hat, ESS, and the Monte Carlo error over the spread."""
        sites = [name.partition("[")[0] for name in self.names]
        spread = np.maximum(self.draws.std(axis=(0, 1)), np.finfo(np.float64).tiny)
        return {
            site: {
                "rhat": float(self.judged_rhat[of].max()),
                "ess_bulk": float(self.ess_bulk[of].min()),
                "ess_tail": float(self.ess_tail[of].min()),
                "mcse_over_std": float((self.mcse / spread)[of].max()),
            }
            for site in dict.fromkeys(sites)
            for of in [np.array([each == site for each in sites])]
        }

    def failures(self, space: str, rhat: float, ess: float) -> list[str]:
        """What misses the thresholds `rhat` and `ess`, in words."""
        least = self.least_ess
        measured = len(self.names)
        of = "quantities" if measured == self.total else f"{measured:,} measured of {self.total:,} quantities"
        found = []
        apart = self.apart(rhat)
        if apart.any():
            place = int(np.where(apart, self.judged_rhat, 0.0).argmax())
            found.append(
                f"R-hat in {space}: {self.judged_rhat[place]:.3g} at {self.names[place]}, above {rhat} and above "
                f"chance, as for {apart.mean():.0%} of the {of}"
            )
        if not least >= ess:
            where = self.names[int(np.minimum(self.ess_bulk, self.ess_tail).argmin())]
            found.append(f"ESS in {space}: least {least:.0f} at {where}, below {ess:g}")
        return found


def function_mixing(posterior: Posterior, x: Any = None) -> Mixing | None:
    """Mixing in function space, at `x` or at the posterior's own probes; None for a model that is not a network."""
    if not isinstance(posterior.model, Network):
        return None
    draws = np.asarray(function_draws(posterior, x), np.float64)
    likelihood: Any = posterior.model.likelihood
    each = likelihood.functions(np.ones((1, likelihood.heads))).shape[-1]
    inferred = likelihood.classes is None and getattr(likelihood, "scale", 1.0) is None
    noise = likelihood.outputs if inferred else 0
    points = (draws.shape[2] - noise) // each
    names = [f"f(x_{i // each})" if each == 1 else f"f(x_{i // each})[{i % each}]" for i in range(points * each)]
    names += [f"noise[{i}]" for i in range(noise)] if noise > 1 else ["noise"] * noise
    return Mixing(draws, tuple(names), draws.shape[2])


def weight_mixing(posterior: Posterior) -> Mixing | None:
    """Mixing in weight space; None if no weights were kept."""
    chosen, total = _chosen(posterior)
    return _mixing(posterior, chosen, total, None)


def aligned_mixing(posterior: Posterior) -> Mixing | None:
    """Mixing in weight space once units have the same order, and sign, in all draws; None if that is not possible."""
    alignment = Alignment.of(posterior)
    if alignment is None:
        return None
    chosen, total = _chosen(posterior)
    return _mixing(posterior, chosen, total, alignment)


def _mixing(
    posterior: Posterior, chosen: dict[str, Int[np.ndarray, " k"]], total: int, alignment: Alignment | None
) -> Mixing | None:
    if not total:
        return None
    columns, names = [], []
    for name, indices in chosen.items():
        values = posterior.draws[name]
        shape = values.shape[2:]
        if alignment is not None and name in alignment:
            columns.append(alignment.gather(name, values, indices))
        else:
            rows = slice(None) if alignment is None else alignment.draws
            columns.append(values.reshape(*posterior.shape, -1)[:, rows][..., indices])
        places = zip(*np.unravel_index(indices, shape), strict=True) if shape else [()] * len(indices)
        names += [f"{name}[{', '.join(map(str, place))}]" if shape else name for place in places]
    return Mixing(np.concatenate(columns, axis=-1).astype(np.float64), tuple(names), total)


def _chosen(posterior: Posterior) -> tuple[dict[str, Int[np.ndarray, " k"]], int]:
    """Which entries of each latent site are measured, and how many entries there are in all.

    Entries that are the same in every draw of every chain while others of their site move, such as the zeros of a
    triangular matrix, are part of the site's form and don't count. A site that stands still as a whole does count.
    """
    candidates, screening = {}, []
    for name, values in posterior.draws.items():
        if name in posterior.deterministic:
            continue
        blocks = [_screen(block) for block in _blocks(values.reshape(*posterior.shape, -1))]
        moves, plain_rhat = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        candidates[name] = np.flatnonzero(moves) if moves.any() else np.arange(len(moves))
        screening.append(plain_rhat[candidates[name]])
    total = sum(map(len, candidates.values()))
    if not total:
        return {}, 0
    keep = np.ones(total, bool)
    if total > _SPREAD + _WORST:
        keep[:] = False
        keep[spaced(total, _SPREAD)] = True
        keep[np.argsort(-np.concatenate(screening), kind="stable")[:_WORST]] = True
    ends = np.cumsum([len(indices) for indices in candidates.values()])[:-1]
    parts = zip(candidates.items(), np.split(keep, ends), strict=True)
    return {name: indices[kept] for (name, indices), kept in parts}, total


def _blocks(flat: np.ndarray) -> Iterator[np.ndarray]:
    size = max(1, _BLOCK // (flat.shape[0] * flat.shape[1]))
    return (flat[..., first : first + size] for first in range(0, flat.shape[2], size))


def _screen(block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each quantity moves, and its plain R-hat over the halves of chains, infinite where it is degenerate."""
    moves = (block != block[:1, :1]).any(axis=(0, 1))
    half = block.shape[1] // 2
    halves = [part for chain in block for part in (chain[:half], chain[-half:])]
    means = np.stack([part.mean(axis=0, dtype=np.float64) for part in halves])
    within = np.mean([part.var(axis=0, ddof=1, dtype=np.float64) for part in halves], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        plain = np.sqrt((half - 1) / half + means.var(axis=0, ddof=1) / within)
    return moves, np.where(np.isfinite(plain), plain, np.inf)
