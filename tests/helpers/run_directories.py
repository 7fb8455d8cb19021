"""Shared by the tests of run directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import inference
from inference.engine.pace import pace
from tests.helpers.small_run import MODEL, OPTIONS, X, Y, crash_after

SMALL = 100  # bytes of a chunk: several draws, and several chunks


@pytest.fixture(scope="session")
def plain() -> inference.Posterior:
    """The run that nothing ends early."""
    return inference.run(MODEL, X, Y, **OPTIONS)


@pytest.fixture(scope="session")
def _unfinished(tmp_path_factory):
    """The directory of a run that a crash ended after both places of its saves were used."""
    directory = tmp_path_factory.mktemp("runs") / "a"
    with crash_after(12, chunk_bytes=SMALL):
        inference.run(MODEL, X, Y, directory=directory, save_every=1e-9, **OPTIONS)
    return directory


@pytest.fixture
def unfinished(_unfinished, tmp_path):
    """A copy of that directory, for one test to go on with or to spoil."""
    with pace(chunk_bytes=SMALL):
        yield Path(shutil.copytree(_unfinished, tmp_path / "copy"))
