"""Hostile directories of runs: links, pipes, absurd sizes, pickles and forged files; nothing in them runs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import inference
from tests.helpers.small_run import same


@pytest.mark.parametrize("what", ["run.json", "arguments-0.npy", "chains"])
def test_links_are_refused(unfinished, tmp_path, what):
    shutil.move(unfinished / what, tmp_path / "outside")
    (unfinished / what).symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match="a link"):
        inference.resume(unfinished, progress=False)


@pytest.mark.parametrize("what", ["state", "manifest", "draws", "scalars"])
def test_a_link_is_taken_for_damage_and_never_written_to(unfinished, tmp_path, plain, what):
    for path in sorted(unfinished.glob(f"chains/{what}-*")):
        shutil.move(path, tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
    before = {path.name: path.read_bytes() for path in tmp_path.glob(f"{what}-*")}
    with pytest.warns(UserWarning, match="damaged|no state is whole"):
        assert same(plain, inference.resume(unfinished, progress=False))
    assert {path.name: path.read_bytes() for path in tmp_path.glob(f"{what}-*")} == before


@pytest.mark.parametrize("name", ["run.json", "chains/state-0.bin", "chains/state-1.bin", "chains/manifest-0.json"])
def test_absurd_sizes_are_not_read(unfinished, name, plain):
    os.truncate(unfinished / name, 2**42)  # sparse
    if name == "run.json":
        with pytest.raises(ValueError, match="more than such a file can have"):
            inference.resume(unfinished)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of damage, if it is the newest
            assert same(plain, inference.resume(unfinished, progress=False))


def _pickled() -> bytes:
    class Bomb:
        def __reduce__(self):
            return (os._exit, (77,))  # would end the tests

    payload = io.BytesIO()
    np.save(payload, np.array([Bomb()], dtype=object), allow_pickle=True)
    return payload.getvalue()


@pytest.mark.parametrize("name", ["arguments-0.npy", "chains/draws-000.npy", "chains/scalars-000.npy"])
def test_pickles_do_not_run(unfinished, name, plain):
    (unfinished / name).write_bytes(_pickled())
    if "/" in name:
        with pytest.warns(UserWarning, match="damaged"):
            assert same(plain, inference.resume(unfinished, progress=False))
    else:
        with pytest.raises(ValueError, match="can't be read, or it is damaged"):
            inference.resume(unfinished)


def _reseal(directory: Path, change) -> None:
    """A hostile manifest with a right checksum."""
    for path in directory.glob("chains/manifest-*.json"):
        manifest = json.loads(json.loads(path.read_text())["manifest"])
        change(manifest)
        text = json.dumps(manifest)
        path.write_text(json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "manifest": text}))


def test_a_name_is_no_path(unfinished):
    _reseal(unfinished, lambda manifest: manifest["columns"][0].update(name="../../outside"))
    before = sorted(unfinished.parent.rglob("*"))
    with pytest.raises(ValueError, match="holds other sites or shapes than this run has"):
        inference.resume(unfinished)
    assert sorted(unfinished.parent.rglob("*")) == before
