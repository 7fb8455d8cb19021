r"""Estimators of the expected log-likelihood under independent normal weights, as effect handlers around the model.

A layer asks, by a message, for x W + b. With W ~ N(mu, sigma^2) drawn once, all rows share the draw, and their errors
don't average out. The handlers give each row its own randomness, and the model stays as it is:

    local     x_i W_i = x_i mu + sqrt(x_i^2 sigma^2) e_i,                 one e_i per row and unit
    flipout   x_i W_i = x_i mu + ((x_i * s_i) (sigma * e)) * r_i,         signs s_i, r_i per row, one e for all

`local` draws the outputs themselves (Kingma, Salimans & Welling 2015), which is exact where each weight is used once
per row. Where a layer uses its weights at many positions of a row, or is called many times, as in a recurrence, its
outputs share the draw: `local` would draw them independently, so it is refused there; flipout's signs are the same at
all positions and in all calls (Wen et al. 2018), because their key depends on the layer's name alone.

References: https://arxiv.org/abs/1506.02557, https://arxiv.org/abs/1803.04386.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from inference.target.density import Data, Position, Target
from inference.target.trees import standard_normal
from inference.target.unstable import trace_level
from models import PartlyFixed
from models.effects import Messenger
from models.layers import LinearMap

__all__ = ["ESTIMATORS", "Flipout", "Layer", "Layerwise", "Local", "check_layers", "layers_of"]


class Layerwise(Messenger):
    """Base of handlers that answer what layers ask. Subclasses give `answer`.

    Args:
        key: the key from which each layer's key is made.
        fn: the model.
    """

    def __init__(self, key: jax.Array, fn: Any = None) -> None:
        self.key = key
        super().__init__(fn)

    def key_of(self, layer: str) -> jax.Array:
        """The layer's own key, the same in all its calls: its weights are drawn once, however often they are used."""
        return jax.random.fold_in(self.key, zlib.crc32(layer.encode()))

    def process_message(self, msg: dict[str, Any]) -> None:
        """Answer the message of a layer that is linear in its weights."""
        if msg["type"] == "layer" and msg["value"] is None and isinstance(msg["fn"], LinearMap):
            msg["value"] = self.answer(msg["name"], msg["fn"], *msg["args"])

    def answer(
        self, layer: str, function: LinearMap, x: jax.Array, weight: jax.Array, bias: jax.Array | None = None
    ) -> jax.Array | None:
        """The layer's outputs for each row; None leaves them to `weight` and `bias`."""
        raise NotImplementedError(f"{type(self).__name__} must have an answer")


class Local(Layerwise):
    """A handler that draws the outputs of each layer per row."""

    def __init__(self, location: Position, scale: Position, key: jax.Array, fn: Any = None) -> None:
        self.location, self.scale = location, scale
        super().__init__(key, fn)

    def answer(
        self, layer: str, function: LinearMap, x: jax.Array, weight: jax.Array, bias: jax.Array | None = None
    ) -> jax.Array | None:
        """Normal outputs with the mean and the variance that random weights give them."""
        names = _sites(layer, bias)
        if not all(name in self.location for name in names):
            return None
        mean = function(x, *(self.location[name] for name in names))
        variance = function(jnp.square(x), *(jnp.square(self.scale[name]) for name in names))
        return mean + jnp.sqrt(variance) * jax.random.normal(self.key_of(layer), mean.shape, mean.dtype)


