"""A small run in a directory: how it crashes, what it saved last, and how its description is forged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import inference
import models
from inference.disk.journal import Journal
from inference.engine.pace import pace

__all__ = ["MODEL", "OPTIONS", "TINY", "X", "Y", "crash_after", "newest_save", "reseal_description", "same"]

X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
Y = np.sin(X[:, 0])
MODEL = models.mlp((4,), "tanh", likelihood=models.Gaussian(scale=0.5))
TINY = {"piece_seconds": 1e-9, "saving_share": 0.0}
"""A pace of pieces as small as can be, with a save after each."""
OPTIONS = dict(method="nuts", chains=2, draws=30, warmup=5, max_tree_depth=3, start="random", progress=False)


@contextmanager
def crash_after(saves: int, **changes: int) -> Iterator[None]:
    """Lets a run die after a number of saves, in pieces as small as can be; the changes are of its pace."""
    original, counted = Journal.save, []

    def save(self, *args):
        original(self, *args)
        counted.append(self)
        if len(counted) == saves:
            raise KeyError("crash")

    with pytest.MonkeyPatch.context() as patch, pace(**TINY, **changes):
        patch.setattr(Journal, "save", save)
        with pytest.raises(KeyError, match="crash"):
            yield


def same(first: inference.Posterior, second: inference.Posterior) -> bool:
    """Whether two posteriors have the same draws and statistics, bit for bit."""
    return all(np.array_equal(first.draws[name], second.draws[name]) for name in first.draws) and all(
        np.array_equal(first.statistics[name], second.statistics[name]) for name in first.statistics
    )


def newest_save(directory: Path) -> dict:
    """The manifest of the last save, of the two that are kept."""
    saves = [json.loads(json.loads(path.read_text())["manifest"]) for path in directory.glob("chains/manifest-*.json")]
    assert len(saves) == 2
    return max(saves, key=lambda save: save["number"])


def reseal_description(directory: Path, change) -> None:
    """A changed or hostile description with a right checksum."""
    path = directory / "run.json"
    described = json.loads(path.read_text())
    del described["sha256"], described["format"]
    change(described)
    digest = hashlib.sha256(json.dumps(described).encode()).hexdigest()
    path.write_text(json.dumps({"format": 1, "sha256": digest, **described}))
