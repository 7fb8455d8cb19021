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
from tests.helpers.small_run import reseal_description, same


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


@pytest.mark.parametrize("name", ["run.json", "arguments-0.npy", "chains/manifest-0.json", "chains/draws-000.npy"])
def test_a_pipe_does_not_hang(unfinished, name):
    (unfinished / name).unlink()
    os.mkfifo(unfinished / name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damage, where it is taken for that
        if "manifest" in name:
            assert inference.load(unfinished).shape[1] > 0  # by the other one
        else:
            with pytest.raises(ValueError, match=r"regular file|no draws that can be read"):
                inference.load(unfinished)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest["columns"][0].update(dtype="|O"),
        lambda manifest: manifest["columns"][0].update(shape=[2, 10**12, 4]),
        lambda manifest: manifest["chains"][0].update(kept=10**9),
        lambda manifest: manifest["chains"][0].update(kept=-3),
        lambda manifest: manifest.update(place="../../../etc/passwd"),
        lambda manifest: manifest.pop("columns"),
        lambda manifest: manifest.update(chains=[]),
        lambda manifest: manifest["chains"][0].update(kept=2.5),
        lambda manifest: manifest["chains"][0].update(done=1e300),
        lambda manifest: manifest["chains"][0].update(gradients=float("inf")),
        lambda manifest: manifest["chains"][0].update(digests=[[1]] * len(manifest["columns"])),
    ],
)
def test_hostile_manifests_are_refused(unfinished, change):
    _reseal(unfinished, change)
    before = sorted(unfinished.parent.rglob("*"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damage, where it is taken for that
        with pytest.raises(ValueError, match=r"can't be read|damaged|no draws that can be read|holds float32"):
            inference.load(unfinished)
    assert sorted(unfinished.parent.rglob("*")) == before


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"format": 1}', '{"format": 99}', '{"format": 1, "model": {"record": "os"}}']
)
def test_hostile_descriptions_are_refused(unfinished, text):
    (unfinished / "run.json").write_text(text)
    for read in (inference.load, inference.resume):
        with pytest.raises(ValueError, match=r"run.json can't be read, or it is damaged"):
            read(unfinished)


@pytest.mark.parametrize(
    "change",
    [
        lambda asked: asked["method"].update(name="magic"),
        lambda asked: asked["method"]["options"].update(draws=-1),
        lambda asked: asked["arguments"].__setitem__(0, {"array": 99}),
        lambda asked: asked.update(seed=[1, "x"]),
        lambda asked: asked.update(model={"record": "os.system"}),
        lambda asked: asked.update(arrays=[{"dtype": "|O", "shape": [1], "sha256": ""}] * 2),
    ],
)
def test_hostile_descriptions_with_a_right_checksum_are_refused(unfinished, change):
    reseal_description(unfinished, change)
    for read in (inference.load, inference.resume):
        with pytest.raises(ValueError, match=r"can't be read|must be|pass it|was begun otherwise"):
            read(unfinished)
