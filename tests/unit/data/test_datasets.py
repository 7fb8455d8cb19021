"""Data sets: what they hold, how they split, and the way back."""

from __future__ import annotations

import numpy as np
import pytest

import data
import models
from inference.results.prediction import Prediction

EXPECTED = {
    "backprop_curve": (300, 1, None), "breast_cancer": (569, 30, 2), "cubic": (20, 1, None),
    "diabetes": (442, 10, None), "digits": (1797, 64, 10), "gap": (80, 1, None),
    "heteroscedastic_sine": (200, 1, None), "linear": (60, 3, None), "moons": (200, 2, 2),
    "wine_cultivars": (178, 13, 3),
}  # fmt: skip


def test_names():
    assert set(EXPECTED) < set(data.names())
    assert {"boston", "wine", "protein", "mnist", "fashion_mnist", "cifar10", "imdb"} < set(data.names())
    assert list(data.names()) == sorted(data.names())
    assert all(data.at_hand(name) for name in EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_every_set_loads_and_splits(name):
    rows, inputs, classes = EXPECTED[name]
    dataset = data.load(name)
    assert (dataset.x.shape, dataset.classes, dataset.name) == ((rows, inputs), classes, name)
    assert dataset.source
    train, test = dataset.split(seed=3)
    assert (len(train), len(test)) == (rows - round(0.1 * rows), round(0.1 * rows))
    assert train.x.dtype == test.x.dtype == np.float32
    assert train.y.dtype == (np.float32 if classes is None else np.int32)
    constant = train.x.std(axis=0) == 0  # some corner pixels of the digits
    np.testing.assert_allclose(train.x.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(train.x.std(axis=0)[~constant], 1, rtol=1e-4)
    if classes is None:
        assert abs(train.y.mean()) < 1e-5
        assert train.y.std() == pytest.approx(1, rel=1e-5)
    else:
        assert set(np.unique(dataset.y)) == set(range(classes))


def test_split_is_a_partition_that_the_seed_decides():
    dataset = data.load("diabetes")
    train, test = dataset.split(seed=1, test=0.25)
    back = np.concatenate([train.y_original, test.y_original])
    np.testing.assert_allclose(np.sort(back), np.sort(dataset.y), rtol=1e-5)
    assert len(test) == round(0.25 * 442)
    np.testing.assert_array_equal(dataset.split(seed=1, test=0.25)[0].x, train.x)
    assert not np.array_equal(dataset.split(seed=2, test=0.25)[0].x, train.x)


def test_test_rows_do_not_touch_the_scaler():
    dataset = data.load("diabetes")
    train, test = dataset.split(seed=0)
    spoiled = data.Dataset("spoiled", dataset.x.copy(), dataset.y.copy())
    rows = np.random.default_rng(0).permutation(442)[:44]
    spoiled.x[rows] *= 1000
    spoiled.y[rows] += 1000
    other, _ = spoiled.split(seed=0)
    np.testing.assert_array_equal(other.x, train.x)
    np.testing.assert_array_equal(other.y, train.y)
    assert len(test) == len(rows)


def test_restore_gives_the_datas_own_units():
    dataset = data.load("diabetes")
    train, test = dataset.split(seed=0)
    outputs = np.zeros((1, 2, len(test), 1), np.float32)
    prediction = Prediction.of(models.Gaussian(scale=1.0), outputs, {})
    restored = test.restore(prediction)
    np.testing.assert_allclose(restored.mean, train.y_original.mean(), rtol=1e-5)
    np.testing.assert_allclose(restored.std, train.y_original.std(), rtol=1e-5)
    shift = np.log(train.scaler.y_scale)
    np.testing.assert_allclose(restored.log_prob(test.y_original), prediction.log_prob(test.y) - shift, rtol=1e-5)
    assert test.restore(restored) is restored


def test_constant_inputs_stay_where_they_are():
    x = np.column_stack([np.full(30, 0.1), np.arange(30.0)])  # the deviation of thirty times 0.1 is not quite 0
    train, test = data.Dataset("constant", x, np.arange(30.0)).split()
    assert (train.x[:, 0] == 0).all()
    assert (test.x[:, 0] == 0).all()
    assert train.scaler.x_scale[0] == 1


def test_labels_have_no_units():
    _, test = data.load("moons").split()
    prediction = Prediction.of(models.Bernoulli(), np.zeros((1, 1, len(test), 1), np.float32), {})
    assert test.restore(prediction) is prediction
    np.testing.assert_array_equal(test.y_original, test.y)


def test_several_targets_are_standardised_one_by_one():
    generator = np.random.default_rng(0)
    y = generator.normal(size=(50, 2)) * [1.0, 100.0] + [0.0, 5000.0]
    train, _ = data.Dataset("two", generator.normal(size=(50, 3)), y).split()
    np.testing.assert_allclose(train.y.std(axis=0), 1, rtol=1e-4)
    np.testing.assert_allclose(train.scaler.y_scale[1] / train.scaler.y_scale[0], 100, rtol=0.5)


def test_rows_that_are_images_can_be_seen():
    digits = data.load("digits")
    train, _ = digits.split(seed=0)
    rows = np.random.default_rng(0).permutation(len(digits))[-len(train) :]
    np.testing.assert_allclose(train.pictures([0, 7]), digits.x[rows[[0, 7]]].reshape(2, 8, 8), atol=1e-4)
    colours = data.Dataset(
        "c", np.random.default_rng(0).integers(0, 255, (20, 4, 5, 3)), np.arange(20), scaling="channel"
    )
    part, _ = colours.split(seed=0)
    for split in (part, part.flat()):
        assert split.picture == (4, 5, 3)
        np.testing.assert_allclose(
            split.pictures([1]), colours.x[[np.random.default_rng(0).permutation(20)[3]]], rtol=1e-4
        )
    with pytest.raises(ValueError, match="the rows of 'diabetes, train' are not images"):
        data.load("diabetes").split()[0].pictures([0])


def test_a_flat_split_has_rows():
    x = np.arange(5 * 2 * 3.0).reshape(5, 2, 3)
    train, _ = data.Dataset("images", x, np.arange(5.0)).split()
    assert train.flat().x.shape == (4, 6)
    np.testing.assert_array_equal(train.flat().y, train.y)


def test_a_split_unpacks():
    train, _ = data.load("gap").split()
    x, y = train
    assert x is train.x
    assert y is train.y


@pytest.mark.parametrize("seed", [-1, 0.5, True, "0"])
def test_the_seed_of_a_split_is_a_whole_number(seed):
    with pytest.raises(ValueError, match=f"the seed of a split must be an integer of 0 or above, got {seed!r}"):
        data.load("gap").split(seed=seed)


def test_standard_splits_where_there_are_none():
    with pytest.raises(ValueError, match=r"'gap' has none"):
        data.load("gap").split(index=3)


def test_toys_follow_their_formula():
    gap = data.load("gap", n=4000)
    assert np.abs(gap.x).min() >= 1.5
    residual = gap.y - np.sin(gap.x[:, 0]) - gap.x[:, 0] / 4
    assert residual.std() == pytest.approx(0.1, rel=5 / np.sqrt(8000))
    cubic = data.load("cubic", n=4000)
    assert (cubic.y - cubic.x[:, 0] ** 3).std() == pytest.approx(3, rel=5 / np.sqrt(8000))
    sine = data.load("heteroscedastic_sine", n=4000)
    z = (sine.y - np.sin(2 * np.pi * sine.x[:, 0])) / (0.05 + 0.5 * sine.x[:, 0])
    assert z.std() == pytest.approx(1, rel=5 / np.sqrt(8000))
    curve = data.load("backprop_curve", n=4000)
    x, e = curve.x, np.linspace(-0.1, 0.1, 4001)[None, :]  # five standard deviations of the noise inside the sines
    possible = x + 0.3 * np.sin(2 * np.pi * (x + e)) + 0.3 * np.sin(4 * np.pi * (x + e)) + e
    assert np.abs(possible - curve.y[:, None]).min(axis=1).max() < 5e-4
    linear = data.load("linear", n=4000, noise=0.3)
    design = np.column_stack([np.ones(4000), linear.x])
    residual = linear.y - design @ np.linalg.lstsq(design, linear.y, rcond=None)[0]
    assert residual.std() == pytest.approx(0.3, rel=5 / np.sqrt(8000))
    assert np.corrcoef(linear.x.T)[0, 1] == pytest.approx(0.6, abs=5 / np.sqrt(4000))


def test_toys_repeat_and_vary_with_their_seed():
    for name in ("gap", "cubic", "moons", "linear", "backprop_curve", "heteroscedastic_sine"):
        np.testing.assert_array_equal(data.load(name, seed=5).x, data.load(name, seed=5).x)
        assert not np.array_equal(data.load(name, seed=5).x, data.load(name, seed=6).x)


def test_unequal_rows_are_refused():
    with pytest.raises(ValueError, match=r"got 3 and 2 rows"):
        data.Dataset("bad", np.zeros((3, 1)), np.zeros(2))
