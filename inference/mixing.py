r"""R-hat, ESS and Monte Carlo error of arrays of draws, computed by ArviZ.

ArviZ gives four identical frozen chains an R-hat of nan and the ESS of independent draws, and lets one NaN through.
Here a quantity that stands still in a chain, is the same in two chains, or is not finite, has ESS 0 and an infinite
R-hat and Monte Carlo error, so that no threshold can certify it.

**What R-hat is by chance.** Let m half-chains be stationary, with S effective draws in all. The variance of their means
is the quantity's variance times m / S, and its estimate follows chi-squared with m - 1 degrees of freedom, so that

    R-hat^2 = 1 + (m / S) chi^2 / (m - 1)        up to 1 / (draws of a half-chain)

So four perfect chains with S = 400 have a mean R-hat of 1.01, and the worst of 450 quantities reaches 1.03. A fixed
threshold fails them merely because there are many quantities. `apart` therefore asks whether R-hat is also above the
quantile which the worst of all quantities exceeds in 5 % of such cases (Bonferroni over quantities and over the two
kinds of R-hat, of the values and of their distance to the median). S is measured within the chains, because chains that
disagree would lower an S that is measured across them, and so excuse themselves.

Reference: Vehtari et al. 2021, 10.1214/20-BA1221.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float, Shaped
from scipy.special import chdtri

from inference.host import arviz

__all__ = ["LEAST_ESS", "apart", "chainwise_rhat", "ess", "mcse", "rhat", "worst_rhat"]

LEAST_ESS = 50
"""Effective draws below which R-hat has no say: in chains that short, chance explains any value of it."""

_LEAST = 4  # draws per chain for which R-hat is defined
_FALSE_ALARMS = 0.05  # how often the worst R-hat of stationary chains may be called too large
_RARELY = 0.01  # share of the steps from draw to draw: a chain that moves in no more of them stands still


def rhat(draws: Shaped[np.ndarray, "chain draw k"]) -> Float[np.ndarray, " k"]:
    """Rank-normalised split R-hat (Vehtari et al. 2021) of each quantity; infinite where it is degenerate.

    Needs two chains: with one, use `chainwise_rhat`.
    """
    return _where_sound(draws, arviz.rhat, np.inf)


def chainwise_rhat(draws: Shaped[np.ndarray, "chain draw k"]) -> Float[np.ndarray, "chain k"]:
    """R-hat of the two halves of each chain on its own: has it come to rest, in whatever mode it sits?

    Infinite where a half has fewer than the 4 draws for which R-hat is defined.
    """
    half = draws.shape[1] // 2
    if half < _LEAST:
        return np.full((len(draws), draws.shape[2]), np.inf)
    return np.stack([rhat(np.stack([chain[:half], chain[-half:]])) for chain in draws])


def apart(
    draws: Shaped[np.ndarray, "chain draw k"], threshold: float, quantities: int | None = None
) -> Bool[np.ndarray, " k"]:
    """Whether the chains disagree about each quantity: R-hat above the threshold, and above what chance explains.

    Args:
        draws: the draws of each quantity; a single chain is cut into two halves, which are compared.
        threshold: R-hat up to this is never called too large.
        quantities: how many quantities the worst was sought among; None takes the number in `draws`.
    """
    chains = np.asarray(draws, np.float64)
    if len(chains) == 1:
        half = chains.shape[1] // 2
        chains = np.stack([chains[0, :half], chains[0, -half:]])
    if chains.shape[1] < _LEAST:
        return np.ones(chains.shape[2], bool)
    halves = 2 * len(chains)  # ArviZ splits each chain
    level = _FALSE_ALARMS / (2 * (quantities or chains.shape[2]))
    chance = chdtri(halves - 1, level) / (halves - 1)
    found = np.zeros(chains.shape[2], bool)
    distance = np.abs(chains - np.median(chains, axis=(0, 1)))
    for kind, values in (("z_scale", chains), ("folded", distance)):
        ratio = _where_sound(chains, partial(arviz.rhat, kind=kind), np.inf)
        within = sum(ess(chain[None]) for chain in values)
        with np.errstate(divide="ignore"):
            allowed = np.where(within > 0, np.sqrt(1 + halves / within * chance), 1.0)
        found |= ~(ratio <= np.maximum(threshold, allowed))
    return found


def worst_rhat(draws: Shaped[np.ndarray, "chain draw k"]) -> float:
    """The largest R-hat of all quantities; with a single chain, R-hat compares its two halves."""
    return float((rhat(draws) if len(draws) > 1 else chainwise_rhat(draws)).max())


def ess(draws: Shaped[np.ndarray, "chain draw k"], method: str = "bulk") -> Float[np.ndarray, " k"]:
    """Effective sample size of each quantity, "bulk", "tail" or "mean"; 0 where it is degenerate."""
    return _where_sound(draws, partial(arviz.ess, kind=method), 0.0)


def mcse(draws: Shaped[np.ndarray, "chain draw k"]) -> Float[np.ndarray, " k"]:
    """Monte Carlo standard error of the mean of each quantity; infinite where it is degenerate."""
    return _where_sound(draws, arviz.mcse, np.inf)


def _sound(draws: np.ndarray) -> Bool[np.ndarray, " k"]:
    """Whether, for each quantity, every chain moves now and then, no two chains are the same, and all is finite."""
    moves = (draws[:, 1:] != draws[:, :-1]).mean(axis=1) if draws.shape[1] > 1 else np.zeros(draws.shape[::2])
    apart = np.ones(draws.shape[2], bool)
    for first, second in combinations(draws, 2):
        apart &= (first != second).any(axis=0)
    return (moves > _RARELY).all(axis=0) & apart & np.isfinite(draws).all(axis=(0, 1))


def _where_sound(draws: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray], otherwise: float) -> np.ndarray:
    draws = np.asarray(draws, np.float64)
    result = np.full(draws.shape[2], otherwise)
    sound = _sound(draws)
    if sound.any():
        result[sound] = statistic(draws[:, :, sound])
    return np.where(np.isnan(result), otherwise, result)
