"""Function space: what a posterior says about y at given inputs, draw by draw.

Weights of a network can be permuted without changing the function, so chains may disagree about every weight and agree
about every prediction. These are the quantities in which agreement counts: log odds of classes (logits have a direction
that the softmax ignores), or the mean of a regression and, where it is an output, its log scale; learned noise is one
more.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from jaxtyping import Float

from data.rows import spaced
from inference.results.network_outputs import function_values
from inference.results.posterior import Posterior
from models import Network

__all__ = ["PROBED_ROWS", "function_draws", "probes", "site_columns", "weight_draws"]

PROBED_ROWS = 30
"""How many rows of the data are probes."""

_BEYOND = 10  # points between rows, and as many outside: few enough to be judged at once


def probes(inputs: Any, codes: tuple[int, ...] = ()) -> np.ndarray:
    """Inputs at which a network's functions are judged: in the data, between two of its rows, and outside.

    The first are rows of the training data, evenly spaced; the second lie halfway between two of those rows; the third
    are the rows farthest from the data's mean, moved twice as far away. Inputs that are `codes` are those of one row;
    integers are tokens, which have nothing between them or outside, so that only rows are probes.
    """
    inputs = np.asarray(inputs)
    rows = inputs[spaced(len(inputs), PROBED_ROWS)]
    if inputs.dtype.kind in "iu":
        return rows
    mean = inputs.mean(axis=0, dtype=np.float64)
    distance = np.linalg.norm((rows - mean).reshape(len(rows), -1), axis=1)
    count = min(_BEYOND, len(rows) // 2)
    between = (rows[:count] + rows[len(rows) // 2 :][:count]) / 2
    farthest = np.argsort(-distance, kind="stable")[:count]
    outside = mean + 2 * (rows[farthest] - mean)
    if codes:
        between[:, codes], outside[:, codes] = rows[:count][:, codes], rows[farthest][:, codes]
    return np.concatenate([rows, between, outside]).astype(inputs.dtype)


def function_draws(posterior: Posterior, x: Any = None) -> Float[np.ndarray, "chain draw k"]:
    """The functions' values at the inputs `x`, or at the posterior's probes; no columns if it is not a network."""
    if not isinstance(posterior.model, Network):
        return np.zeros((*posterior.shape, 0))
    if x is None and posterior.functions is not None:
        return posterior.functions
    prediction = posterior.predict(posterior.probes if x is None else x)
    return function_values(posterior.model, prediction.outputs, posterior.draws)


def weight_draws(posterior: Posterior) -> Float[np.ndarray, "chain draw k"]:
    """All latent sites side by side; deterministic sites, which follow from them, are left out.

    So are entries that are the same in every draw of every chain while others of their site move, such as the zeros of
    a triangular matrix: they are part of the site's form. A site that stands still as a whole is kept. No columns if no
    draws were kept.
    """
    return site_columns(posterior.draws, posterior.deterministic, posterior.shape)


def site_columns(
    draws: dict[str, np.ndarray], deterministic: Collection[str], shape: tuple[int, int]
) -> Float[np.ndarray, "chain draw k"]:
    """The columns that `weight_draws` gives, from `draws` that are not part of a posterior yet."""
    columns = [np.zeros((*shape, 0))]
    for name, values in draws.items():
        if name in deterministic:
            continue
        flat = values.reshape(*shape, -1)
        moves = (flat != flat[:1, :1]).any(axis=(0, 1))
        columns.append(flat[..., moves] if moves.any() else flat)
    return np.concatenate(columns, axis=-1)
