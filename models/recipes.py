"""Models as JSON: a recipe names a record and its fields, and nothing that is loaded can run code.

Only the records listed here can be made from a recipe. What has no recipe, such as a user's own activation function,
is refused with advice; whoever loads such a model has to pass it again.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from models.classifiers import Bernoulli, Categorical, NoisyLogits
from models.hierarchies import Hierarchical
from models.likelihoods import Gaussian, HeteroscedasticGaussian, StudentTNoise
from models.networks import Network
from models.perceptrons import Perceptron
from models.priors import Flat, Normal, ScaleMixture, Univariate
from models.rules import Rules

__all__ = ["from_recipe", "to_recipe"]

_ARCHITECTURES = (Network, Perceptron)
_PRIORS = (Normal, Univariate, ScaleMixture, Flat, Hierarchical, Rules)
_LIKELIHOODS = (Gaussian, HeteroscedasticGaussian, StudentTNoise, Categorical, Bernoulli, NoisyLogits)
_RECORDS: dict[str, Any] = {record.__name__: record for record in (*_ARCHITECTURES, *_PRIORS, *_LIKELIHOODS)}


def to_recipe(value: Any) -> Any:
    """A model, or a part of one, as JSON values.

    Raises:
        TypeError: for a part that is not built in, such as a function.
    """
    if type(value) in _RECORDS.values():
        parts = {item.name: to_recipe(getattr(value, item.name)) for item in fields(value)}
        return {"record": type(value).__name__, **parts}
    if isinstance(value, tuple):
        return [to_recipe(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"{getattr(value, '__qualname__', type(value).__name__)} has no recipe: only built-in models have one"
    )


def from_recipe(recipe: Any) -> Any:
    """The model that `to_recipe` described; every record checks its fields as when a user makes it."""
    if isinstance(recipe, dict):
        arguments = dict(recipe)
        name = arguments.pop("record", None)
        if name not in _RECORDS:
            raise ValueError(f"a recipe must name one of {', '.join(_RECORDS)}, got {name!r}")
        return _RECORDS[name](**{key: from_recipe(value) for key, value in arguments.items()})
    if isinstance(recipe, list):
        return tuple(from_recipe(item) for item in recipe)
    return recipe
