"""What a sweep varies: temperatures, scales of a normal prior, or priors; and what is run for each value."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from models import Network, Normal, Prior, Rules, Univariate
from models.rules import as_prior
from models.validation import positive_number

__all__ = ["Case", "varied"]


class Case(NamedTuple):
    """One value of what is varied.

    Attributes:
        value: a temperature, a scale or a prior.
        label: the same in words.
        folder: the name of the folder of its runs, which does not depend on the other values.
        model: that is run.
        temperature: at which it is run.
    """

    value: Any
    label: str
    folder: str
    model: Callable[..., Any]
    temperature: float


def varied(
    model: Callable[..., Any], temperature: Any, prior_scale: Any, prior: Any
) -> tuple[str, list[Case], int | None]:
    """What is varied, its values, and the place of that which is the model's own."""
    given = {"temperature": temperature, "prior_scale": prior_scale, "prior": prior}
    lists = [name for name, value in given.items() if _several(name, value)]
    if len(lists) != 1:
        got = (
            f"got lists for {' and '.join(lists)}; call it once for each value of one of them" if lists else "got none"
        )
        raise ValueError(
            f"sweep varies one thing, temperature, prior_scale or prior, given as a list such as "
            f"temperature=[0.1, 0.3, 1.0]: {got}"
        )
    (name,) = lists
    for other in ("prior_scale", "prior"):
        if other != name and given[other] is not None:
            raise ValueError(f"{other} must be a list to sweep over; one prior for all runs belongs to the model")
    if name != "temperature":
        positive_number("temperature", temperature)
        if not isinstance(model, Network):
            raise TypeError(f"a sweep over {name} needs a network of models, got {type(model).__name__}")
    values = list(given[name])
    if not values:
        raise ValueError(f"{name} must have at least one value, got an empty list")
    cases = _priors(model, given[name], temperature) if name == "prior" else _numbered(model, name, values, temperature)
    for what in ("label", "folder"):
        words = [getattr(case, what) for case in cases]
        twice = [word for word in words if words.count(word) > 1]
        if twice:
            raise ValueError(f"{name} has {twice[0]} twice; each value is run once, with every seed")
    own = [case.temperature == 1 if name == "temperature" else case.model == model for case in cases]
    return name, cases, own.index(True) if any(own) else None


def _numbered(model: Any, name: str, values: list[Any], temperature: Any) -> list[Case]:
    """Temperatures, or scales of a normal prior."""
    for value in values:
        positive_number(name, value)
    numbers = [float(value) for value in values]
    if name == "prior_scale" and not isinstance(model.prior, Normal):
        raise ValueError(
            f"prior_scale varies the scale of a models.Normal prior, and this network has {_described(model.prior)}; "
            "give prior a list of priors instead"
        )
    short = [f"{number:.4g}" for number in numbers]
    labels = short if len(set(short)) == len(set(numbers)) else [repr(number) for number in numbers]
    cases = []
    for number, label in zip(numbers, labels, strict=True):
        folder = f"{name}-{number!r}"
        if name == "temperature":
            cases.append(Case(number, label, folder, model, number))
        else:
            own = replace(model, prior=replace(model.prior, scale=number))
            cases.append(Case(number, label, folder, own, float(temperature)))
    return cases


def _priors(model: Any, priors: Any, temperature: Any) -> list[Case]:
    """Priors by the user's names for them, or by their own."""
    if isinstance(priors, Mapping) and {"default", "weight", "bias"} & set(priors):
        raise ValueError("prior is one set of rules by layer and kind; to sweep over such sets put them in a list")
    named = priors if isinstance(priors, Mapping) else dict(enumerate(priors))
    cases = []
    for key, value in named.items():
        prior = as_prior(value)
        described = _described(prior)
        family = re.sub(r"[^A-Za-z0-9]+", "-", described).strip("-")[:60]
        folder = f"prior-{family}-{hashlib.sha256(repr(prior).encode()).hexdigest()[:8]}"
        label = str(key) if isinstance(priors, Mapping) else described
        cases.append(Case(prior, label, folder, replace(model, prior=prior), float(temperature)))
    return cases


def _described(prior: Prior) -> str:
    """A prior in a few words: Normal(1, fan_in), Laplace(0, 1)."""
    if isinstance(prior, Univariate):
        return f"{prior.family}({', '.join(f'{value:g}' for _, value in prior.parameters)})"
    if isinstance(prior, Rules):
        return "{" + ", ".join(f"{key}: {_described(rule)}" for key, rule in prior.rules) + "}"
    record: Any = prior
    names: list[str] = [item.name for item in fields(record)] if is_dataclass(prior) else []
    words: list[str] = []
    for name in names:
        value = getattr(record, name)
        if isinstance(value, bool):
            words += [name] * value
        else:
            words.append(_described(value) if isinstance(value, Prior) else _short(value))
    return f"{type(prior).__name__}({', '.join(words)})"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _several(name: str, value: Any) -> bool:
    """Whether an argument is a list of values."""
    if name == "prior":
        return isinstance(value, list | tuple | Mapping)
    return isinstance(value, list | tuple | range) or (isinstance(value, np.ndarray) and value.ndim == 1)
