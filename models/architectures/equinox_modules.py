"""A user's own equinox network, an `eqx.Module`, as a NumPyro model: `from_equinox`.

The module is called on one row, as equinox has it, and mapped over the rows of a batch. Its arrays of floats become
sites. Because it sees rows one by one, its layers can't be told to draw something for each row: the guides that do so
(dropout, local reparameterisation, flipout) say that they need another network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from models.architectures.lifted import (
    Constant,
    Parameter,
    check_names,
    code_of,
    hashable,
    inputs,
    rows_of_outputs,
    sampled,
)
from models.layers import Batch
from models.likelihoods import Gaussian, Likelihood
from models.networks import Network
from models.priors import Normal, Prior

__all__ = ["EquinoxModule", "from_equinox"]

_STATE = (
    "and a posterior is defined for parameters alone; use eqx.nn.LayerNorm, eqx.nn.GroupNorm, or filter response "
    "normalisation as in models.resnet20_frn"
)
_DROPOUT = (
    "dropout is not a part of the model here but an approximation of its posterior: leave the layer out; MC dropout is "
    'method="svi", guide="dropout" on a network of models or of from_flax'
)


@dataclass(frozen=True)
class EquinoxModule:
    """An `eqx.Module` as an architecture.

    Attributes:
        name: the name of the module's class.
        structure: the tree that the module is.
        leaves: its leaves in order: a `Parameter`, a `Constant`, or anything else as it is.
        words: the size of its largest table of embeddings; None if it has none.
        fingerprint: a hash of the code of its classes, and of the places and shapes of its parameters.
    """

    name: str
    structure: Any
    leaves: tuple[Any, ...]
    words: int | None
    fingerprint: str

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The leaves that are sites."""
        return tuple(leaf for leaf in self.leaves if isinstance(leaf, Parameter))

    def __str__(self) -> str:
        return f"{self.name} (equinox): {', '.join(map(str, self.parameters))}"

    def __call__(self, x: Batch, outputs: int, prior: Prior) -> Array:
        """The module's outputs for each row of a batch, with its parameters drawn from the prior."""
        values = sampled(self.parameters, prior)
        leaves = [
            values[leaf.path] if isinstance(leaf, Parameter) else leaf.value if isinstance(leaf, Constant) else leaf
            for leaf in self.leaves
        ]
        module = jax.tree.unflatten(self.structure, leaves)
        return rows_of_outputs(jax.vmap(module)(x), x, outputs, self.name)

    def values_of(self, module: Any) -> dict[tuple[Any, ...], np.ndarray] | None:
        """The arrays of another module by their paths; None if it is not equinox's."""
        import equinox as eqx

        if not isinstance(module, eqx.Module):
            return None
        with_paths = jax.tree.leaves_with_path(module)
        return {tuple(map(_step, path)): np.asarray(leaf) for path, leaf in with_paths if eqx.is_inexact_array(leaf)}

    def prepared(self, x: np.ndarray, precision: str) -> np.ndarray:
        """`x` in `precision`, with tokens within the table of embeddings; else the module says whether it fits."""
        return inputs(x, precision, self.name, self.words)

    def rows_at_once(self, x: np.ndarray) -> int | None:
        """Blocks of images, which take much memory; as many as the sampler takes by default for tables."""
        return 64 if x.ndim > 3 else None


def from_equinox(
    module: Any,
    prior: Any = Normal(1.0),  # noqa: B008 (frozen)
    likelihood: Likelihood = Gaussian(),  # noqa: B008 (frozen)
) -> Network:
    """An equinox network of your own, an `eqx.Module` that is called on one row, as a NumPyro model.

    Args:
        module: the module; its values are not used, except as a start where a parameter is constant, like the ones of a
            normalisation.
        prior: one prior for all parameters, or several by path, layer and kind; see `models.Rules`. The parameter
            at `module.layers[0].weight` is the site "layers.0.weight", of the layer "layers.0".
        likelihood: the distribution of the targets given the outputs.

    Raises:
        TypeError: if it is not an `eqx.Module`.
        ValueError: if it has state, such as batch statistics, or dropout.
    """
    import equinox as eqx

    if not isinstance(module, eqx.Module):
        raise TypeError(f"from_equinox needs an eqx.Module, got {type(module).__name__}; for flax use from_flax")
    name = type(module).__name__
    parts = _modules(module)
    for part in parts:
        if isinstance(part, eqx.nn.Dropout) and part.p != 0 and not part.inference:
            raise ValueError(f"{name} has a Dropout: {_DROPOUT}")
        if isinstance(part, eqx.nn.StatefulLayer) and part.is_stateful():
            raise ValueError(f"{name} has a {type(part).__name__}, which keeps state, {_STATE}")
    tables = {id(part.weight) for part in parts if isinstance(part, eqx.nn.Embedding)}
    leaves: list[Any] = []
    with_paths, structure = jax.tree.flatten_with_path(module)
    values = {tuple(map(_step, path)): leaf for path, leaf in with_paths}
    for path, leaf in values.items():
        if eqx.is_inexact_array(leaf):
            fan_in = 1 if id(leaf) in tables else _fan_in(path, values)
            leaves.append(Parameter(path, np.asarray(leaf), fan_in, inputs_first=False))
        else:
            leaves.append(Constant(path, np.asarray(leaf)) if eqx.is_array(leaf) else leaf)
    check_names((leaf for leaf in leaves if isinstance(leaf, Parameter)), name)
    hashable(name, (structure, tuple(leaves)))
    arrays = [leaf for leaf in leaves if isinstance(leaf, Parameter | Constant)]  # others are settings of modules
    code = code_of(parts, arrays)
    sizes = [part.num_embeddings for part in parts if isinstance(part, eqx.nn.Embedding)]
    return Network(EquinoxModule(name, structure, tuple(leaves), max(sizes, default=None), code), prior, likelihood)


def _modules(module: Any) -> list[Any]:
    """A module and all modules inside it."""
    import equinox as eqx

    inside = [
        part
        for leaf in jax.tree.leaves(module, is_leaf=lambda leaf: leaf is not module and isinstance(leaf, eqx.Module))
        if isinstance(leaf, eqx.Module)
        for part in _modules(leaf)
    ]
    return [module, *inside]


def _step(step: Any) -> Any:
    """A step of a path: an attribute's name, a place in a list or a key."""
    for name in ("name", "idx", "key"):
        if hasattr(step, name):
            return getattr(step, name)
    return str(step)


def _fan_in(path: tuple[Any, ...], values: dict[tuple[Any, ...], Any]) -> int:
    """The inputs of a unit: all axes of a weight but the first; of a bias, those of the weight beside it."""
    beside = values.get((*path[:-1], "weight"))
    shape = np.shape(values[path] if beside is None else beside)
    return int(np.prod(shape[1:])) if len(shape) > 1 else 1
