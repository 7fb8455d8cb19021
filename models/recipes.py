"""Models as JSON: a recipe names a record and its fields, and nothing that is loaded can run code.

Only the records listed here can be made from a recipe. A user's own function, such as an activation, can only be
compared; whoever loads such a model has to pass it again.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from dataclasses import fields, replace
from typing import Any

import numpy as np

from models.architectures.equinox_modules import EquinoxModule
from models.architectures.flax_modules import FlaxModule
from models.architectures.images import LeNet, ResNet
from models.architectures.perceptrons import Perceptron
from models.architectures.sequences import CNNLSTM
from models.architectures.tables import TableInputs
from models.classifiers import Bernoulli, Categorical, NoisyLogits
from models.fixed_weights import PartlyFixed, Weights
from models.hierarchies import Hierarchical
from models.input_covariances import Covariance, EmpCov
from models.likelihoods import Gaussian, HeteroscedasticGaussian, StudentTNoise
from models.networks import Network
from models.priors import Flat, Normal, ScaleMixture, Univariate
from models.rules import Rules

__all__ = ["from_recipe", "has_recipe", "restored_model", "to_recipe"]

_ARCHITECTURES = (Network, Perceptron, TableInputs, LeNet, ResNet, CNNLSTM)
_PRIORS = (Normal, Univariate, ScaleMixture, Flat, Hierarchical, Rules, EmpCov, PartlyFixed)
_LIKELIHOODS = (Gaussian, HeteroscedasticGaussian, StudentTNoise, Categorical, Bernoulli, NoisyLogits)
_LONG = 2000  # characters of a recipe in a message
_RECORDS: dict[str, Any] = {record.__name__: record for record in (*_ARCHITECTURES, *_PRIORS, *_LIKELIHOODS)}


def to_recipe(value: Any) -> Any:
    """A model, or a part of one, as JSON values.

    A function, such as a user's own model or activation, or a lifted network is written down by its name and a hash of
    its code: enough to compare it with another one, not to make it again.

    Raises:
        TypeError: for a part that is neither a built-in record, nor a function, nor a plain value.
    """
    if type(value) in _RECORDS.values():
        parts = {item.name: to_recipe(getattr(value, item.name)) for item in fields(value)}
        return {"record": type(value).__name__, **parts}
    if isinstance(value, tuple):
        return [to_recipe(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Covariance):
        return {"covariance": value.to_json()}
    if isinstance(value, Weights):
        return {"weights": value.to_json()}
    if isinstance(value, FlaxModule | EquinoxModule):
        return {"function": value.name, "code": value.fingerprint}
    if callable(value):
        return {"function": getattr(value, "__qualname__", type(value).__qualname__), "code": _code_hash(value)}
    raise TypeError(f"{type(value).__name__} has no recipe: only built-in models have one")


def has_recipe(model: Any) -> bool:
    """Whether a model is made of built-in records alone, and so equal to any other with the same recipe."""
    return '"function":' not in json.dumps(to_recipe(model))


def _code_hash(function: Any) -> str:
    """A hash of a function's byte code with the code inside it; what it reads from outside is not looked at."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None and not isinstance(function, type):
        code = getattr(type(function).__call__, "__code__", None)
    digest = hashlib.sha256()

    def add(code: Any) -> None:
        digest.update(code.co_code + repr((code.co_names, code.co_varnames)).encode())
        for constant in code.co_consts:
            if hasattr(constant, "co_code"):
                add(constant)
                continue
            if isinstance(constant, frozenset):  # its order differs between processes
                constant = sorted(map(repr, constant))
            digest.update(repr(constant).encode())

    if code is not None:
        add(code)
    return digest.hexdigest()


def from_recipe(recipe: Any) -> Any:
    """The model that `to_recipe` described; every record checks its fields as when a user makes it."""
    if isinstance(recipe, dict):
        arguments = dict(recipe)
        if "function" in arguments:
            raise _Own(f"the recipe needs your own function '{arguments['function']}', which it can't make")
        if "covariance" in arguments and len(arguments) == 1:
            return Covariance.from_json(arguments["covariance"])
        if "weights" in arguments and len(arguments) == 1:
            return Weights.from_json(arguments["weights"])
        name = arguments.pop("record", None)
        if name not in _RECORDS:
            raise ValueError(f"a recipe must name one of {', '.join(_RECORDS)}, got {name!r}")
        return _RECORDS[name](**{key: from_recipe(value) for key, value in arguments.items()})
    if isinstance(recipe, list):
        return tuple(from_recipe(item) for item in recipe)
    return recipe


def restored_model(recipe: Any, model: Any, where: Any) -> Any:
    """The model stored in `where`: made from `recipe`, or the user's own `model` if it has the same recipe.

    Raises:
        ValueError: if `model` has another recipe, or is missing where `recipe` alone can't make it.
    """
    try:
        if model is None:
            return from_recipe(recipe)
        own, fixed = to_recipe(model), _fixed_part(recipe)
        if own == recipe:
            return model
        if fixed is not None and own == {**recipe, "prior": recipe["prior"]["prior"]}:
            return replace(model, prior=PartlyFixed(model.prior, fixed))  # of the same network, a part is stochastic
    except _Own as error:
        raise ValueError(
            f"{where} holds draws of your own model; pass it: inference.load(path, model=...) ({error})"
        ) from error
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"the model in {where} can't be read, or it is damaged: {error}") from error
    raise ValueError(f"model is not the one in {where}: that is {_short(recipe)}, got {_short(own)}")


class _Own(ValueError):
    """A recipe that needs a function or a network of the user's own."""


def _fixed_part(recipe: Any) -> Weights | None:
    """The weights that are fixed in the network of a recipe; None if there are none."""
    prior = recipe.get("prior") if isinstance(recipe, dict) else None
    if not isinstance(prior, dict) or prior.get("record") != PartlyFixed.__name__:
        return None
    return Weights.from_json(prior["weights"]["weights"])


def _short(recipe: Any) -> str:
    """A recipe in words, without the numbers of arrays."""
    text = re.sub(r"'[A-Za-z0-9+/=]{100,}'", "'...'", repr(recipe))
    return text if len(text) < _LONG else f"{text[:_LONG]}..."
