"""Networks for sequences of tokens, (n, length) integers: `cnn_lstm`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from models.architectures.convolutions import convolution, max_pool
from models.classifiers import Categorical
from models.layers import Activation, Batch, LinearMap, activated, affine, apply, check_activation, dense
from models.likelihoods import Likelihood
from models.networks import Network
from models.priors import Normal, Prior, Site
from models.validation import positive_integer

__all__ = ["CNNLSTM", "Lookup", "cnn_lstm", "embedding", "lstm"]


@dataclass(frozen=True)
class Lookup(LinearMap):
    """The row of a table, (vocabulary, units), of every token: what a product with one-hot rows would give."""

    def __call__(
        self, x: Int[Batch, "n length"], weight: Float[Array, "words k"], bias: Array | None = None
    ) -> Float[Array, "n length k"]:
        """W[x]."""
        return weight[x]

    def scaled(self, x: Batch, scale: Array, weight: Array, bias: Array | None = None) -> Array:
        """W[x], with each row's own factor on every word, the same wherever the word occurs in the row."""
        factor = jnp.take_along_axis(scale, x, axis=1)[..., None] if jnp.ndim(scale) else scale
        return weight[x] * factor

    def by_row(self, x: Batch, weight: Array) -> Array:
        """W_i[x_i]."""
        return jnp.take_along_axis(weight, x[..., None], axis=1)


def embedding(
    layer: str, x: Int[Batch, "n length"], words: int, units: int, prior: Prior
) -> Float[Array, "n length k"]:
    """A table with the site `"<layer>.weight"` of shape (words, units); the fan-in is 1: one row counts at a time."""
    weight = prior.for_layer(layer).sample(Site(layer, "weight", 1), (words, units))
    return apply(layer, Lookup(), x, weight)


def lstm(layer: str, x: Float[Array, "n length d"], units: int, prior: Prior) -> Float[Array, "n k"]:
    """The last output of a long short-term memory (Hochreiter & Schmidhuber 1997).

    With [x_t, h_{t-1}] W + b = (i, g, f, o), the memory is c_t = sigmoid(f + 1) c_{t-1} + sigmoid(i) tanh(g), and the
    output h_t = sigmoid(o) tanh(c_t). The sites are `"<layer>.weight"`, (inputs + units, 4 units), and "<layer>.bias".
    The weights are applied once per step by the same message, so a guide's mask is the same at all times.
    """
    fan_in = x.shape[-1] + units
    prior = prior.for_layer(layer)
    weight = prior.sample(Site(layer, "weight", fan_in), (fan_in, 4 * units))
    bias = prior.sample(Site(layer, "bias", fan_in), (4 * units,))

    def step(state: tuple[Array, Array], now: Array) -> tuple[tuple[Array, Array], None]:
        memory, output = state
        gates = apply(layer, affine, jnp.concatenate([now, output], axis=-1), weight, bias)
        enter, new, keep, leave = jnp.split(gates, 4, axis=-1)
        memory = jax.nn.sigmoid(keep + 1) * memory + jax.nn.sigmoid(enter) * jnp.tanh(new)
        return (memory, jax.nn.sigmoid(leave) * jnp.tanh(memory)), None

    nothing = jnp.zeros((len(x), units), x.dtype)
    (_, output), _ = lax.scan(step, (nothing, nothing), jnp.swapaxes(x, 0, 1))
    return output


@dataclass(frozen=True)
class CNNLSTM:
    """Tokens to an "embedding", a convolution "conv", the activation, the largest of every few, an "lstm", "output".

    Attributes:
        vocabulary: the number of tokens, numbered from 0.
        embedding: the units of the embedding.
        filters: the filters of the convolution.
        kernel: how many tokens a filter sees.
        pool: of how many places the largest value is taken.
        units: the units of the LSTM.
        activation: the name of one of `models.layers.ACTIVATIONS`, or a function of one array.
    """

    vocabulary: int = 20_000
    embedding: int = 128
    filters: int = 64
    kernel: int = 5
    pool: int = 4
    units: int = 128
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        for name in ("vocabulary", "embedding", "filters", "kernel", "pool", "units"):
            positive_integer(f"cnn_lstm: {name}", getattr(self, name))
            object.__setattr__(self, name, int(getattr(self, name)))
        check_activation(self.activation)

    def __call__(self, x: Int[Batch, "n length"], outputs: int, prior: Prior) -> Float[Array, "n k"]:
        """The outputs of the dense layer on the LSTM's last output."""
        embedded = embedding("embedding", x, self.vocabulary, self.embedding, prior)
        convolved = convolution("conv", embedded, self.filters, self.kernel, prior, padding="valid")
        pooled = max_pool(activated(self.activation, convolved), self.pool)
        return dense("output", lstm("lstm", pooled, self.units, prior), outputs, prior)

    def prepared(self, x: np.ndarray, precision: str) -> np.ndarray:
        """`x` as int32 tokens of the vocabulary; raise ValueError with a remedy if it is not that."""
        least = self.kernel + self.pool - 1
        if x.ndim != 2 or x.shape[1] < least:
            raise ValueError(f"x must have shape (n, tokens) with at least {least} tokens a row, got {x.shape}")
        if x.dtype.kind == "f" and not (x == np.round(x)).all():
            raise ValueError("x must hold tokens, which are integers, got fractions; don't standardise tokens")
        if x.min() < 0 or x.max() >= self.vocabulary:
            row = int(np.argwhere((x < 0) | (x >= self.vocabulary))[0][0])
            raise ValueError(
                f"x must hold tokens from 0 to {self.vocabulary - 1}, got {x.min():.0f} to {x.max():.0f}, first in row "
                f"{row}; map rarer words to one token, or use a larger vocabulary"
            )
        return x.astype(np.int32)

    def rows_at_once(self, x: np.ndarray) -> int | None:
        """Large blocks: the gradient of each has the whole table of the embedding."""
        return 1024


def cnn_lstm(
    vocabulary: int = 20_000,
    embedding: int = 128,
    filters: int = 64,
    kernel: int = 5,
    pool: int = 4,
    units: int = 128,
    activation: Activation = "relu",
    prior: Any = Normal(1.0),  # noqa: B008 (frozen)
    likelihood: Likelihood = Categorical(2),  # noqa: B008 (frozen)
) -> Network:
    """The CNN-LSTM with which Izmailov et al. (2021) classify reviews, for rows of tokens.

    Args:
        vocabulary: the number of tokens, numbered from 0.
        embedding: the units of the embedding.
        filters: the filters of the convolution.
        kernel: how many tokens a filter sees.
        pool: of how many places the largest value is taken.
        units: the units of the LSTM.
        activation: "relu", "silu" or another name of `models.mlp`, or a function of one array.
        prior: one prior for all weights, or several by layer and kind; see `models.Rules`.
        likelihood: the distribution of the targets given the outputs.
    """
    return Network(CNNLSTM(vocabulary, embedding, filters, kernel, pool, units, activation), prior, likelihood)
