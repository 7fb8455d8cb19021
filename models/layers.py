"""Layers are effects: a layer samples its weights, then applies them through one interceptable operation.

`apply` sends a message of type "layer" through NumPyro's handler stack before it computes anything. So a handler can
replace what the layer does with its weights, for instance draw a mask per example where the plain model draws one for
all, without a change to the model. Without such a handler, `apply` computes `function(x, *weights)`.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Float

from models.effects import ask
from models.priors import Prior, Site

__all__ = ["ACTIVATIONS", "Batch", "affine", "apply", "dense"]

Batch = Array | np.ndarray  # a model may be called with either

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
    "relu": jax.nn.relu,
    "sigmoid": jax.nn.sigmoid,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "tanh": jax.numpy.tanh,
}
"""The activations that a network can name; any function of one array can be given instead of a name."""


def apply(layer: str, function: Callable[..., Array], x: Batch, *weights: Array) -> Array:
    """Apply a layer's weights to its input, or do what a handler puts in place of that.

    The message carries the layer's name, the function, and `(x, *weights)` as its arguments; a handler answers it by
    setting its "value". The weights were sampled at the sites `"<layer>.<kind>"`, and are in the order in which
    `function` takes them.
    """
    return ask("layer", layer, function, x, *weights)


def affine(
    x: Float[Batch, "n *positions d"], weight: Float[Array, "d k"], bias: Float[Array, " k"]
) -> Float[Array, "n *positions k"]:
    """x W + b."""
    return jax.numpy.matmul(x, weight) + bias[None, :]


def dense(layer: str, x: Float[Batch, "n d"], units: int, prior: Prior) -> Float[Array, "n k"]:
    """A dense layer with sites `"<layer>.weight"` of shape (d, units) and `"<layer>.bias"` of shape (units,)."""
    fan_in = x.shape[-1]
    prior = prior.for_layer(layer)
    weight = prior.sample(Site(layer, "weight", fan_in), (fan_in, units))
    bias = prior.sample(Site(layer, "bias", fan_in), (units,))
    return apply(layer, affine, x, weight, bias)
