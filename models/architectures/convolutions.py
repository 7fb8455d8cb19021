"""Convolutions, their normalisation and their pooling, in one or more dimensions, with channels last.

A sampler evaluates the network inside a loop, where XLA's own convolution for CPUs is many times slower than outside.
On a CPU a convolution is therefore written as one matrix product over all patches of the input, which is as
fast in a loop as it is alone; on other devices XLA's own is used. No other file has to know.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from itertools import product

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from models.layers import Batch, LinearMap, apply
from models.priors import Prior, Site

__all__ = ["Convolution", "average_pool", "convolution", "filter_response", "max_pool"]

_EPSILON = 1e-6  # in filter response normalisation, as in its paper


@dataclass(frozen=True)
class Convolution(LinearMap):
    """A convolution of x, (n, *places, channels), with a kernel of shape (*kernel, channels, filters).

    Attributes:
        stride: how many places lie between two outputs.
        padding: "same" pads with zeros, so that with stride 1 there are as many outputs as places; "valid" does not.
    """

    stride: int = 1
    padding: str = "same"

    def __call__(self, x: Batch, weight: Array, bias: Array | None = None) -> Array:
        """sum_u x[p stride + u] W[u] + b at every place p."""
        if jax.default_backend() == "cpu":
            output = jnp.matmul(self.patches(x, weight.shape[:-2]), weight.reshape(-1, weight.shape[-1]))
        else:
            letters = "DHW"[-(x.ndim - 2) :]
            layout = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
            strides = (self.stride,) * (x.ndim - 2)
            output = lax.conv_general_dilated(
                jnp.asarray(x), weight, strides, self.padding.upper(), dimension_numbers=layout
            )
        return output if bias is None else output + bias

    def by_row(self, x: Batch, weight: Array) -> Array:
        """The convolution of each row with a kernel of its own."""
        patches = self.patches(x, weight.shape[1:-2])
        return jnp.einsum("n...d,ndk->n...k", patches, weight.reshape(len(x), -1, weight.shape[-1]))

    def patches(self, x: Batch, kernel: tuple[int, ...]) -> Array:
        """What the kernel sees at every place, (n, *outputs, kernel * channels), in the order of its weights."""
        places, stride = x.shape[1:-1], self.stride
        if self.padding == "same":
            outputs = tuple(-(-length // stride) for length in places)
            missing = [
                max((count - 1) * stride + size - length, 0)
                for count, size, length in zip(outputs, kernel, places, strict=True)
            ]
            x = jnp.pad(x, ((0, 0), *((each // 2, each - each // 2) for each in missing), (0, 0)))
        else:
            outputs = tuple((length - size) // stride + 1 for length, size in zip(places, kernel, strict=True))
        ends = [(count - 1) * stride + 1 for count in outputs]
        steps = (1, *(stride,) * len(kernel), 1)
        seen = [
            lax.slice(
                x,
                (0, *offset, 0),
                (len(x), *(first + end for first, end in zip(offset, ends, strict=True)), x.shape[-1]),
                steps,
            )
            for offset in product(*map(range, kernel))
        ]
        return seen[0] if len(seen) == 1 else jnp.concatenate(seen, axis=-1)


def convolution(
    layer: str,
    x: Float[Batch, "n *places c"],
    filters: int,
    kernel: int,
    prior: Prior,
    stride: int = 1,
    padding: str = "same",
) -> Float[Array, "n *outputs k"]:
    """A layer with sites `"<layer>.weight"`, (kernel, ..., channels, filters), and `"<layer>.bias"`, (filters,)."""
    shape = (*(kernel,) * (x.ndim - 2), x.shape[-1], filters)
    fan_in = math.prod(shape[:-1])
    prior = prior.for_layer(layer)
    weight = prior.sample(Site(layer, "weight", fan_in), shape)
    bias = prior.sample(Site(layer, "bias", fan_in), (filters,))
    return apply(layer, Convolution(stride, padding), x, weight, bias)


def filter_response(layer: str, x: Float[Array, "n *places c"], prior: Prior) -> Float[Array, "n *places c"]:
    """Filter response normalisation with a thresholded output (Singh & Krishnan 2020): max(g x / r + o, t).

    r^2 is the mean square of a row's channel over its places, so rows don't depend on each other, and the posterior is
    well defined, as it is not with batch statistics. The gain g, the offset o and the threshold t are the sites
    `"<layer>.gain"`, `"<layer>.offset"` and `"<layer>.threshold"`, one number per channel; gains start around 1.

    Reference: https://arxiv.org/abs/1911.09737.
    """
    channels = x.shape[-1]
    gain = prior.sample(Site(layer, "gain", channels, start=1.0), (channels,))
    offset = prior.sample(Site(layer, "offset", channels), (channels,))
    threshold = prior.sample(Site(layer, "threshold", channels), (channels,))
    square = jnp.mean(jnp.square(x), axis=tuple(range(1, x.ndim - 1)), keepdims=True)
    return jnp.maximum(gain * x * lax.rsqrt(square + _EPSILON) + offset, threshold)


def average_pool(x: Float[Array, "n *places c"], window: int) -> Float[Array, "n *outputs c"]:
    """The mean of every block of `window` places in each dimension; places that fill no block are left out."""
    blocks, axes = _blocks(x, window)
    return blocks.mean(axis=axes)


def max_pool(x: Float[Array, "n *places c"], window: int) -> Float[Array, "n *outputs c"]:
    """The largest value of every block of `window` places in each dimension; left-over places are left out.

    By comparing two at a time. The gradient of a maximum over an axis divides by how many values equal it, and where
    the compiler computes the values twice, rounded differently, none does: 0 / 0.
    """
    blocks, axes = _blocks(x, window)
    for axis in reversed(axes):
        blocks = reduce(jnp.maximum, jnp.unstack(blocks, axis=axis))
    return blocks


def _blocks(x: Array, window: int) -> tuple[Array, tuple[int, ...]]:
    """x as blocks, (n, outputs, window, ..., channels), and the axes of the windows."""
    counts = [length // window for length in x.shape[1:-1]]
    kept = x[(slice(None), *(slice(count * window) for count in counts))]
    shape = [length for count in counts for length in (count, window)]
    return kept.reshape(len(x), *shape, x.shape[-1]), tuple(range(2, 2 * len(counts) + 1, 2))
