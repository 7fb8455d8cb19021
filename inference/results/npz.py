"""Posteriors on disk: one `.npz` file of plain arrays and a JSON text. Nothing in it can run code.

The directory of a run (`inference.disk.run_directory`) is read as well.

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
from inference.catalogue import METHODS
from inference.host.machine import Cost
from inference.results.posterior import Posterior
from inference.results.running_averages import Average, Averages
from inference.runs.resuming import look
from models import restored_model, to_recipe

__all__ = ["load", "save"]

_FORMAT = 4
_GROUPS = ("draws", "statistics", "curves", "observed", "guide")


def save(posterior: Posterior, path: str | Path) -> None:
    """Write a posterior to a file, which is replaced in one step if it is there."""
    path = Path(path)
    record: dict[str, Any] = {
        "format": _FORMAT,
        "model": to_recipe(posterior.model),
        "method": posterior.method.record(),
        "seed": posterior.seed,
        "temperature": posterior.temperature,
        "tempering": posterior.tempering,
        "cost": asdict(posterior.cost),
        "start": posterior.start,
        "ended": posterior.ended,
        "stopped": list(posterior.stopped.items()),
        "deterministic": posterior.deterministic,
        "notes": posterior.notes,
        "concerns": posterior.concerns,
        "names": {group: list(getattr(posterior, group)) for group in _GROUPS},
    }
    arrays = {
        f"{group}.{i}": values for group in _GROUPS for i, values in enumerate(getattr(posterior, group).values())
    }
    arrays["probes"] = posterior.probes
    if posterior.functions is not None:
        arrays["functions"] = posterior.functions
    if posterior.averages is not None:
        arrays |= {f"averages.{name}": values for name, values in posterior.averages.average._asdict().items()}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, record=np.asarray(json.dumps(record)), **arrays)


def load(path: str | Path, model: Callable[..., Any] | None = None) -> Posterior:
    """Read a posterior that `Posterior.save` wrote, or look into the directory of a run, while it goes on as well.

    Args:
        path: the file, or the directory.
        model: the model, where it is not a built-in one.

    Raises:
        ValueError: if the file is not such a file, the run has no draws yet, or the model is missing or another one.
    """
    if Path(path).is_dir():
        return look(path, model)
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
        stopped = {int(chain): str(why) for chain, why in record["stopped"]}
        average = [arrays[f"averages.{name}"] for name in Average._fields if "averages.size" in arrays]
        seed = record["seed"]
        said = {kind: tuple(str(text) for text in record.get(kind, ())) for kind in ("notes", "concerns")}
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{path} is not a posterior that can be read, or it is damaged: {error}") from error
    model = restored_model(record["model"], model, path)
    likelihood: Any = getattr(model, "likelihood", None)
    return Posterior(
        model=model,
        method=method,
        seed=seed if isinstance(seed, int) else tuple(seed),
        temperature=record["temperature"],
        tempering=record["tempering"],
        cost=cost,
        start=record["start"],
        ended=record["ended"],
        deterministic=tuple(record["deterministic"]),
        probes=arrays["probes"],
        stopped=stopped,
        functions=arrays.get("functions"),
        averages=Averages(Average(*average), likelihood.classes) if average else None,
        notes=said["notes"],
        concerns=said["concerns"],
        **groups,
    )