class Flipout(Layerwise):
    """A handler that uses one deviation of the weights for all rows, with random signs per row."""

    def __init__(self, location: Position, scale: Position, key: jax.Array, fn: Any = None) -> None:
        draw_key, signs_key = jax.random.split(key)
        self.location = location
        self.deviation = jax.tree.map(jnp.multiply, scale, standard_normal(draw_key, scale))
        super().__init__(signs_key, fn)

    def answer(
        self, layer: str, function: LinearMap, x: jax.Array, weight: jax.Array, bias: jax.Array | None = None
    ) -> jax.Array | None:
        """The mean outputs plus the deviation, with signs per row on inputs and outputs, the same at all positions."""
        names = _sites(layer, bias)
        if not all(name in self.location for name in names):
            return None
        inner, outer = jax.random.split(self.key_of(layer))
        into = _signs(inner, (len(x), weight.shape[-2]), weight.dtype)
        deviation = function.scaled(x, into, *(self.deviation[name] for name in names))
        out = _signs(outer, (len(x), *(1,) * (deviation.ndim - 2), weight.shape[-1]), weight.dtype)
        return function(x, *(self.location[name] for name in names)) + deviation * out


ESTIMATORS: dict[str, Any] = {"weights": None, "local": Local, "flipout": Flipout}
"""The estimators by name; None where all rows share a draw."""


class Layer(NamedTuple):
    """What a model asks of one of its layers.

    Attributes:
        linear: whether it is linear in its weights.
        once: whether it uses each weight once per row.
        sites: the sites of its weight and its bias.
    """

    linear: bool
    once: bool
    sites: tuple[str, ...]


def layers_of(target: Target, data: Data) -> dict[str, Layer]:
    """A model's layers by name, without those whose weights are fixed."""
    found: dict[str, Layer] = {}

    class Recorder(Messenger):
        def __init__(self) -> None:
            self.outermost = trace_level()
            super().__init__()

        def process_message(self, msg: dict[str, Any]) -> None:
            if msg["type"] != "layer":
                return
            name, x, biases = msg["name"], msg["args"][0], msg["args"][2:]
            linear = isinstance(msg["fn"], LinearMap) and (name not in found or found[name].linear)
            in_a_loop = trace_level() != self.outermost  # a loop's body is traced once
            once = name not in found and linear and msg["fn"].used_once(x) and not in_a_loop
            found[name] = Layer(linear, once, _sites(name, biases[0] if biases else None))

    def trace(data: Data) -> None:
        with Recorder():
            target.trace(jax.random.key(0), data, "random")

    jax.eval_shape(trace, data)
    prior = getattr(target.model, "prior", None)
    fixed = prior.weights.arrays if isinstance(prior, PartlyFixed) else {}
    return {name: layer for name, layer in found.items() if not all(site in fixed for site in layer.sites)}


def check_layers(what: str, target: Target, data: Data, instead: str = "") -> None:
    """Require layers that are linear in their weights and, if `instead` is a remedy, use each once per row."""
    layers, sites = layers_of(target, data), target.position(data)
    if not layers:
        raise ValueError(
            f"{what} needs a model with the layers of models, and this one has none; guide='gaussian' with "
            "estimator='weights' serves any model, and from_flax lifts networks whose layers are known"
        )
    for name, layer in layers.items():
        if not layer.linear:
            raise ValueError(
                f"{what} is for the layers of models, which '{name}' is not; guide='gaussian' with estimator='weights' "
                "serves any layer"
            )
        if not all(site in sites for site in layer.sites):
            raise ValueError(
                f"{what} needs weights that are sites of their own; those of '{name}' are made of others, as under a "
                "hierarchical prior, or fixed in part, for which guide='gaussian' with estimator='weights' is right"
            )
        if instead and not layer.once:
            raise ValueError(
                f"{what} is exact only where each weight is used once per row, and '{name}' uses its own at many "
                f"positions or times; {instead}"
            )


def _sites(layer: str, bias: jax.Array | None) -> tuple[str, ...]:
    """The sites of a layer's weight and, if it has one, of its bias."""
    return (f"{layer}.weight",) if bias is None else (f"{layer}.weight", f"{layer}.bias")


def _signs(key: jax.Array, shape: tuple[int, ...], dtype: Any) -> jax.Array:
    return jax.random.rademacher(key, shape, dtype)
