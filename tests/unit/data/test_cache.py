"""Files in the cache: what they must hold, and what is said of those that don't."""

from __future__ import annotations

import io

import numpy as np
import pytest

import data


def test_sets_without_a_checksum_come_from_the_cache_alone(folder):
    with pytest.raises(FileNotFoundError, match=r"'energy' is not in the cache, and not downloaded, because no public"):
        data.load("energy")
    folder.mkdir()
    np.savez(folder / "energy.npz", x=np.arange(40.0).reshape(20, 2), y=np.arange(20.0))
    with pytest.raises(ValueError, match=r"must have x of shape \(768, 8\).*got \(20, 2\) and \(20,\)"):
        data.load("energy")
    rows = np.random.default_rng(0).normal(size=(768, 9))
    np.savez(folder / "energy.npz", x=rows[:, :8], y=rows[:, 8], tau_grid=np.array([0.5]))
    dataset = data.load("energy")
    assert dataset.extras["tau_grid"].tolist() == [0.5]
    assert [len(part) for part in dataset.split(index=19)] == [691, 77]
    with pytest.raises(ValueError, match=r"leave test out"):
        dataset.split(index=1, test=0.5)
    with pytest.raises(TypeError, match="index"):
        dataset.split(index=1.0)
    with pytest.raises(ValueError, match=r"index must be 0 to 19 for 'energy', got 20"):
        dataset.split(index=20)


def test_every_flipped_byte_is_found_or_harmless(folder):
    folder.mkdir()
    rows = np.round(np.random.default_rng(0).normal(size=(308, 7)), 1)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=rows[:, :6], y=rows[:, 6])
    whole = buffer.getvalue()
    for place in range(0, len(whole), 41):
        spoiled = bytearray(whole)
        spoiled[place] ^= 0xFF
        (folder / "yacht.npz").write_bytes(spoiled)
        try:
            values, message = data.load("yacht").x, ""
        except ValueError as error:
            values, message = None, str(error)
        if message:
            assert "yacht" in message
        else:  # a byte that holds no data, such as a date
            np.testing.assert_array_equal(values, rows[:, :6])


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("x_train", np.zeros((6, 784), np.uint8)),
        ("y_train", np.zeros(5, np.uint8)),
        ("y_train", np.full(6, 77, np.uint8)),
        ("y_train", np.full(6, 1.5)),
        ("y_test", np.eye(4, dtype=np.uint8)),
    ],
)
def test_cached_images_with_other_contents_are_refused(folder, part, value):
    folder.mkdir()
    arrays = {"x_train": np.zeros((6, 28, 28), np.uint8), "y_train": np.zeros(6, np.uint8),
              "x_test": np.zeros((4, 28, 28), np.uint8), "y_test": np.zeros(4, np.uint8)}  # fmt: skip
    np.savez(folder / "mnist.npz", **{**arrays, part: value})
    with pytest.raises(ValueError, match=rf"'mnist': {part} must be"):
        data.load("mnist")


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "is damaged"),
        (b"PK\x03\x04 not really", "is damaged"),
        ({"x": np.zeros((3, 1))}, "has no array 'y'"),
        ({"x": np.array([None, 1]), "y": np.zeros(2)}, "is damaged .*Object arrays cannot be loaded"),
    ],
)
def test_damaged_cache_file_is_named(folder, contents, message):
    folder.mkdir()
    if isinstance(contents, bytes):
        (folder / "yacht.npz").write_bytes(contents)
    else:
        np.savez(folder / "yacht.npz", **contents)
    with pytest.raises(ValueError, match=rf"the cached file .*yacht.npz {message}.*remove .*yacht.npz"):
        data.load("yacht")
