"""Files of posteriors: what can go wrong is said, and nothing in them runs."""

from __future__ import annotations

import io
import pickle
import zipfile

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import diagnostics
import inference
import models


def _mine(y=None):
    w = numpyro.sample("w", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(w, 1), obs=y)


def _other(y=None):
    _mine(y)


@pytest.fixture
def saved(tmp_path, conjugate):
    path = tmp_path / "folder" / "p.npz"
    conjugate.run(method="map", steps=5).save(path)
    return path


def test_own_model_is_passed_again(tmp_path):
    posterior = inference.run(_mine, np.float32(1.0), method="map", steps=5, progress=False)
    posterior.save(tmp_path / "p.npz")
    with pytest.raises(ValueError, match=r"your own model; pass it: .*'_mine'"):
        inference.load(tmp_path / "p.npz")
    with pytest.raises(ValueError, match=r"model is not the one in .*'_mine'.*got .*'_other'"):
        inference.load(tmp_path / "p.npz", model=_other)
    assert inference.load(tmp_path / "p.npz", model=_mine).draws["w"] == posterior.draws["w"]


def test_a_network_with_an_own_activation_is_compared_by_its_code(tmp_path):
    def network(activation, scale=0.5):
        return models.mlp((3,), activation, likelihood=models.Gaussian(scale=scale))

    x = np.linspace(-1, 1, 6).reshape(-1, 1)
    mine = network(lambda h: jax.numpy.sin(h))
    inference.run(mine, x, x[:, 0], method="map", steps=5, progress=False).save(tmp_path / "p.npz")
    assert inference.load(tmp_path / "p.npz", model=network(lambda h: jax.numpy.sin(h))).shape == (1, 1)
    for other in (network(lambda h: jax.numpy.exp(h)), network(lambda h: jax.numpy.sin(h), scale=1.0)):
        with pytest.raises(ValueError, match="model is not the one in"):
            inference.load(tmp_path / "p.npz", model=other)


def test_numpy_numbers_as_options_can_be_saved(tmp_path, conjugate):
    posterior = conjugate.run(method="svi", steps=np.int64(5), draws=np.int32(3), learning_rate=np.float32(0.01))
    posterior.save(tmp_path / "p.npz")
    assert inference.load(tmp_path / "p.npz").method == posterior.method


def test_another_network_is_refused(saved):
    with pytest.raises(ValueError, match=r"model is not the one in"):
        inference.load(saved, model=models.mlp())


def test_damaged_files_are_refused(saved, tmp_path):
    whole = saved.read_bytes()
    for name, contents in {"cut": whole[: len(whole) // 2], "empty": b"", "text": b"hello"}.items():
        (tmp_path / name).write_bytes(contents)
        with pytest.raises(ValueError, match=rf"{name} is not a posterior that can be read, or it is damaged"):
            inference.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        inference.load(tmp_path / "none.npz")


def test_flipped_byte_is_found(saved, tmp_path):
    whole = bytearray(saved.read_bytes())
    with zipfile.ZipFile(saved) as archive:
        member = archive.getinfo("draws.0.npy")
    whole[member.header_offset + 30 + len(member.filename) + member.compress_size - 1] ^= 0xFF
    (tmp_path / "flipped.npz").write_bytes(whole)
    with pytest.raises(ValueError, match="damaged"):
        inference.load(tmp_path / "flipped.npz")


class _Bomb:
    def __reduce__(self):
        return (_Bomb.explode, ())

    @staticmethod
    def explode():
        raise AssertionError("code in the file was run")


@pytest.mark.parametrize("member", ["draws.0.npy", "record.npy"])
def test_pickled_array_does_not_run(saved, tmp_path, member):
    payload = io.BytesIO()
    np.lib.format.write_array(payload, np.array([_Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(AssertionError, match="was run"):
        pickle.loads(payload.getvalue()[payload.getvalue().index(b"\x80") :])  # it would explode if it were loaded
    hostile = tmp_path / "hostile.npz"
    with zipfile.ZipFile(saved) as original, zipfile.ZipFile(hostile, "w") as changed:
        for name in original.namelist():
            changed.writestr(name, payload.getvalue() if name == member else original.read(name))
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        inference.load(hostile)


def test_an_interrupted_save_leaves_the_old_file(saved, conjugate, monkeypatch):
    before = saved.read_bytes()

    def full(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space left"):
        conjugate.run(method="map", steps=5).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["p.npz"]


def test_what_a_run_warned_of_is_saved(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 1))
    options = dict(method="mclmc", step_size=2.0, trajectory_length=2.0, warmup=0, thin=1, draws=60, chains=2, seed=1)
    model = models.linear(likelihood=models.Gaussian(scale=1.0))
    with pytest.warns(UserWarning, match=r"x has size|energy variance") as said:
        posterior = inference.run(model, 1000 * x, x[:, 0], directory=tmp_path / "run", progress=False, **options)
    assert len(posterior.notes) == len(posterior.concerns) == 1
    assert [str(each.message) for each in said] == [*posterior.notes, *posterior.concerns]
    posterior.save(tmp_path / "p.npz")
    loaded = inference.load(tmp_path / "p.npz")
    assert (loaded.notes, loaded.concerns) == (posterior.notes, posterior.concerns)
    with pytest.warns(UserWarning, match="energy variance"):
        looked_at = inference.load(tmp_path / "run")
    assert (looked_at.notes, looked_at.concerns) == (posterior.notes, posterior.concerns)
    judged = diagnostics.convergence(loaded)
    assert posterior.concerns[0] in judged.failures
    assert posterior.notes[0] in judged.cautions
