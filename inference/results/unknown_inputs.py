"""Missing numbers of rows that a network was not trained on: drawn from their prior, one value for each draw.

What is known of such a number is its prior N(0, 1) alone, so the predictive distribution is

    p(y | x) = E_w E_z p(y | x, z, w),    z ~ N(0, 1),

and one z for each draw of w is an unbiased sample of it. A point estimate, which would say nothing of z with one draw,
is taken several times, with a z of its own each. What z makes uncertain counts as epistemic, because to measure it
would remove it. A row that the network was trained on has its own unknown, which was inferred with the weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from models import Network, TableInputs

__all__ = ["Completed", "completed", "enough_draws", "has_new_unknowns"]

_SITE = "missing"
_FEWEST = 400  # draws of an unknown: a mean is then known to a twentieth of its standard deviation


class Completed(NamedTuple):
    """A network with unknowns for new rows.

    Attributes:
        model: the network with more unknowns.
        draws: its draws, with those of the new unknowns.
        inputs: the rows, with the new unknowns in their places.
        around: the centre for a linearised network, which is 0 for the new unknowns.
    """

    model: Network
    draws: dict[str, np.ndarray]
    inputs: Any
    around: dict[str, np.ndarray]


def has_new_unknowns(model: Network, inputs: Any) -> bool:
    """Whether rows have missing numbers for which the network has no unknown."""
    if not isinstance(model.architecture, TableInputs) or not model.architecture.incomplete or np.ndim(inputs) != 2:
        return False
    return bool((np.asarray(inputs)[:, model.architecture.places] < 0).any())


def enough_draws(draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The draws, each repeated as often as it takes to have enough of them for the unknowns of new rows."""
    chains, count = next(iter(draws.values())).shape[:2]
    times = -(-_FEWEST // (chains * count))
    return {name: np.repeat(values, times, axis=1) for name, values in draws.items()} if times > 1 else draws


def completed(
    model: Network,
    draws: dict[str, np.ndarray],
    inputs: np.ndarray,
    around: dict[str, np.ndarray],
    random: np.random.Generator,
) -> Completed:
    """The network, its draws and rows with an unknown in place of each number that is missing in a new row."""
    front: Any = model.architecture
    inputs = np.array(inputs)
    places = inputs[:, front.places]
    count = int((places < 0).sum())
    more = 1 << (count - 1).bit_length()  # one program serves all counts up to a power of two
    shape = next(iter(draws.values())).shape[:2]
    precision = next(iter(draws.values())).dtype
    places[places < 0] = front.unknowns + np.arange(1, count + 1)
    known = draws.get(_SITE, np.zeros((*shape, 0), precision))
    new = random.standard_normal((*shape, more)).astype(precision)
    if around:
        centre = around.get(f"{_SITE}.mean", np.zeros(0, precision))
        around = {**around, f"{_SITE}.mean": np.concatenate([centre, np.zeros(more, centre.dtype)])}
    return Completed(
        replace(model, architecture=front.extended(front.unknowns + more)),
        {**draws, _SITE: np.concatenate([known, new], axis=-1)},
        inputs,
        around,
    )
