r"""How far predictions are from those of a reference, beside how far the reference is from itself.

The reference's chains are cut into two halves A and B in every way (up to 70). Two chains can be cut in one way only,
which tells nothing about the floor's own spread, so the halves of each are counted as chains then. The noise floor is
the distance of B to A; another posterior, thinned to the size of B, is measured against the same A. So a perfect
posterior lands on the floor; against all of the reference it would seem better than the reference's own halves.

For regression the distances at each test point are Wasserstein distances between quantile functions F^-1 and G^-1,

    W_p = (int_0^1 |F^-1(u) - G^-1(u)|^p du)^(1/p),

in units of the reference's standard deviation there, averaged over points: once for draws of the function, and once for
draws with noise. For classification they are the total variation between the mean probabilities, and the agreement: how
often both give the same class the largest probability.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from data.rows import spaced
from inference import Prediction
from inference.results.prediction import Classification, Regression

__all__ = ["Distance", "agreement", "distances", "total_variation", "wasserstein"]

_CUTS = 70  # all ways to halve 8 chains; for more chains, this many of the ways
_ROWS = 1000  # test points of a regression at which quantiles are compared, evenly spaced


class Distance(NamedTuple):
    """A distance, averaged over the ways to halve the reference's chains.

    Attributes:
        mean: the mean of the distance.
        spread: its standard deviation; nan where there is only one way.
    """

    mean: float
    spread: float


def wasserstein(
    draws: Float[np.ndarray, "s ..."], others: Float[np.ndarray, "t ..."], power: int = 1
) -> Float[np.ndarray, "..."]:
    """The Wasserstein distance W_p, p = `power`, between `draws` and `others` at each point."""
    return _gap_to_distance(*_quantile_gap(draws, others), power)


def total_variation(p: Float[np.ndarray, "n classes"], q: Float[np.ndarray, "n classes"]) -> Float[np.ndarray, " n"]:
    """Half the summed absolute difference between the probabilities `p` and `q`."""
    return 0.5 * np.abs(p - q).sum(axis=-1)


def agreement(p: Float[np.ndarray, "n classes"], q: Float[np.ndarray, "n classes"]) -> Float[np.ndarray, " n"]:
    """1 where `p` and `q` give the same class the largest probability, else 0."""
    return (p.argmax(axis=-1) == q.argmax(axis=-1)).astype(np.float64)


def distances(
    reference: Prediction, predictions: Mapping[str, Prediction], sampled: Collection[str] = ()
) -> tuple[dict[str, Distance], dict[str, dict[str, Distance]], dict[str, dict[str, Distance]]]:
    """The noise floor, each prediction's distances to the reference, and the floors of predictions with their own.

    The floor is empty if the reference has one chain; the distances are then to all of its draws. A prediction named in
    `sampled` that has fewer draws than B has a floor of its own, with B thinned to as many: the distance that comes
    from having few draws alone.
    """
    labels = isinstance(reference, Classification)
    floor: dict[str, Distance] = {}
    found: dict[str, dict[str, Distance]] = {name: {} for name in predictions}
    own: dict[str, dict[str, Distance]] = {name: {} for name in predictions}
    for space in [""] if labels else ["", "_noise"]:
        anchor = _several(_draws(reference, space, 0, 1))
        unit = np.maximum(_flat(anchor).std(axis=0), np.finfo(np.float64).tiny)
        cuts = [(_flat(anchor[a]), _flat(np.delete(anchor, a, axis=0))) for a in _halves(len(anchor))]
        floor |= _average(space, [_measure(labels, b, a, unit) for a, b in cuts])
        largest = max((len(b) for _, b in cuts), default=anchor.shape[0] * anchor.shape[1])
        for name, prediction in predictions.items():
            few = prediction.outputs.shape[0] * prediction.outputs.shape[1]
            draws = _flat(_draws(prediction, space, 1, few if name in sampled else largest))
            pairs = [(a, _thin(draws, len(b))) for a, b in cuts] or [(_flat(anchor), draws)]
            found[name] |= _average(space, [_measure(labels, mine, a, unit) for a, mine in pairs])
            if name in sampled and few < largest:
                own[name] |= _average(space, [_measure(labels, _thin(b, few), a, unit) for a, b in cuts])
    return floor, found, own


def _measure(labels: bool, draws: np.ndarray, others: np.ndarray, unit: np.ndarray) -> dict[str, float]:
    if labels:
        p, q = draws.mean(axis=0), others.mean(axis=0)
        return {"total_variation": float(total_variation(p, q).mean()), "agreement": float(agreement(p, q).mean())}
    gap, weights = _quantile_gap(draws, others)
    gap = gap / unit
    return {name: float(_gap_to_distance(gap, weights, power).mean()) for name, power in (("w1", 1), ("w2", 2))}


def _quantile_gap(draws: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gaps between the two quantile functions, which are steps, and how much probability each lasts."""
    edges = np.unique(np.concatenate([np.arange(len(each) + 1) / len(each) for each in (draws, others)]))
    middles = (edges[1:] + edges[:-1]) / 2
    first, second = (np.sort(each, axis=0)[np.floor(middles * len(each)).astype(int)] for each in (draws, others))
    return first - second, np.diff(edges)


