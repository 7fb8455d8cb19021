"""What lifted networks share: which arrays of a user's module are unknown, what their sites are called, how they start.

A parameter at the path layers/0/kernel of a module is the site "layers.0.weight": the layer is the path of the module
that holds it, and flax's "kernel" and "embedding" are called "weight", as everywhere here, so that rules by layer and
kind, priors with `fan_in` and guides treat a lifted network as they treat a built-in one.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable
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
    "inputs",
    "module_weights",
    "rows_of_outputs",
    "sampled",
]

_WEIGHTS = ("kernel", "embedding")  # flax's names for what is called a weight here


class Parameter:
    """An array of a module that becomes a site. Equal to another one at the same place, of the same shape.

    Not a dataclass: its numbers belong to the architecture, and a sweep over the numbers of a prior leaves them alone.

    Args:
        path: where it is in the module.
        value: its value in the module; where all its numbers are the same, samplers start around them.
        fan_in: how many inputs one unit sums over.
    """

    def __init__(self, path: tuple[Any, ...], value: np.ndarray, fan_in: int) -> None:
        *module, name = (str(part) for part in path)
        self.path, self.shape = path, tuple(value.shape)
        start = float(value.flat[0]) if value.size and (value == value.flat[0]).all() else 0.0
        self.site = Site(".".join(module) or "module", "weight" if name in _WEIGHTS else name, fan_in, start)

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
        self.path, self.value = path, value

    def _key(self) -> tuple[Any, ...]:
        return self.path, self.value.shape, str(self.value.dtype), self.value.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


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


def inputs(x: np.ndarray, precision: str) -> np.ndarray:
    """`x` as floats in `precision`; whole numbers, such as tokens, stay whole."""
    return x.astype(np.int32) if x.dtype.kind in "iu" else in_precision("x", x, precision)


def check_names(parameters: Iterable[Parameter], name: str) -> None:
    """Require parameters, each with a name of its own."""
    names = [parameter.site.name for parameter in parameters]
    if not names:
        raise ValueError(f"{name} has no parameters, so there is nothing to infer")
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise ValueError(f"{name} has two parameters that are both called '{twice[0]}'; rename one of them")


def code_of(classes: Iterable[type], what: Iterable[Any]) -> str:
    """A fingerprint of the code of a module's classes and of the places and shapes of its parameters."""
    digest = hashlib.sha256(repr([repr(each) for each in what]).encode())
    for each in sorted(set(classes), key=lambda each: each.__qualname__):
        try:
            digest.update(inspect.getsource(each).encode())
        except (OSError, TypeError):  # defined where there is no file, such as an interactive session
            digest.update(each.__qualname__.encode())
    return digest.hexdigest()


def as_arrays(constants: Iterable[Constant]) -> dict[tuple[Any, ...], Array]:
    """Every constant by its path."""
    return {constant.path: jnp.asarray(constant.value) for constant in constants}
