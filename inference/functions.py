"""Function space: what a posterior says about y at given inputs, draw by draw.

Weights of a network can be permuted without changing the function, so chains may disagree about every weight and agree
about every prediction. These are the quantities in which agreement counts: class probabilities (logits have a direction
that the softmax ignores), or the mean of a regression and, where it is an output, its log scale; learned noise as one
more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from inference.outputs import function_values
from inference.posterior import Posterior
from models import Network

__all__ = ["function_draws", "weight_draws"]


def function_draws(posterior: Posterior, x: Any = None) -> Float[np.ndarray, "chain draw k"]:
    """The functions' values at the inputs `x`, or at the posterior's own probes; no columns if it is no network."""
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
    columns = [np.zeros((*posterior.shape, 0))]
    for name, values in posterior.draws.items():
        if name in posterior.deterministic:
            continue
        flat = values.reshape(*posterior.shape, -1)
        moves = (flat != flat[:1, :1]).any(axis=(0, 1))
        columns.append(flat[..., moves] if moves.any() else flat)
    return np.concatenate(columns, axis=-1)
