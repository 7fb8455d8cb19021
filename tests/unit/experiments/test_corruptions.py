"""Corruptions against their definitions, and against Pillow and matplotlib where these have the same operation."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import hsv_to_rgb, rgb_to_hsv
from PIL import Image

from data import Scaler, Split
from experiments.corruptions import KINDS, SEVERITIES, corrupted, corrupted_split

GENERATOR = np.random.default_rng(0)
GREY = GENERATOR.integers(0, 256, (3, 28, 28), dtype=np.uint8)
COLOUR = GENERATOR.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
MIDDLE = np.full((400, 20, 20), 128, np.uint8)
ERRORS = 4.5  # standard errors; the seed is fixed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_every_kind_gives_bytes_of_the_same_shape_and_another_picture(kind, severity):
    for images in (GREY, COLOUR):
        changed = corrupted(images, kind, severity)
        assert (changed.dtype, changed.shape) == (np.uint8, images.shape)
        assert (changed != images).any()
        np.testing.assert_array_equal(changed, corrupted(images, kind, severity))


@pytest.mark.parametrize("kind", ["gaussian_noise", "gaussian_blur", "brightness", "contrast", "pixelate"])
def test_severities_are_in_order(kind):
    images = 64 + GREY // 4  # so that nothing is clipped
    away = [np.abs(corrupted(images, kind, severity).astype(float) - images).mean() for severity in SEVERITIES]
    assert away == sorted(away)


def test_gaussian_noise_has_its_standard_deviation():
    noise = (corrupted(MIDDLE, "gaussian_noise", 3).astype(float) + 0.5 - 128) / 255  # rounded down
    assert noise.std() == pytest.approx(0.08, abs=ERRORS * 0.08 / np.sqrt(2 * noise.size))
    assert noise.mean() == pytest.approx(0.0, abs=ERRORS * 0.08 / np.sqrt(noise.size))


def test_shot_noise_has_the_variance_of_counts():
    noise = (corrupted(MIDDLE, "shot_noise", 5).astype(float) + 0.5) / 255
    assert noise.var() == pytest.approx(128 / 255 / 50, rel=ERRORS * np.sqrt(2 / noise.size) + 1e-3)


def test_impulse_noise_is_salt_and_pepper_in_equal_parts():
    changed = corrupted(MIDDLE, "impulse_noise", 5)
    shares = [(changed == value).mean() for value in (0, 255)]
    assert shares == pytest.approx([0.035, 0.035], abs=ERRORS * np.sqrt(0.035 / changed.size))


def test_brightness_raises_the_value_and_keeps_hue_and_saturation():
    space = rgb_to_hsv(COLOUR / 255.0)
    space[..., 2] = np.clip(space[..., 2] + 0.15, 0, 1)
    expected = np.clip(hsv_to_rgb(space), 0, 1) * 255
    np.testing.assert_allclose(corrupted(COLOUR, "brightness", 3), expected, atol=1.001)
    np.testing.assert_allclose(corrupted(GREY, "brightness", 3), np.minimum(GREY + 0.15 * 255, 255), atol=1.001)


def test_contrast_shrinks_around_the_mean_of_each_channel():
    values = COLOUR / 255.0
    mean = values.mean(axis=(1, 2), keepdims=True)
    expected = np.floor(255 * (mean + 0.3 * (values - mean)))
    np.testing.assert_allclose(corrupted(COLOUR, "contrast", 4), expected, atol=1.0)


def test_blur_spreads_a_point_as_a_normal():
    point = np.zeros((1, 21, 21), np.uint8)
    point[0, 10, 10] = 255
    square = np.add.outer((np.arange(21) - 10.0) ** 2, (np.arange(21) - 10.0) ** 2)
    expected = np.exp(-square / 2 / 0.8**2)
    expected *= 255 / expected.sum()
    np.testing.assert_allclose(corrupted(point, "gaussian_blur", 4)[0], expected, atol=1.001)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_pixelate_is_pillows_box_filter(severity):
    constant = KINDS["pixelate"][1][severity - 1]
    for image in (GREY[0], COLOUR[0]):
        side = len(image)
        small = Image.fromarray(image).resize((int(side * constant),) * 2, Image.Resampling.BOX)
        expected = np.asarray(small.resize((side, side), Image.Resampling.BOX), float)
        found = corrupted(image[None], "pixelate", severity)[0]
        np.testing.assert_allclose(found, expected, atol=2.0)  # Pillow rounds to bytes twice, ours is rounded down


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((GREY, "fog", 1), "kind must be"),
        ((GREY, "contrast", 6), "severity must be 1 to 5, got 6"),
        ((GREY / 255, "contrast", 1), "images must be bytes"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        corrupted(*arguments)


@pytest.mark.parametrize("flat", [True, False])
def test_a_split_keeps_its_scale_its_labels_and_its_shape(flat):
    scaler = Scaler(np.zeros(()), np.full((), 126.0), np.zeros(()), np.ones(()))
    split = Split(scaler.inputs(GREY), np.arange(3), scaler, "made up", 10, (28, 28))
    given = split.flat() if flat else split
    changed = corrupted_split(given, "contrast", 5)
    assert changed.x.shape == given.x.shape
    np.testing.assert_array_equal(changed.x.reshape(3, 28, 28) * 126, corrupted(GREY, "contrast", 5))
    np.testing.assert_array_equal(changed.y, split.y)
