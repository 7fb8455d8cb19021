"""What a sweep varies: temperatures, scales of a normal prior, or priors; and what is run for each value."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from models import Network, Normal, PartlyFixed, Prior, Rules, Univariate
from models.rules import as_prior
from models.validation import positive_number

__all__ = ["Case", "as_list", "listed", "varied"]


class Case(NamedTuple):
    """One value of what is varied.

    Attributes:
        value: a temperature, a scale or a prior.
        label: the value in words.
        folder: the name of the folder of its runs, which does not depend on the other values.
        model: the model that is run.
        temperature: the temperature at which it is run.
    """

    value: Any
    label: str
    folder: str
    model: Callable[..., Any]
    temperature: float


def varied(
    model: Callable[..., Any], temperature: Any, prior_scale: Any, prior: Any
) -> tuple[str, list[Case], int | None]:
    """The name of what is varied, a case for each value, and the place of the model's own value, if it is there."""
    given = {"temperature": temperature, "prior_scale": prior_scale, "prior": prior}
    lists = [
        name for name, value in given.items() if (name == "prior" and isinstance(value, Mapping)) or listed(name, value)
    ]
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
    values = as_list(given[name])
    if not values:
        raise ValueError(f"{name} must have at least one value, got an empty list")
    cases = _priors(model, given[name], temperature) if name == "prior" else _numbered(model, name, values, temperature)
    for first, second in itertools.combinations(cases, 2):
        if first.label == second.label:
            raise ValueError(f"{name} has {first.label} twice; each value is run once, with every seed")
        if first.folder == second.folder:
            raise ValueError(f"{name}: '{first.label}' and '{second.label}' are the same, {first.value}; leave one out")
    own = [case.temperature == 1 if name == "temperature" else case.model == model for case in cases]
    return name, cases, own.index(True) if any(own) else None


def _numbered(model: Any, name: str, values: list[Any], temperature: Any) -> list[Case]:
    """A case for each of `values`, which are temperatures or scales of a normal prior."""
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
    """A case for each of `priors`, labelled by the user's name for it, or by its own."""
    if isinstance(priors, Mapping) and {"default", "weight", "bias"} & set(priors):
        raise ValueError("prior is one set of rules by layer and kind; to sweep over such sets put them in a list")
    values = [as_prior(value) for value in (priors.values() if isinstance(priors, Mapping) else priors)]
    short = [_described(prior) for prior in values]
    labels = [str(key) for key in priors] if isinstance(priors, Mapping) else short
    if not isinstance(priors, Mapping) and len(set(short)) < len(set(values)):  # some differ in later digits
        labels = [str(prior) for prior in values]
    cases = []
    for prior, label, described in zip(values, labels, short, strict=True):
        family = re.sub(r"[^A-Za-z0-9]+", "-", described).strip("-")[:60]
        folder = f"prior-{family}-{hashlib.sha256(repr(prior).encode()).hexdigest()[:8]}"
        fixed = isinstance(model.prior, PartlyFixed)  # then what is fixed stays so
        changed = replace(model, prior=replace(model.prior, prior=prior) if fixed else prior)
        cases.append(Case(prior, label, folder, changed, float(temperature)))
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


def listed(name: str, value: Any) -> bool:
    """Whether an argument is a list of values: a list, a tuple, a range or an array of one axis.

    Raises:
        TypeError: if it is a collection that has no order, no length or too many axes.
    """
    if isinstance(value, list | tuple | range):
        return True
    axes = np.ndim(value) if hasattr(value, "__array__") else 0
    if axes > 1 or (isinstance(value, Iterable) and not hasattr(value, "__array__")):
        what = f"an array of shape {np.shape(value)}" if axes else f"{type(value).__name__} {value!r}"
        raise TypeError(f"{name} must be a list or an array of one axis to have several values, got {what}")
    return axes == 1


def as_list(values: Any) -> list[Any]:
    """The values of an argument that is `listed`, as a list."""
    return list(np.asarray(values)) if hasattr(values, "__array__") else list(values)
