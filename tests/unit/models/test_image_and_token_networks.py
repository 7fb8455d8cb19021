"""Networks for images and tokens: how many weights they have, and what inputs they refuse before anything compiles."""

from __future__ import annotations

import math

import numpy as np
import pytest

import models

IMAGES = np.zeros((2, 32, 32, 3))


def _count(model, x) -> int:
    return sum(math.prod(shape) for shape in model.weights(*model.validate(x)).values())


def test_resnet_20_has_the_papers_274_042_weights():
    # A layer from c to k channels with a kernel of side s has s^2 c k weights, k biases and 3 k of its normalisation.
    def layer(c, k, s=3):
        return s * s * c * k + 4 * k

    stages = 6 * layer(16, 16)
    stages += layer(16, 32) + 5 * layer(32, 32) + layer(16, 32, 1)
    stages += layer(32, 64) + 5 * layer(64, 64) + layer(32, 64, 1)
    assert layer(3, 16) + stages + 64 * 10 + 10 == 274_042
    assert _count(models.resnet20_frn(likelihood=models.Categorical(10)), IMAGES) == 274_042
    assert _count(models.resnet20_frn(activation="relu"), IMAGES) == 274_042


def test_the_cnn_lstm_has_the_papers_2_700_098_weights():
    # Embedding, convolution with 64 filters of 5, LSTM with 4 gates of [64 + 128] inputs, and 2 logits of 128 units.
    parts = 20_000 * 128, 5 * 128 * 64 + 64, (64 + 128) * 4 * 128 + 4 * 128, 128 * 2 + 2
    assert sum(parts) == 2_700_098
    assert _count(models.cnn_lstm(likelihood=models.Categorical(2)), np.zeros((2, 100), int)) == 2_700_098


@pytest.mark.parametrize(("shape", "first"), [((2, 28, 28, 1), 156), ((2, 32, 32, 3), 456)])
def test_lenet_5_has_its_61_706_weights(shape, first):
    # Both sizes leave 5 x 5 places of 16 channels: 28 is padded to keep its size, 32 is not.
    rest = (25 * 6 * 16 + 16) + (400 * 120 + 120) + (120 * 84 + 84) + (84 * 10 + 10)
    assert _count(models.lenet(), np.zeros(shape)) == first + rest


def test_rules_reach_gains_and_layers():
    model = models.resnet20_frn(8, 2, prior={"default": 1.0, "gain": models.Normal(0.1), "stem": models.Normal(3.0)})
    scales = {site.name: model.prior.scale_of(site) for site in model.sites(np.zeros((1, 8, 8, 3), np.float32))}
    assert scales["stem.gain"] == 3.0
    assert scales["stage1_block1_conv1.gain"] == 0.1
    assert scales["stage2_block1_shortcut.weight"] == 1.0


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (models.lenet(), np.zeros((2, 28, 28)), r"got \(2, 28, 28\); add channels: x\[..., None\]"),
        (models.lenet(), np.zeros((2, 784)), r"x must have shape \(n, height, width, channels\)"),
        (models.lenet(), np.zeros((2, 8, 8, 1)), "too small for 2 convolutions with kernel=5"),
        (models.resnet20_frn(), np.full((2, 32, 32, 3), 255, np.uint8), "uint8 images with values up to 255.*x / 255"),
        (models.resnet20_frn(), np.zeros((2, 3, 32, 32)), "looks like channels first"),
        (models.cnn_lstm(10), np.full((3, 20), 10), "tokens from 0 to 9, got 10 to 10, first in row 0"),
        (models.cnn_lstm(10), np.full((3, 20), 0.5), "integers, got fractions"),
        (models.cnn_lstm(10), np.zeros((3, 7), int), "at least 8 tokens a row"),
        (models.lenet(prior={"default": 1.0, "conv7": 1.0}), np.zeros((2, 28, 28, 1)), "a rule for 'conv7', which"),
    ],
)
def test_bad_inputs_are_refused_with_a_remedy(model, x, message):
    with pytest.raises(ValueError, match=message):
        model.validate(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.resnet20_frn(depth=19), "depth must be 8, 14, 20"),
        (lambda: models.lenet(channels=(0,)), "channels: the size of a layer must be at least 1"),
        (lambda: models.cnn_lstm(activation="swish"), "activation must be one of"),
    ],
)
def test_bad_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("model", [models.lenet(activation="tanh"), models.resnet20_frn(14, 4), models.cnn_lstm(50)])
def test_they_have_recipes(model):
    assert models.from_recipe(models.to_recipe(model)) == model
