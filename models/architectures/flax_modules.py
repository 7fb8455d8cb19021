"""A user's own flax network, an `nnx.Module`, as a NumPyro model: `from_flax`.

The module is called on a batch. Its parameters become sites; the module itself is only read, and is put together anew
around the sampled values in every trace, so no value of a trace stays behind in it.

Plain `nnx.Linear`, `nnx.Conv` and `nnx.Embed` layers announce what they compute, as built-in layers do. So MC dropout,
local reparameterisation and flipout work on them, and convolutions are computed in the way that is fast on the device
at hand. Other layers compute what they compute; guides that need to know a layer say so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from models.architectures.convolutions import Convolution
from models.architectures.lifted import (
    Constant,
    Parameter,
    as_arrays,
    check_names,
    code_of,
    hashable,
    inputs,
    rows_of_outputs,
    sampled,
)
from models.architectures.sequences import Lookup
from models.layers import Batch, LinearMap, affine, apply
from models.likelihoods import Gaussian, Likelihood
from models.networks import Network
from models.priors import Normal, Prior

__all__ = ["FlaxModule", "from_flax"]

_BATCH_NORM = (
    "its statistics come from the data of other rows, so that the posterior would not be defined; use nnx.LayerNorm, "
    "nnx.GroupNorm, or filter response normalisation as in models.resnet20_frn"
)
_DROPOUT = (
    "dropout is not a part of the model here but an approximation of its posterior: leave the layer out and run "
    'inference.run(..., method="svi", guide="dropout", rate=...)'
)


@dataclass(frozen=True)
class FlaxModule:
    """An `nnx.Module` as an architecture.

    Attributes:
        name: the name of the module's class.
        graph: what flax knows of the module beside its arrays.
        parameters: its parameters.
        constants: its other arrays.
        words: the size of its largest table of embeddings; None if it has none.
        fingerprint: a hash of the code of its classes, and of the places and shapes of its parameters.
    """

    name: str
    graph: Any
    parameters: tuple[Parameter, ...]
    constants: tuple[Constant, ...]
    words: int | None
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.name} (flax): {', '.join(map(str, self.parameters))}"

    def __call__(self, x: Batch, outputs: int, prior: Prior) -> Array:
        """The module's outputs for a batch, with its parameters drawn from the prior."""
        from flax import nnx

        values = as_arrays(self.constants) | sampled(self.parameters, prior)
        module = nnx.merge(self.graph, nnx.from_flat_state(list(values.items())))
        for path, part in nnx.iter_modules(module):
            _announcing(".".join(map(str, path)) or "module", part, len(x))
        return rows_of_outputs(module(x), x, outputs, self.name)

    def values_of(self, module: Any) -> dict[tuple[Any, ...], np.ndarray] | None:
        """The parameters of another module by their paths; None if it is not flax's."""
        from flax import nnx

        if not isinstance(module, nnx.Module):
            return None
        return {path: np.asarray(value[...]) for path, value in nnx.to_flat_state(nnx.state(module, nnx.Param))}

    def prepared(self, x: np.ndarray, precision: str) -> np.ndarray:
        """`x` in `precision`, with tokens within the table of embeddings; else the module says whether it fits."""
        return inputs(x, precision, self.name, self.words)

    def rows_at_once(self, x: np.ndarray) -> int | None:
        """Blocks of images, whose patches take much memory; as many as the sampler takes by default for tables."""
        return 64 if x.ndim > 3 else None


def from_flax(
    module: Any,
    prior: Any = Normal(1.0),  # noqa: B008 (frozen)
    likelihood: Likelihood = Gaussian(),  # noqa: B008 (frozen)
) -> Network:
    """A flax network of your own, an `nnx.Module` that is called on a batch, as a NumPyro model.

    Args:
        module: the module; its values are not used, except as a start where a parameter is constant, like the ones of a
            normalisation.
        prior: one prior for all parameters, or several by path, layer and kind; see `models.Rules`. The parameter
            at `module.layers[0].kernel` is the site "layers.0.weight", of the layer "layers.0".
        likelihood: the distribution of the targets given the outputs.

    Raises:
        TypeError: if it is not an `nnx.Module`.
        ValueError: if it has state besides parameters, such as batch statistics or the keys of dropout.
    """
    from flax import nnx

    if not isinstance(module, nnx.Module):
        raise TypeError(f"from_flax needs an nnx.Module, got {type(module).__name__}; for equinox use from_equinox")
    name = type(module).__name__
    parts = [part for _, part in nnx.iter_modules(module)]
    for part in parts:
        if isinstance(part, nnx.BatchNorm):
            raise ValueError(f"{name} has a BatchNorm: {_BATCH_NORM}")
        if isinstance(part, nnx.Dropout):
            raise ValueError(f"{name} has a Dropout: {_DROPOUT}")
    graph, state = nnx.split(module)
    parameters, constants = [], []
    values = dict(nnx.to_flat_state(state))
    for path, variable in values.items():
        if isinstance(variable, nnx.Param):
            parameters.append(Parameter(path, np.asarray(variable[...]), _fan_in(path, values)))
        elif isinstance(variable, nnx.Variable):
            raise ValueError(
                f"{name} keeps state at {'.'.join(map(str, path))}, a {type(variable).__name__}, and a posterior is "
                "defined for parameters alone; leave it out, or make it an nnx.Param"
            )
        else:
            constants.append(Constant(path, np.asarray(variable)))
    check_names(parameters, name)
    tables = [part.num_embeddings for part in parts if isinstance(part, nnx.Embed)]
    hashable(name, graph)
    code = code_of(parts, [*parameters, *constants])
    words = max(tables, default=None)
    return Network(FlaxModule(name, graph, tuple(parameters), tuple(constants), words, code), prior, likelihood)


