"""Damage in a run's directory: flipped bytes, torn files, full disks; it is named, and what is lost computed anew."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import inference
import models
from inference.engine.pace import pace
from tests.helpers.small_run import MODEL, OPTIONS, TINY, X, Y, crash_after, newest_save, same


def _flip(path: Path, place: int) -> None:
    contents = bytearray(path.read_bytes())
    contents[place] ^= 0x10
    path.write_bytes(contents)


def test_a_flipped_byte_of_a_draw_is_found_and_its_chain_computed_anew(unfinished, plain):
    values = np.load(unfinished / "chains" / "draws-001.npy", mmap_mode="r+")
    values[1, 2] += 1
    values.flush()
    with pytest.warns(UserWarning, match=r"draws-001.npy: draws \d to \d of chain 1 are damaged; it is computed anew"):
        resumed = inference.resume(unfinished, progress=False)
    assert same(plain, resumed)


@pytest.mark.parametrize("damage", ["draws", "state"])
def test_damage_in_a_finished_run_is_computed_anew(tmp_path, plain, damage):
    inference.run(MODEL, X, Y, directory=tmp_path / "a", save_every=1e-9, **OPTIONS)
    stage = tmp_path / "a" / "chains"
    if damage == "draws":
        values = np.load(stage / "draws-000.npy", mmap_mode="r+")
        values[0, 0] += 1
        values.flush()
    else:
        for path in stage.glob("state-*"):
            _flip(path, 3)
    with pytest.warns(UserWarning, match="damaged|no state is whole"):
        resumed = inference.resume(tmp_path / "a", progress=False)
    assert resumed.ended == "draws"
    assert same(plain, resumed)


def test_one_who_looks_sees_what_is_before_the_damage(unfinished, plain):
    kept = newest_save(unfinished)["chains"][0]["kept"]
    column = next(i for i, each in enumerate(plain.draws) if each == "hidden0.weight")  # 3 draws a chunk
    values = np.load(unfinished / "chains" / f"draws-{column:03}.npy", mmap_mode="r+")
    values[0, kept - 1] = 0
    values.flush()
    with pytest.warns(
        UserWarning, match=rf"draws-{column:03}.npy: draws \d+ to \d+ of chain 0 are damaged; .* cut off"
    ):
        seen = inference.load(unfinished)
    assert kept - 3 <= seen.shape[1] < kept
    for name, each in seen.draws.items():
        np.testing.assert_array_equal(each, plain.draws[name][:, : seen.shape[1]])


@pytest.mark.parametrize("place", [0, -1])
def test_a_flipped_byte_of_the_state_is_found_and_the_save_before_it_used(unfinished, plain, place):
    newest = newest_save(unfinished)["place"]
    _flip(unfinished / "chains" / f"state-{newest}.bin", place)
    with pytest.warns(UserWarning, match=rf"state-{newest}.bin is damaged; the save before it is used"):
        resumed = inference.resume(unfinished, progress=False)
    assert same(plain, resumed)


def test_a_flipped_byte_of_the_manifest_is_found_and_the_save_before_it_used(unfinished, plain):
    newest = newest_save(unfinished)["place"]
    path = unfinished / "chains" / f"manifest-{newest}.json"
    _flip(path, len(path.read_bytes()) // 2)
    with pytest.warns(UserWarning, match=rf"manifest-{newest}.json is damaged"):
        resumed = inference.resume(unfinished, progress=False)
    assert same(plain, resumed)


@pytest.mark.parametrize("damage", ["both states", "a column is gone", "a column is cut", "all manifests"])
def test_worse_damage_begins_anew(unfinished, plain, damage):
    stage = unfinished / "chains"
    if damage == "both states":
        for path in stage.glob("state-*"):
            _flip(path, 5)
    elif damage == "a column is gone":
        (stage / "draws-000.npy").unlink()
    elif damage == "a column is cut":
        os.truncate(stage / "draws-000.npy", 200)
    else:
        for path in stage.glob("manifest-*"):
            path.write_text("{")
    with pytest.warns(UserWarning, match="damaged|anew"):
        resumed = inference.resume(unfinished, progress=False)
    assert same(plain, resumed)


def test_after_a_second_crash_nothing_is_taken_for_damage(unfinished, plain):
    with crash_after(3):
        inference.resume(unfinished, progress=False, save_every=1e-9)
    assert same(plain, inference.resume(unfinished, progress=False))  # a warning would be an error


def test_damaged_data_are_refused(unfinished):
    _flip(unfinished / "arguments-1.npy", -1)
    with pytest.raises(ValueError, match=r"arguments-1.npy .* damaged: it is not the array that the run was given"):
        inference.resume(unfinished)


def test_a_changed_description_is_found(unfinished):
    path = unfinished / "run.json"
    path.write_text(path.read_text().replace('"temperature": 1.0', '"temperature": 3.0'))
    for read in (inference.resume, inference.load):
        with pytest.raises(ValueError, match=r"run.json can't be read, or it is damaged: its SHA-256 is another"):
            read(unfinished)


def test_a_full_disk_stops_the_run_and_leaves_what_was_saved(tmp_path, monkeypatch, plain):
    written, original = [], os.pwrite

    def pwrite(descriptor, contents, place):
        written.append(len(contents))
        if len(written) > 60:
            original(descriptor, bytes(contents)[: len(contents) // 2], place)  # as much as there was room for
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(descriptor, contents, place)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pace(**TINY), pytest.raises(OSError, match=r"the disk of .* is full; what was saved is intact: make room"):
        inference.run(MODEL, X, Y, directory=tmp_path / "a", save_every=1e-9, **OPTIONS)
    monkeypatch.undo()
    assert newest_save(tmp_path / "a")["chains"][0]["kept"] > 0
    assert same(plain, inference.resume(tmp_path / "a", progress=False))


def test_a_disk_that_is_really_full(tmp_path):
    mounted = tmp_path / "small"
    mounted.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(mounted)], capture_output=True)
    if done.returncode:
        pytest.skip("a small file system can't be mounted here: " + done.stderr.decode().strip())
    try:
        options = {**OPTIONS, "draws": 60, "start": "random"}
        model = models.mlp((100,), "tanh", likelihood=models.Gaussian(scale=0.5))
        with pytest.raises(OSError, match=r"needs 6\.\d MB for all draws, and its disk has 0\.\d MB left; keep fewer"):
            inference.run(model, X, Y, directory=mounted / "a", **{**options, "draws": 2000})
        filler = mounted / "filler"
        plain = inference.run(model, X, Y, **options)
        filler.write_bytes(bytes(400_000))
        shutil.rmtree(mounted / "a")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda path: _Free())  # as if the filler came later
            with pace(**TINY), pytest.raises(OSError, match="is full; what was saved is intact"):
                inference.run(model, X, Y, directory=mounted / "a", save_every=1e-9, **options)
        filler.unlink()
        assert same(plain, inference.resume(mounted / "a", progress=False))
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=True)


class _Free:
    free = 2**40


def test_what_a_kill_left_half_written_is_removed(unfinished):
    for name in (".run.json.0a1b2c3d4e5f", "chains/.state-0.bin.0a1b2c3d4e5f", "chains/.manifest-1.json.0a1b2c3d4e5f"):
        (unfinished / name).write_text("half")
    inference.resume(unfinished, progress=False)
    assert not [path for path in unfinished.rglob(".*")]
