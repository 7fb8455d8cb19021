"""What lifted networks share: which arrays of a user's module are unknown, what their sites are called, how they start.

A parameter at the path layers/0/kernel of a module is the site "layers.0.weight": the layer is the path of the module
that holds it, and flax's "kernel" and "embedding" are called "weight", as everywhere here, so that rules by layer and
kind, priors with `fan_in` and guides treat a lifted network as they treat a built-in one.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from models.layers import Batch
from models.priors import Prior, Site
from models.validation import in_precision

__all__ = [
    "Constant",
    "Parameter",
    "as_arrays",
    "check_names",
    "code_of",
    "hashable",
    "inputs",
    "module_weights",
    "rows_of_outputs",
    "sampled",
]

_WEIGHTS = ("kernel", "embedding")  # flax's names for what is called a weight here
_LIBRARIES = ("flax", "equinox", "jax", "jaxlib", "numpy", "builtins")


class Parameter:
    """An array of a module that becomes a site. Equal to another one at the same place, of the same shape.

    Not a dataclass: its numbers belong to the architecture, and a sweep over the numbers of a prior leaves them alone.

    Args:
        path: where it is in the module.
        value: its value in the module; where all its numbers are the same, samplers start around them.
        fan_in: how many inputs one unit sums over.
        inputs_first: whether the last axis of a weight is its units.
    """

    def __init__(self, path: tuple[Any, ...], value: np.ndarray, fan_in: int, inputs_first: bool = True) -> None:
        *module, name = (str(part) for part in path)
        self.path, self.shape = path, tuple(value.shape)
        start = float(value.flat[0]) if value.size and (value == value.flat[0]).all() else 0.0
        kind = "weight" if name in _WEIGHTS else name
        self.site = Site(".".join(module) or "module", kind, fan_in, start, inputs_first)

    def _key(self) -> tuple[Any, ...]:
        return self.path, self.shape, self.site

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameter) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"{self.site.name} {self.shape}"


class Constant:
    """An array of a module that stays as it is, such as a table of indices; hashable by its bytes."""

    def __init__(self, path: tuple[Any, ...], value: np.ndarray) -> None:
        self.path, self.value = path, np.array(value)

    def _key(self) -> tuple[Any, ...]:
        return self.path, self.value.shape, str(self.value.dtype), self.value.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.value.tobytes()).hexdigest()
        return f"{self.path} {self.value.shape} {self.value.dtype} {digest}"


def sampled(parameters: Iterable[Parameter], prior: Prior) -> dict[tuple[Any, ...], Array]:
    """Every parameter by its path, drawn from the prior."""
    layers: dict[str, Prior] = {}
    values = {}
    for parameter in parameters:
        site = parameter.site
        if site.layer not in layers:
            layers[site.layer] = prior.for_layer(site.layer)
        values[parameter.path] = layers[site.layer].sample(site, parameter.shape)
    return values


def module_weights(architecture: Any, module: Any) -> dict[str, np.ndarray] | None:
    """The values of a module's parameters by their sites, if `architecture` was lifted from one like it; else None.

    Raises:
        ValueError: if the module has other parameters than the one that was lifted.
    """
    values = architecture.values_of(module) if hasattr(architecture, "values_of") else None
    if values is None:
        return None
    for parameter in architecture.parameters:
        shape = np.shape(values.get(parameter.path))
        if parameter.path not in values or shape != parameter.shape:
            raise ValueError(
                f"start is a {type(module).__name__} whose '{parameter.site.name}' has shape {shape}, and the network "
                f"was lifted from one where it has {parameter.shape}"
            )
    return {parameter.site.name: np.asarray(values[parameter.path]) for parameter in architecture.parameters}


def rows_of_outputs(outputs: Array, x: Batch, wanted: int, name: str) -> Array:
    """The outputs as (n, k), with k what the likelihood wants.

    Raises:
        ValueError: if they are not one row of `wanted` numbers for each row of `x`.
    """
    shape = getattr(outputs, "shape", None)
    if shape == (len(x),) and wanted == 1:
        return outputs[:, None]
    if shape != (len(x), wanted):
        raise ValueError(
            f"{name} gives outputs of shape {shape} for {len(x)} rows, and the likelihood needs ({len(x)}, {wanted}); "
            "change its last layer, or the likelihood"
        )
    return outputs


def inputs(x: np.ndarray, precision: str, name: str, words: int | None = None) -> np.ndarray:
    """`x` as floats in `precision`; whole numbers, such as tokens, stay whole.

    Raises:
        ValueError: for images of whole numbers, and for tokens beyond the largest table of embeddings, of `words`.
    """
    if x.dtype.kind not in "iu":
        return in_precision("x", x, precision)
    if x.ndim > 3:
        raise ValueError(
            f"x holds {x.dtype} images with values up to {x.max()}, and a network takes floats; scale them first, for "
            "instance by x / 255"
        )
    if words is not None and not (0 <= x.min() and x.max() < words):
        raise ValueError(f"x has tokens from {x.min()} to {x.max()}, and {name} embeds 0 to {words - 1}")
    return x.astype(np.int32)


def check_names(parameters: Iterable[Parameter], name: str) -> None:
    """Require parameters, each with a name of its own."""
    names = [parameter.site.name for parameter in parameters]
    if not names:
        raise ValueError(f"{name} has no parameters, so there is nothing to infer")
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise ValueError(f"{name} has two parameters that are both called '{twice[0]}'; rename one of them")


def code_of(parts: Iterable[Any], what: Iterable[Any]) -> str:
    """A fingerprint of a module: the source of the user's classes, settings such as strides, and `what` it holds.

    The same in every process, and wherever the user's classes are imported from. The source of a library's class is
    left out, because it changes from release to release.
    """
    lines = [repr(each) for each in what]
    for part in parts:
        settings = sorted((name, _setting(value)) for name, value in vars(part).items() if not name.startswith("_"))
        lines.append(f"{_code(type(part))} {settings}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _code(value: Any) -> str:
    """A class or function: by its name if it is a library's, by its name and source if it is the user's own."""
    name = getattr(value, "__qualname__", type(value).__qualname__)
    library = (getattr(value, "__module__", None) or "").partition(".")[0]
    if library in _LIBRARIES:
        return f"{library} {name}"
    try:
        return f"{name} {inspect.getsource(inspect.unwrap(value))}"
    except (OSError, TypeError):  # defined where there is no file, such as an interactive session
        return str(name)


def _setting(value: Any) -> str:
    """A setting of a layer in words that are the same in every process; of anything else, what kind of thing it is."""
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    if isinstance(value, partial):
        return f"partial {_setting(value.func)} {_setting(value.args)} {_setting(value.keywords)}"
    if isinstance(value, Mapping):
        return repr(sorted((str(key), _setting(item)) for key, item in value.items()))
    if isinstance(value, tuple | list):
        return repr([_setting(item) for item in value])
    if callable(value) and hasattr(value, "__name__"):
        return _code(value)
    return type(value).__qualname__


def hashable(name: str, value: Any) -> None:
    """Raise TypeError if part of a module can't be hashed, and say what to do about it."""
    try:
        hash(value)
    except TypeError as error:
        raise TypeError(
            f"{name} has an attribute that can't be compared by value ({error}); make lists of settings tuples"
        ) from error


def as_arrays(constants: Iterable[Constant]) -> dict[tuple[Any, ...], Array]:
    """Every constant by its path."""
    return {constant.path: jnp.asarray(constant.value) for constant in constants}