def _fan_in(path: tuple[Any, ...], values: dict[tuple[Any, ...], Any]) -> int:
    """The inputs of a unit: all axes of a kernel but the last; of a bias, those of the kernel beside it."""
    beside = values.get((*path[:-1], "kernel"))
    shape = values[path].shape if beside is None else beside.shape
    if path[-1] == "embedding" or not shape:
        return 1
    return int(np.prod(shape[:-1])) if len(shape) > 1 else shape[0]  # gains and offsets: as many as channels


def _announcing(layer: str, part: Any, rows: int) -> None:
    """Let a plain layer announce what it computes on a batch of `rows`; other modules are left as they are."""
    kinds = _kinds()
    if type(part) in kinds and kinds[type(part)].plain(part):
        part.__class__ = kinds[type(part)]
        vars(part)["_touchstone"] = layer, rows


@cache
def _kinds() -> dict[type, Any]:
    """The layers that announce what they compute, by the classes that they stand for."""
    from flax import nnx

    class Linear(nnx.Linear):
        @staticmethod
        def plain(part: nnx.Linear) -> bool:
            return _default(part) and part.dot_general is jax.lax.dot_general

        def __call__(self, inputs: Array, *args: Any, **options: Any) -> Array:
            whole = inputs.ndim > 1
            return _applied(self, affine if whole else None, super().__call__, inputs, *_weights(self))

    class Conv(nnx.Conv):
        @staticmethod
        def plain(part: nnx.Conv) -> bool:
            places = len(part.kernel_size)
            same = part.padding in ("SAME", "VALID") and part.feature_group_count == 1 and part.mask is None
            dilated = {*_each(part.kernel_dilation, places), *_each(part.input_dilation, places)}
            own = _default(part) and part.conv_general_dilated is jax.lax.conv_general_dilated
            return own and same and dilated == {1} and len(set(_each(part.strides, places))) == 1

        def __call__(self, inputs: Array, *args: Any, **options: Any) -> Array:
            stride = _each(self.strides, len(self.kernel_size))[0]
            whole = inputs.ndim == len(self.kernel_size) + 2
            function = Convolution(stride, str(self.padding).lower()) if whole else None
            return _applied(self, function, super().__call__, inputs, *_weights(self))

    class Embed(nnx.Embed):
        @staticmethod
        def plain(part: nnx.Embed) -> bool:
            return part.dtype in (None, part.param_dtype)

        def __call__(self, inputs: Array, *args: Any, **options: Any) -> Array:
            whole = inputs.ndim > 1
            return _applied(self, Lookup() if whole else None, super().__call__, inputs, self.embedding[...])

    return {nnx.Linear: Linear, nnx.Conv: Conv, nnx.Embed: Embed}


def _applied(
    part: Any, function: LinearMap | None, itself: Callable[[Array], Array], inputs: Array, *weights: Array
) -> Array:
    """What a layer computes: `function` where it is called on the whole batch; else `itself`, which guides don't know.

    A layer that is mapped over rows, or called on something else than the rows, can't be told to draw for each row.
    """
    layer, rows = vars(part)["_touchstone"]
    if function is None or len(inputs) != rows:
        return apply(layer, lambda inputs, *weights: itself(inputs), inputs, *weights)
    return apply(layer, function, inputs, *weights)


def _default(part: Any) -> bool:
    """Whether a layer computes with the numbers that it is given, by the usual products."""
    return part.dtype is None and part.precision is None and getattr(part, "preferred_element_type", None) is None


def _weights(part: Any) -> tuple[Array, ...]:
    bias = () if part.bias is None else (part.bias[...],)
    return (part.kernel[...], *bias)


def _each(value: Any, places: int) -> tuple[int, ...]:
    """A setting for each of the places of a convolution: one number stands for all, None for 1."""
    return (1 if value is None else value,) * places if value is None or isinstance(value, int) else tuple(value)
