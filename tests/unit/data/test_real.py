"""Real data from a cache: `TOUCHSTONE_DATA`, or `shared/data` beside the clone. Skipped where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import data
from data.uci import standard_split

FOLDER = Path(os.environ.get("TOUCHSTONE_DATA") or Path(__file__).parents[4] / "shared" / "data")


@pytest.fixture(autouse=True)
def _folder(monkeypatch):
    monkeypatch.setenv("TOUCHSTONE_DATA", str(FOLDER))


def load(name: str) -> data.Dataset:
    if not (FOLDER / f"{name}.npz").exists():
        pytest.skip(f"no cached '{name}' here; TOUCHSTONE_DATA names a folder that has it")
    return data.load(name)


@pytest.mark.parametrize(
    ("name", "rows", "columns", "first_targets"),
    [
        ("boston", 506, 13, [24.0, 21.6, 34.7]),
        ("concrete", 1030, 8, [79.99, 61.89, 40.27]),
        ("naval", 11934, 16, None),
        ("yacht", 308, 6, [0.11, 0.27, 0.47]),
    ],
)
def test_uci(name, rows, columns, first_targets):
    dataset = load(name)
    assert dataset.x.shape == (rows, columns)
    if first_targets:
        np.testing.assert_allclose(dataset.y[:3], first_targets, rtol=1e-3)
    train, test = dataset.split(index=0)
    assert (len(train), len(test)) == (round(0.9 * rows), rows - round(0.9 * rows))
    np.testing.assert_allclose(train.x.mean(axis=0), 0, atol=1e-4)
    assert set(np.round(train.x.std(axis=0), 3)) <= {0.0, 1.0}  # two inputs of naval are constant
    assert {"tau_grid", "rate_grid"} <= set(dataset.extras)
    others = [dataset.split(index=i)[1].y_original for i in range(3)]
    assert not np.array_equal(others[0], others[1])


def test_standard_splits_are_those_of_the_published_protocol():
    # np.random.seed(1), then one np.random.choice(range(n), n, replace=False) per split
    train, test = standard_split(506, 0)
    assert train[:5].tolist() == [307, 343, 47, 67, 362]
    assert sorted([*train, *test]) == list(range(506))
    assert [len(part) for part in standard_split(11934, 0)] == [10741, 1193]  # rounded, not cut off
    legacy = np.random.RandomState(1)
    for index in range(20):
        order = legacy.choice(range(506), 506, replace=False)
        train, test = standard_split(506, index)
        np.testing.assert_array_equal(np.concatenate([train, test]), order)


def test_mnist():
    dataset = load("mnist")
    train, test = dataset.split()
    assert (train.x.shape, test.x.shape) == ((60_000, 28, 28), (10_000, 28, 28))
    assert train.y[:5].tolist() == [5, 0, 4, 1, 9]
    assert train.x.dtype == np.float32
    assert train.scaler.x_location == pytest.approx(33.318, abs=0.01)  # the well-known 0.1307 of 255
    assert np.bincount(train.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    random, _ = dataset.split(seed=1, test=0.5)
    assert len(random) == 35_000


def test_cifar10():
    train, test = load("cifar10").split()
    assert train.x.shape[1:] == (32, 32, 3)
    assert set(train.y) == set(test.y) == set(range(10))
    np.testing.assert_allclose(train.x.std(axis=(0, 1, 2), dtype=np.float64), 1, rtol=1e-5)


def test_imdb():
    dataset = load("imdb")
    train, test = dataset.split()
    assert train.x.shape == test.x.shape == (25_000, 100)
    assert train.x.dtype == np.int32
    assert train.x.max() < 20_000
    assert train.y.mean() == test.y.mean() == 0.5
    assert len(dataset.extras["vocab"]) <= 20_000
