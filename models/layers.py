"""Layers are effects: a layer samples its weights, then applies them through one interceptable operation.

`apply` sends a message of type "layer" through NumPyro's handler stack before it computes anything. So a handler can
replace what the layer does with its weights, for instance draw a mask per example where the plain model draws one for
all, without a change to the model. Without such a handler, `apply` computes `function(x, *weights)`.

The function of a built-in layer is a `LinearMap`: linear in its weights, so that a handler can also scale a row's
inputs, or give a row weights of its own, whether the layer is dense, a convolution or a table of embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from models.effects import ask
from models.priors import Prior, Site
from models.validation import one_of

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Affine",
    "Batch",
    "LinearMap",
    "activated",
    "affine",
    "apply",
    "check_activation",
    "dense",
    "from_data",
]

Batch = Array | np.ndarray  # a model may be called with either
Activation = str | Callable[[Array], Array]

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


def check_activation(activation: Activation) -> None:
    """Require a function, or the name of an activation."""
    if not callable(activation):
        one_of("activation", activation, ACTIVATIONS)


def activated(activation: Activation, x: Array) -> Array:
    """The activation, given by its name or as a function, of `x`."""
    return activation(x) if callable(activation) else ACTIVATIONS[activation](x)


def apply(layer: str, function: Callable[..., Array], x: Batch, *weights: Array) -> Array:
    """Apply a layer's weights to its input, or do what a handler puts in place of that.

    The message carries the layer's name, the function, and `(x, *weights)` as its arguments; a handler answers it by
    setting its "value". The weights were sampled at the sites `"<layer>.<kind>"`, and are in the order in which
    `function` takes them.
    """
    return ask("layer", layer, function, x, *weights)


def from_data(x: Array) -> Array:
    """`x` as it is, announced as inputs of the network that were made of its data, such as the codes of categories."""
    return ask("inputs", "inputs", lambda x: x, x)


class LinearMap:
    """Base of what layers compute: outputs that are linear in the weights.

    The last two axes of a weight are the units of the input and those of the output. A map is a frozen record; two
    that are equal compute the same.
    """

    def __call__(self, x: Batch, weight: Array, bias: Array | None = None) -> Array:
        """The outputs for a batch."""
        raise NotImplementedError(f"{type(self).__name__} must say what it computes")

    def used_once(self, x: Batch) -> bool:
        """Whether each weight is used at most once per row, so that outputs under random weights are independent."""
        return False

    def scaled(self, x: Batch, scale: Array, weight: Array, bias: Array | None = None) -> Array:
        """The outputs with the input units of each row multiplied by `scale`, (n, units), or by one number."""
        if jnp.ndim(scale):
            scale = scale.reshape(len(x), *(1,) * (x.ndim - 2), -1)  # the same at all positions of a row
        return self(x * scale, weight, bias)

    def by_row(self, x: Batch, weight: Array) -> Array:
        """The outputs where each row has a weight of its own, (n, *weight)."""
        raise NotImplementedError(f"{type(self).__name__} must say what weights per row give")


@dataclass(frozen=True)
class Affine(LinearMap):
    """x W + b, at every position of a row; W has shape (inputs, units)."""

    def __call__(
        self,
        x: Float[Batch, "n *positions d"],
        weight: Float[Array, "d k"],
        bias: Float[Array, " k"] | None = None,
    ) -> Float[Array, "n *positions k"]:
        """x W + b."""
        product = jnp.matmul(x, weight)
        return product if bias is None else product + bias[None, :]

    def used_once(self, x: Batch) -> bool:
        """True unless a row has several positions."""
        return x.ndim == 2

    def by_row(self, x: Batch, weight: Array) -> Array:
        """x_i W_i."""
        return jnp.einsum("n...d,ndk->n...k", x, weight)


affine = Affine()


def dense(layer: str, x: Float[Batch, "n *positions d"], units: int, prior: Prior) -> Float[Array, "n *positions k"]:
    """A dense layer with sites `"<layer>.weight"` of shape (d, units) and `"<layer>.bias"` of shape (units,)."""
    fan_in = x.shape[-1]
    prior = prior.for_layer(layer)
    weight = prior.sample(Site(layer, "weight", fan_in), (fan_in, units))
    bias = prior.sample(Site(layer, "bias", fan_in), (units,))
    return apply(layer, affine, x, weight, bias)
