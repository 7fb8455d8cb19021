"""Which weights of a network trade places: hidden units do; inputs, places of a kernel, and outputs do not."""

from __future__ import annotations

import numpy as np
import pytest

import models

TABLE, IMAGES = np.zeros((3, 2), np.float32), np.zeros((3, 16, 16, 3), np.float32)
TOKENS = np.zeros((3, 20), np.int32)


@pytest.mark.parametrize(
    ("model", "x", "expected"),
    [
        (
            models.mlp((5, 4), likelihood=models.Categorical(3)),
            TABLE,
            {
                "hidden0.weight": (2, 1), "hidden0.bias": (1,), "hidden1.weight": (1, 1), "hidden1.bias": (1,),
                "output.weight": (1, 3), "output.bias": (3,),
            },
        ),
        (models.linear(), TABLE, {"output.weight": (2, 1), "output.bias": (1,)}),
        (
            models.lenet((4,), (6,), likelihood=models.Categorical(2)),
            IMAGES,
            {
                "conv0.weight": (5, 5, 3, 1), "conv0.bias": (1,), "hidden0.weight": (1, 1), "hidden0.bias": (1,),
                "output.weight": (1, 2), "output.bias": (2,),
            },
        ),
        (
            models.cnn_lstm(vocabulary=7, embedding=4, filters=3, units=2, likelihood=models.Categorical(2)),
            TOKENS,
            {
                "embedding.weight": (7, 1), "conv.weight": (5, 1, 1), "conv.bias": (1,), "lstm.weight": (1, 1),
                "lstm.bias": (1,), "output.weight": (1, 2), "output.bias": (2,),
            },
        ),
    ],
)  # fmt: skip
def test_shapes_have_length_1_where_units_trade_places(model, x, expected):
    assert models.shared_shapes(model, x, model.shapes(x)) == expected


def test_weights_in_units_of_their_scale_are_those_of_their_layer():
    model = models.mlp((5,), prior=models.Hierarchical())
    sites = {"hidden0.weight.standard": (2, 5), "hidden0.scale": (), "noise": ()}
    assert models.shared_shapes(model, TABLE, sites) == {"hidden0.weight.standard": (2, 1)}


def test_permuted_units_have_the_same_prior_scales():
    model = models.mlp((5,), likelihood=models.Gaussian(0.1))
    shapes = models.shared_shapes(model, TABLE, model.shapes(TABLE))
    assert all(np.broadcast_shapes(shapes[name], shape) == shape for name, shape in model.shapes(TABLE).items())
