"""A network's outputs under many draws of its weights: a page of draws at a time, so that memory is bounded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax
from jaxtyping import Float
from numpyro import handlers
from numpyro.distributions.transforms import biject_to

from data.files import release
from models import Likelihood, Network, numbers_of, with_numbers

__all__ = ["ROWS", "function_values", "network_outputs"]

_BLOCK = 2**16  # activations of a block of draws: enough to keep a core busy, and few enough for its cache
ROWS = 4096
"""Rows at a time, unless the caller says otherwise."""

_PAGE = 64 * 2**20  # bytes of weights at a time: draws may be on disk, and more than fit into memory
_DRAWS = 512  # at a time, so that one program serves any number of draws


def network_outputs(
    model: Network,
    draws: dict[str, np.ndarray],
    inputs: np.ndarray,
    batch_size: int | None = None,
    around: dict[str, np.ndarray] | None = None,
) -> Float[np.ndarray, "chain draw n k"]:
    """The outputs at `inputs` under each draw; `draws` are (chain, draw, ...) by site.

    With `around`, which holds "<site>.mean" in unconstrained coordinates, they are the outputs of the network that is
    linearised there, before its likelihood's link: mean and log variance, or logits, are linear, and standard
    deviations are positive.

    Raises:
        ValueError: if the inputs are not of the shape that the network was run on.
    """
    model = _bare(model, prior=not around)
    shapes = model.weights(inputs)
    weights = {name: draws[name] for name in shapes}
    if shapes != {name: values.shape[2:] for name, values in weights.items()}:
        raise ValueError(f"x must have as many inputs per row as in run, got shape {inputs.shape}")
    size = min(batch_size or ROWS, len(inputs))
    most = _BLOCK // (size * max(shape[-1] for shape in shapes.values() if shape))
    pieces = []
    for page, real in _pages(weights):
        block = _power_of_two(min(most, len(next(iter(page.values())))))
        rows = []
        for first in range(0, len(inputs), size):
            some = inputs[first : first + size]
            padded = np.concatenate([some, np.zeros((size - len(some), *some.shape[1:]), some.dtype)])
            outputs = (
                _linearised(model, block, page, padded, {name: around[f"{name}.mean"] for name in weights})
                if around
                else _outputs(model, block, page, padded)
            )
            rows.append(np.asarray(outputs)[:real, : len(some)])
        pieces.append(np.concatenate(rows, axis=1))
    chains, count = next(iter(weights.values())).shape[:2]
    outputs = np.concatenate(pieces)
    return outputs.reshape(chains, count, *outputs.shape[1:])


def _bare(model: Network, prior: bool) -> Network:
    """`model` without the numbers that outputs don't depend on once weights are given: one program serves all.

    The prior's numbers are left out only if `prior`. They stay where coordinates matter, because the bounds of a scale
    are in its bijection, and where weights are made with them.
    """
    keeps = not prior or model.prior.shapes_outputs
    bare: Any = model.prior if keeps else with_numbers(model.prior, (1.0,) * len(numbers_of(model.prior)))
    likelihood: Any = model.likelihood
    if type(likelihood).link is Likelihood.link:  # the outputs as they are
        likelihood = with_numbers(likelihood, (1.0,) * len(numbers_of(likelihood)))
    return replace(model, prior=bare, likelihood=likelihood)


def function_values(model: Network, outputs: np.ndarray, draws: dict[str, np.ndarray]) -> np.ndarray:
    """The function-space values of `outputs`, with learned noise as one more, (chain, draw, k)."""
    flat = model.likelihood.functions(outputs).reshape(*outputs.shape[:2], -1)
    noise = [draws["noise"].reshape(*outputs.shape[:2], -1)] if "noise" in draws else []
    return np.concatenate([flat, *noise], axis=-1)


def _pages(weights: dict[str, np.ndarray]) -> Iterator[tuple[dict[str, np.ndarray], int]]:
    """Pages of draws, all of one length, a power of two, and how many of a page's draws are not there to fill it."""
    chains, count = next(iter(weights.values())).shape[:2]
    size = sum(math.prod(values.shape[2:]) * values.dtype.itemsize for values in weights.values())
    together = chains * count * size <= _PAGE  # larger ones may be on disk: one chain after the other
    parts = [slice(None)] if together else [slice(i, i + 1) for i in range(chains)]
    longest = chains * count if together else count
    length = _power_of_two(min(_DRAWS, 2 * longest - 1, max(1, _PAGE // size)))
    for part in parts:
        flat = {name: values[part].reshape(-1, *values.shape[2:]) for name, values in weights.items()}
        for first in range(0, longest, length):
            real = min(length, longest - first)
            filled = np.minimum(np.arange(first, first + length), longest - 1)
            yield {name: values[filled] for name, values in flat.items()}, real
            if not together:
                for values in weights.values():
                    release(values)


def _power_of_two(number: int) -> int:
    """The largest power of two that is at most `number`; 1 at least."""
    return 1 << max(number, 1).bit_length() - 1


@partial(jax.jit, static_argnames=("model", "block"))
def _outputs(model: Network, block: int, weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """The outputs under each draw, (draw, n, outputs), `block` draws at a time."""
    return lax.map(lambda draw: handlers.substitute(model.outputs, data=draw)(x), weights, batch_size=block)


@partial(jax.jit, static_argnames=("model", "block"))
def _linearised(
    model: Network, block: int, weights: dict[str, jax.Array], x: jax.Array, centre: dict[str, jax.Array]
) -> jax.Array:
    """The outputs of f(u*) + J (u - u*) under each draw, in unconstrained coordinates u, with u* the `centre`."""
    bijections = {name: biject_to(support) for name, support in model.supports(x).items()}

    def heads(position: dict[str, jax.Array]) -> jax.Array:
        values = {name: bijections[name](value) for name, value in position.items()}
        return handlers.substitute(model.heads, data=values)(x)

    at_centre, product = jax.linearize(heads, centre)

    def one(draw: dict[str, jax.Array]) -> jax.Array:
        away = {name: bijections[name].inv(value) - centre[name] for name, value in draw.items()}
        return model.likelihood.link(at_centre + product(away))

    return lax.map(one, weights, batch_size=block)
