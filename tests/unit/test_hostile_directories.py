"""Hostile directories of runs: links, pipes, absurd sizes, pickles and forged files; nothing in them runs."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path

import pytest

import inference
from tests.helpers.small_run import reseal_description


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


def _reseal(directory: Path, change) -> None:
    """A hostile manifest with a right checksum."""
    for path in directory.glob("chains/manifest-*.json"):
        manifest = json.loads(json.loads(path.read_text())["manifest"])
        change(manifest)
        text = json.dumps(manifest)
        path.write_text(json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "manifest": text}))


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
