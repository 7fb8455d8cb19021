"""Directories of runs: what is damaged, foreign, in use or full is found and named, and nothing in them runs."""

from __future__ import annotations

import collections
import errno
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import diagnostics
import inference
import models
from inference import chains, columns, directories, journal

ROOT = Path(__file__).parents[2]
X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
Y = np.sin(X[:, 0])
MODEL = models.mlp((4,), "tanh", likelihood=models.Gaussian(scale=0.5))
OPTIONS = dict(method="nuts", chains=2, draws=30, warmup=5, max_tree_depth=3, start="random", progress=False)
SMALL = 100  # bytes of a chunk: several draws, and several chunks


@pytest.fixture(scope="module")
def plain() -> inference.Posterior:
    return inference.run(MODEL, X, Y, **OPTIONS)


@pytest.fixture(scope="module")
def _unfinished(tmp_path_factory):
    """The directory of a run that a crash ended after both places of its saves were used."""
    directory = tmp_path_factory.mktemp("runs") / "a"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_CHUNK", SMALL)
        _crash_after(patch, 12)
        with pytest.raises(KeyError, match="crash"):
            inference.run(MODEL, X, Y, directory=directory, save_every=1e-9, **OPTIONS)
    return directory


@pytest.fixture
def unfinished(_unfinished, tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "_CHUNK", SMALL)
    return Path(shutil.copytree(_unfinished, tmp_path / "copy"))


def _crash_after(patch: pytest.MonkeyPatch, saves: int) -> None:
    original, counted = journal.Journal.save, []
    patch.setattr(journal, "_SHARE", 0)  # save after every piece
    patch.setattr(chains, "_PIECE_SECONDS", 1e-9)

    def save(self, *args):
        original(self, *args)
        counted.append(self)
        if len(counted) == saves:
            raise KeyError("crash")

    patch.setattr(journal.Journal, "save", save)


def _same(first: inference.Posterior, second: inference.Posterior) -> bool:
    return all(np.array_equal(first.draws[name], second.draws[name]) for name in first.draws) and all(
        np.array_equal(first.statistics[name], second.statistics[name]) for name in first.statistics
    )


def _flip(path: Path, place: int) -> None:
    contents = bytearray(path.read_bytes())
    contents[place] ^= 0x10
    path.write_bytes(contents)


def _newest(directory: Path) -> dict:
    saves = [json.loads(json.loads(path.read_text())["manifest"]) for path in directory.glob("chains/manifest-*.json")]
    assert len(saves) == 2
    return max(saves, key=lambda save: save["number"])


def test_anyone_can_read_the_draws(unfinished, plain):
    save = _newest(unfinished)
    first = next(column["name"] for column in save["columns"] if column["group"] == "draws")
    values = np.load(unfinished / "chains" / "draws-000.npy")
    assert values.shape == plain.draws[first].shape
    for chain, part in enumerate(save["chains"]):
        assert 0 < part["kept"] < 30
        np.testing.assert_array_equal(values[chain, : part["kept"]], plain.draws[first][chain, : part["kept"]])


def test_a_flipped_byte_of_a_draw_is_found_and_its_chain_computed_anew(unfinished, plain):
    values = np.load(unfinished / "chains" / "draws-001.npy", mmap_mode="r+")
    values[1, 2] += 1
    values.flush()
    with pytest.warns(UserWarning, match=r"draws-001.npy: draws \d to \d of chain 1 are damaged; it is computed anew"):
        resumed = inference.resume(unfinished, progress=False)
    assert _same(plain, resumed)


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
    assert _same(plain, resumed)


def test_one_who_looks_sees_what_is_before_the_damage(unfinished, plain):
    kept = _newest(unfinished)["chains"][0]["kept"]
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
    newest = _newest(unfinished)["place"]
    _flip(unfinished / "chains" / f"state-{newest}.bin", place)
    with pytest.warns(UserWarning, match=rf"state-{newest}.bin is damaged; the save before it is used"):
        resumed = inference.resume(unfinished, progress=False)
    assert _same(plain, resumed)


