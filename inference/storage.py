"""Posteriors on disk: one `.npz` file of plain arrays and a JSON text. Nothing in it can run code.

A model is stored as a recipe (`models.to_recipe`). A built-in one comes back by itself. A user's own model, or a
network with a function of the user's, is passed to `load` again, and its recipe, with the names and the code of its
functions, must be the one that was saved.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from data.files import replacing
from inference.driver import Cost
from inference.posterior import Posterior
from inference.running import METHODS
from models import from_recipe, to_recipe

__all__ = ["load", "save"]

_FORMAT = 2
_GROUPS = ("draws", "statistics", "curves", "observed")


def save(posterior: Posterior, path: str | Path) -> None:
    """Write a posterior to a file, which is replaced in one step if it is there."""
    path = Path(path)
    record: dict[str, Any] = {
        "format": _FORMAT,
        "model": to_recipe(posterior.model),
        "method": {"name": posterior.method.name, "options": posterior.method.options()},
        "seed": posterior.seed,
        "temperature": posterior.temperature,
        "tempering": posterior.tempering,
        "cost": asdict(posterior.cost),
        "start": posterior.start,
        "ended": posterior.ended,
        "deterministic": posterior.deterministic,
        "names": {group: list(getattr(posterior, group)) for group in _GROUPS},
    }
    arrays = {
        f"{group}.{i}": values for group in _GROUPS for i, values in enumerate(getattr(posterior, group).values())
    }
    arrays["probes"] = posterior.probes
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, record=np.asarray(json.dumps(record)), **arrays)


def load(path: str | Path, model: Callable[..., Any] | None = None) -> Posterior:
    """Read a posterior that `Posterior.save` wrote.

    Args:
        path: the file.
        model: the model, where it is not a built-in one.

    Raises:
        ValueError: if the file is not such a file, or the model is missing or another one.
    """
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        record = json.loads(str(arrays["record"][()]))
        if record["format"] != _FORMAT:
            raise ValueError(f"it has format {record['format']}, this version reads {_FORMAT}")
        groups = {
            group: {name: arrays[f"{group}.{i}"] for i, name in enumerate(record["names"][group])} for group in _GROUPS
        }
        method = METHODS[record["method"]["name"]](**record["method"]["options"])
        cost = Cost(**record["cost"])
        seed = record["seed"]
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is not a posterior that can be read, or it is damaged: {error}") from error
    return Posterior(
        model=_restore_model(record["model"], model, path),
        method=method,
        seed=seed if isinstance(seed, int) else tuple(seed),
        temperature=record["temperature"],
        tempering=record["tempering"],
        cost=cost,
        start=record["start"],
        ended=record["ended"],
        deterministic=tuple(record["deterministic"]),
        probes=arrays["probes"],
        **groups,
    )


def _restore_model(recipe: Any, model: Callable[..., Any] | None, path: str | Path) -> Callable[..., Any]:
    if model is not None:
        if to_recipe(model) != recipe:
            raise ValueError(f"model is not the one in {path}: that is {recipe}, got {to_recipe(model)}")
        return model
    try:
        return from_recipe(recipe)
    except ValueError as error:
        raise ValueError(f"{path} holds draws of your own model; pass it: load(path, model=...) ({error})") from error