def _gap_to_distance(gap: np.ndarray, weights: np.ndarray, power: int) -> np.ndarray:
    return np.tensordot(weights, np.abs(gap) ** power, axes=1) ** (1 / power)


def _several(draws: np.ndarray) -> np.ndarray:
    """Draws by chain; two chains are cut into their halves, which makes four."""
    half = draws.shape[1] // 2
    if len(draws) != 2 or half == 0:
        return draws
    return np.concatenate([draws[:, :half], draws[:, half : 2 * half]])


def _halves(chains: int) -> list[list[int]]:
    """Every way to choose half of the chains or, where there are too many ways, `_CUTS` of them at random."""
    if chains < 2:
        return []
    if math.comb(chains, chains // 2) <= _CUTS:
        return [list(some) for some in combinations(range(chains), chains // 2)]
    generator = np.random.default_rng(0)
    found: set[tuple[int, ...]] = set()
    while len(found) < _CUTS:
        found.add(tuple(sorted(generator.permutation(chains)[: chains // 2].tolist())))
    return [list(some) for some in sorted(found)]


def _draws(prediction: Prediction, space: str, seed: int, least: int) -> Float[np.ndarray, "chain draw n ..."]:
    """Draws of the function or, by `space`, with noise, which is added repeatedly until there are `least` draws."""
    likelihood: Any = prediction.likelihood
    if isinstance(prediction, Classification):
        return likelihood.probabilities(prediction.outputs)
    rows = spaced(len(prediction), _ROWS)
    if not space:
        return likelihood.mean(prediction.outputs[:, :, rows].astype(np.float64))
    times = -(-least // (prediction.outputs.shape[0] * prediction.outputs.shape[1]))
    assert isinstance(prediction, Regression)
    return np.concatenate([prediction.sample(seed + i)[:, :, rows] for i in range(times)], axis=1)


def _flat(draws: np.ndarray) -> np.ndarray:
    return draws.reshape(-1, *draws.shape[2:])


def _thin(draws: np.ndarray, count: int) -> np.ndarray:
    if len(draws) <= count:
        return draws
    return draws[spaced(len(draws), count)]


def _average(space: str, numbers: list[dict[str, float]]) -> dict[str, Distance]:
    names = numbers[0] if numbers else {}
    values = {name: [row[name] for row in numbers] for name in names}
    return {
        f"{name}{space}": Distance(float(np.mean(each)), float(np.std(each, ddof=1)) if len(each) > 1 else np.nan)
        for name, each in values.items()
    }