def test_a_flipped_byte_of_the_manifest_is_found_and_the_save_before_it_used(unfinished, plain):
    newest = _newest(unfinished)["place"]
    path = unfinished / "chains" / f"manifest-{newest}.json"
    _flip(path, len(path.read_bytes()) // 2)
    with pytest.warns(UserWarning, match=rf"manifest-{newest}.json is damaged"):
        resumed = inference.resume(unfinished, progress=False)
    assert _same(plain, resumed)


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
    assert _same(plain, resumed)


def test_after_a_second_crash_nothing_is_taken_for_damage(unfinished, plain, monkeypatch):
    with monkeypatch.context() as patch:
        _crash_after(patch, 3)
        with pytest.raises(KeyError, match="crash"):
            inference.resume(unfinished, progress=False, save_every=1e-9)
    assert _same(plain, inference.resume(unfinished, progress=False))  # a warning would be an error


def test_damaged_data_are_refused(unfinished):
    _flip(unfinished / "arguments-1.npy", -1)
    with pytest.raises(ValueError, match=r"arguments-1.npy .* damaged: it is not the array that the run was given"):
        inference.resume(unfinished)


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


def _reseal_description(directory: Path, change) -> None:
    """A changed or hostile description with a right checksum."""
    path = directory / "run.json"
    described = json.loads(path.read_text())
    del described["sha256"], described["format"]
    change(described)
    digest = hashlib.sha256(json.dumps(described).encode()).hexdigest()
    path.write_text(json.dumps({"format": 1, "sha256": digest, **described}))


def test_a_changed_description_is_found(unfinished):
    path = unfinished / "run.json"
    path.write_text(path.read_text().replace('"temperature": 1.0', '"temperature": 3.0'))
    for read in (inference.resume, inference.load):
        with pytest.raises(ValueError, match=r"run.json can't be read, or it is damaged: its SHA-256 is another"):
            read(unfinished)


def test_other_versions_are_refused_unless_told(unfinished, plain):
    _reseal_description(unfinished, lambda asked: asked["versions"].update(jax="0.1"))
    with pytest.raises(ValueError, match=r"was begun otherwise: versions.jax: '0.1' there, .*other_versions=True"):
        inference.resume(unfinished)
    assert _same(plain, inference.resume(unfinished, progress=False, other_versions=True))


_SCALE = 1.0


def _mine(y=None):
    w = numpyro.sample("w", dist.Normal(0, _SCALE))
    numpyro.deterministic("twice", 2 * w)
    numpyro.sample("y", dist.Normal(w, 1).expand((3,)).to_event(1), obs=y)


def test_an_own_model_is_passed_again_and_compared_by_what_it_computes(tmp_path, monkeypatch):
    options = {**OPTIONS, "max_tree_depth": 3}
    data = np.arange(3.0)
    plain = inference.run(_mine, data, **options)
    _crash_after(monkeypatch, 5)
    with pytest.raises(KeyError, match="crash"):
        inference.run(_mine, data, directory=tmp_path / "a", save_every=1e-9, **options)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="your own model; pass it"):
        inference.resume(tmp_path / "a")
    monkeypatch.setitem(globals(), "_SCALE", 2.0)
    for read in (inference.resume, inference.load):
        with pytest.raises(ValueError, match="was begun otherwise: identity"):
            read(tmp_path / "a", _mine)
    monkeypatch.undo()
    resumed = inference.resume(tmp_path / "a", _mine, progress=False)
    assert _same(plain, resumed)
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
        "import sys, time; from inference.directories import RunDirectory\n"
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


def test_a_full_disk_stops_the_run_and_leaves_what_was_saved(tmp_path, monkeypatch, plain):
    written, original = [], os.pwrite

    def pwrite(descriptor, contents, place):
        written.append(len(contents))
        if len(written) > 60:
            original(descriptor, bytes(contents)[: len(contents) // 2], place)  # as much as there was room for
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(descriptor, contents, place)

    monkeypatch.setattr(os, "pwrite", pwrite)
    monkeypatch.setattr(journal, "_SHARE", 0)
    monkeypatch.setattr(chains, "_PIECE_SECONDS", 1e-9)
    with pytest.raises(OSError, match=r"the disk of .* is full; what was saved is intact: make room"):
        inference.run(MODEL, X, Y, directory=tmp_path / "a", save_every=1e-9, **OPTIONS)
    monkeypatch.undo()
    assert _newest(tmp_path / "a")["chains"][0]["kept"] > 0
    assert _same(plain, inference.resume(tmp_path / "a", progress=False))


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
            patch.setattr(journal, "_SHARE", 0)
            patch.setattr(chains, "_PIECE_SECONDS", 1e-9)
            with pytest.raises(OSError, match="is full; what was saved is intact"):
                inference.run(model, X, Y, directory=mounted / "a", save_every=1e-9, **options)
        filler.unlink()
        assert _same(plain, inference.resume(mounted / "a", progress=False))
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=True)


class _Free:
    free = 2**40


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
        assert _same(plain, inference.resume(unfinished, progress=False))
    assert {path.name: path.read_bytes() for path in tmp_path.glob(f"{what}-*")} == before


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


@pytest.mark.parametrize("name", ["run.json", "chains/state-0.bin", "chains/state-1.bin", "chains/manifest-0.json"])
def test_absurd_sizes_are_not_read(unfinished, name, plain):
    os.truncate(unfinished / name, 2**42)  # sparse
    if name == "run.json":
        with pytest.raises(ValueError, match="more than such a file can have"):
            inference.resume(unfinished)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of damage, if it is the newest
            assert _same(plain, inference.resume(unfinished, progress=False))


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
            assert _same(plain, inference.resume(unfinished, progress=False))
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


def test_a_name_is_no_path(unfinished):
    _reseal(unfinished, lambda manifest: manifest["columns"][0].update(name="../../outside"))
    before = sorted(unfinished.parent.rglob("*"))
    with pytest.raises(ValueError, match="holds other sites or shapes than this run has"):
        inference.resume(unfinished)
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
    _reseal_description(unfinished, change)
    for read in (inference.load, inference.resume):
        with pytest.raises(ValueError, match=r"can't be read|must be|pass it|was begun otherwise"):
            read(unfinished)


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
    assert "nuts</strong> (not finished)." in text
    assert "rmse" in text


def test_what_a_kill_left_half_written_is_removed(unfinished):
    for name in (".run.json.0a1b2c3d4e5f", "chains/.state-0.bin.0a1b2c3d4e5f", "chains/.manifest-1.json.0a1b2c3d4e5f"):
        (unfinished / name).write_text("half")
    inference.resume(unfinished, progress=False)
    assert not [path for path in unfinished.rglob(".*")]


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
    assert _same(plain, inference.load(tmp_path / "p.npz"))
