"""Directories of runs: saved, looked at and gone on with; what is foreign or in use is refused with its reason."""

from __future__ import annotations

import collections
import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import diagnostics
import inference
import models
from inference.disk import run_directory as directories
from tests.helpers.small_run import MODEL, OPTIONS, X, Y, crash_after, newest_save, reseal_description, same

ROOT = Path(__file__).parents[2]


def test_anyone_can_read_the_draws(unfinished, plain):
    save = newest_save(unfinished)
    first = next(column["name"] for column in save["columns"] if column["group"] == "draws")
    values = np.load(unfinished / "chains" / "draws-000.npy")
    assert values.shape == plain.draws[first].shape
    for chain, part in enumerate(save["chains"]):
        assert 0 < part["kept"] < 30
        np.testing.assert_array_equal(values[chain, : part["kept"]], plain.draws[first][chain, : part["kept"]])


def test_other_options_data_and_seeds_are_refused_with_the_difference(unfinished):
    with pytest.raises(ValueError, match=r"holds the same run; go on with it by inference.resume\("):
        inference.run(MODEL, X, Y, directory=unfinished, **OPTIONS)
    other = {**OPTIONS, "draws": 60}
    with pytest.raises(ValueError, match=r"another run \(method.options.draws: 30 there, 60 here; seed: 0 there, 1"):
        inference.run(MODEL, X, Y, directory=unfinished, seed=1, **other)
    with pytest.raises(ValueError, match=r"arrays\[1\].sha256"):
        inference.run(MODEL, X, Y + 1, directory=unfinished, **OPTIONS)
    with pytest.raises(ValueError, match=r"another run \(method: 'nuts' there, 'map' here\)"):
        inference.run(MODEL, X, Y, directory=unfinished, method="map", progress=False)
    with pytest.raises(ValueError, match="model is not the one in"):
        inference.resume(unfinished, models.mlp((5,)))


def test_other_versions_are_refused_unless_told(unfinished, plain):
    reseal_description(unfinished, lambda asked: asked["versions"].update(jax="0.1"))
    with pytest.raises(ValueError, match=r"was begun otherwise: versions.jax: '0.1' there, .*other_versions=True"):
        inference.resume(unfinished)
    assert same(plain, inference.resume(unfinished, progress=False, other_versions=True))


_SCALE = 1.0


def _mine(y=None):
    w = numpyro.sample("w", dist.Normal(0, _SCALE))
    numpyro.deterministic("twice", 2 * w)
    numpyro.sample("y", dist.Normal(w, 1).expand((3,)).to_event(1), obs=y)


def test_a_run_from_before_an_option_goes_on_with_its_default(unfinished, plain):
    reseal_description(unfinished, lambda asked: asked["method"]["options"].pop("arrangement"))
    assert same(plain, inference.resume(unfinished, progress=False))


def test_an_own_model_is_passed_again_and_compared_by_what_it_computes(tmp_path, monkeypatch):
    options = {**OPTIONS, "max_tree_depth": 3}
    data = np.arange(3.0)
    plain = inference.run(_mine, data, **options)
    with crash_after(5):
        inference.run(_mine, data, directory=tmp_path / "a", save_every=1e-9, **options)
    with pytest.raises(ValueError, match="your own model; pass it"):
        inference.resume(tmp_path / "a")
    monkeypatch.setitem(globals(), "_SCALE", 2.0)
    for read in (inference.resume, inference.load):
        with pytest.raises(ValueError, match="was begun otherwise: identity"):
            read(tmp_path / "a", _mine)
    monkeypatch.undo()
    resumed = inference.resume(tmp_path / "a", _mine, progress=False)
    assert same(plain, resumed)
    assert resumed.deterministic == ("twice",)


def test_arguments_come_back_as_they_were(tmp_path):
    args = (1, 2.5, None, "word", [np.arange(3), {"a": (True, np.float32(2.0))}], np.ones((2, 2), np.float64))
    described, arrays = directories.described(args)
    folder = directories.RunDirectory(tmp_path)
    with folder:
        folder.create({}, arrays)
    back = folder.arguments({"arguments": described, **directories.surroundings(arrays)})
    assert back[:4] == (1, 2.5, None, "word")
    np.testing.assert_array_equal(back[4][0], np.arange(3))
    assert back[4][1] == {"a": (True, 2.0)}
    assert (back[5].dtype, back[5].shape) == (np.float64, (2, 2))
    pair = collections.namedtuple("pair", "a b")
    for value in (lambda: 0, pair(1, 2), collections.OrderedDict(a=1), np.array(["word"])):
        with pytest.raises(TypeError, match="which a directory can't hold without code"):
            directories.described((value,))
    assert directories.differences([float("nan")], [float("nan")]) == []


def test_a_second_process_is_refused_and_a_crash_leaves_no_lock(unfinished):
    code = (
        "import sys, time; from inference.disk.run_directory import RunDirectory\n"
        "with RunDirectory(sys.argv[1]): print('held', flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    holder = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, str(unfinished)], env=environment, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError, match=rf"is in use by another process \({holder.pid}\)"):
            inference.resume(unfinished)
        with pytest.raises(BlockingIOError, match="in use"):
            inference.run(MODEL, X, Y, directory=unfinished, **OPTIONS)
        assert inference.load(unfinished).ended == "unfinished"  # one who looks needs no lock
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    inference.resume(unfinished, progress=False)


def test_a_lock_that_can_not_be_written_is_given_back(unfinished, monkeypatch):
    def write(descriptor, contents):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(OSError, match="is full; what was saved is intact"):
            inference.resume(unfinished)
    inference.resume(unfinished, progress=False)


def test_directories_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no run"):
        inference.resume(tmp_path)
    with pytest.raises(FileNotFoundError):
        inference.resume(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "thesis.tex").write_text("mine")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"is not empty \(thesis.tex\); a run needs a directory of its own"):
        inference.run(MODEL, X, Y, directory=tmp_path, **OPTIONS)
    assert sorted(tmp_path.iterdir()) == before


def test_a_report_about_a_run_that_is_not_finished(unfinished):
    path = diagnostics.report(unfinished, (X, Y), path=unfinished.parent / "report.html")
    text = path.read_text()
    assert "nuts: not to be relied on yet (not finished)" in text
    assert "RMSE" in text


def test_a_site_that_files_can_not_hold(tmp_path):
    def model(y=None):
        w = numpyro.sample("w", dist.Normal(0, 1))
        numpyro.deterministic("half", w.astype("bfloat16"))
        numpyro.sample("y", dist.Normal(w, 1), obs=y)

    with pytest.raises(TypeError, match="the site 'half' has the dtype bfloat16, which a file of draws can't hold"):
        inference.run(model, np.float32(1.0), directory=tmp_path / "a", **OPTIONS)


def test_a_relative_directory_stays_where_it_was(tmp_path, monkeypatch, plain):
    monkeypatch.chdir(tmp_path)
    folder = directories.RunDirectory("a")
    monkeypatch.chdir("/")
    assert folder.path == tmp_path / "a"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert directories.RunDirectory("~/b").path == tmp_path / "b"


def test_a_posterior_on_disk_is_saved_and_loaded_as_any_other(tmp_path, plain):
    inference.run(MODEL, X, Y, directory=tmp_path / "a", **OPTIONS).save(tmp_path / "p.npz")
    assert same(plain, inference.load(tmp_path / "p.npz"))
