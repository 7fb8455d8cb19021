"""A small run in a directory: how it crashes, what it saved last, and how its description is forged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import inference
import models
from inference.disk import journal
from inference.engine import chain as chains

__all__ = ["MODEL", "OPTIONS", "X", "Y", "crash_after", "newest_save", "reseal_description", "same"]

X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
Y = np.sin(X[:, 0])
MODEL = models.mlp((4,), "tanh", likelihood=models.Gaussian(scale=0.5))
OPTIONS = dict(method="nuts", chains=2, draws=30, warmup=5, max_tree_depth=3, start="random", progress=False)


def crash_after(patch: pytest.MonkeyPatch, saves: int) -> None:
    """Lets a run die after a number of saves, in pieces as small as can be."""
    original, counted = journal.Journal.save, []
    patch.setattr(journal, "_SHARE", 0)  # save after every piece
    patch.setattr(chains, "_PIECE_SECONDS", 1e-9)

    def save(self, *args):
        original(self, *args)
        counted.append(self)
        if len(counted) == saves:
            raise KeyError("crash")

    patch.setattr(journal.Journal, "save", save)


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
