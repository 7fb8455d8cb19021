"""Reading posteriors: from the file that `Posterior.save` wrote, or from the directory of a run."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from data import Origin
from inference.catalogue import METHODS
from inference.host.machine import Cost
from inference.results.npz import FORMAT, GROUPS
from inference.results.posterior import Posterior
from inference.results.running_averages import Average, Averages
from inference.runs.resuming import look
from models import restored_model

__all__ = ["load"]


def load(path: str | Path, model: Callable[..., Any] | None = None) -> Posterior:
    """Read a posterior that `Posterior.save` wrote, or look into the directory of a run, even while the run goes on.

    Args:
        path: the file, or the directory.
        model: the model, if it is not a built-in one.

    Raises:
        ValueError: if `Posterior.save` did not write the file, the run has no draws yet, or the model is missing or is
            another one.
    """
    if Path(path).is_dir():
        return look(path, model)
    try:
        with open(path, "rb") as raw:
            if not zipfile.is_zipfile(raw):
                raise ValueError("it is no .npz file, or its end is missing")
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        record = json.loads(str(arrays["record"][()]))
        if record["format"] != FORMAT:
            raise ValueError(f"it has format {record['format']}, this version reads {FORMAT}")
        groups = {
            group: {name: arrays[f"{group}.{i}"] for i, name in enumerate(record["names"][group])} for group in GROUPS
        }
        method = METHODS[record["method"]["name"]](**record["method"]["options"])
        cost = Cost(**record["cost"])
        stopped = {int(chain): str(why) for chain, why in record["stopped"]}
        average = [arrays[f"averages.{name}"] for name in Average._fields if "averages.size" in arrays]
        seed = record["seed"]
        origin = None if record.get("origin") is None else Origin.from_json(record["origin"])
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
        origin=origin,
        **groups,
    )
