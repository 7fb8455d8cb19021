"""Runs with the same methods and options, but few iterations: for what must run, and whose numbers nobody looks at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace

import pytest

from inference import catalogue
from inference.methods import Method
from inference.runs import folds, running, starts
from inference.sweeps import sweeping

__all__ = ["shortened"]

FEW = {"draws": 24, "steps": 100, "warmup": 60, "tuning": 20, "thin": 5}


@contextmanager
def shortened() -> Iterator[None]:
    """Let `run`, `run_folds` and `sweep` make at most a few iterations, whatever they were asked for."""

    def chosen_method(method: str | Method, options: dict[str, object]) -> Method:
        asked = catalogue.chosen_method(method, options)
        counts = {field.name: getattr(asked, field.name) for field in fields(asked) if field.name in FEW}
        fewer = {name: FEW[name] if count is None else min(count, FEW[name]) for name, count in counts.items()}
        return replace(asked, **fewer)

    with pytest.MonkeyPatch.context() as patch:
        for module in (running, folds, sweeping):
            patch.setattr(module, "chosen_method", chosen_method)
        patch.setattr(starts, "_STEPS", FEW["steps"])
        yield
