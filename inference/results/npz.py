"""Posteriors in a file: one `.npz` of plain arrays and a JSON text, nothing of which can run code.

A model is stored as a recipe (`models.to_recipe`). A built-in one comes back by itself. A user's own model, or a
network with a function of the user's, is passed to `inference.load` again, and its recipe, with the names and the code
of its functions, must be the one that was saved.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from data.files import replacing
from inference.results.posterior import Posterior
from models import to_recipe

__all__ = ["FORMAT", "GROUPS", "save"]

FORMAT = 4
"""The version of the file format."""

GROUPS = ("draws", "statistics", "curves", "observed", "guide")
"""The attributes of a posterior that are arrays by name."""


def save(posterior: Posterior, path: str | Path) -> None:
    """Write a posterior to a file; one that exists is replaced in one step."""
    path = Path(path)
    record: dict[str, Any] = {
        "format": FORMAT,
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
        "origin": None if posterior.origin is None else posterior.origin.to_json(),
        "names": {group: list(getattr(posterior, group)) for group in GROUPS},
    }
    arrays = {f"{group}.{i}": values for group in GROUPS for i, values in enumerate(getattr(posterior, group).values())}
    arrays["probes"] = posterior.probes
    if posterior.functions is not None:
        arrays["functions"] = posterior.functions
    if posterior.averages is not None:
        arrays |= {f"averages.{name}": values for name, values in posterior.averages.average._asdict().items()}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, record=np.asarray(json.dumps(record)), **arrays)
