"""The tests check the shapes that annotations say, in every package."""

from __future__ import annotations

import jaxtyping
import numpy as np
import pytest

from diagnostics.checks.class_bins import equal_mass
from inference import mixing
from inference.results.mixture import entropy
from models.layers import affine


@pytest.mark.parametrize(
    "call",
    [
        lambda: entropy(np.zeros(3)),
        lambda: entropy(np.zeros((3, 2), int)),
        lambda: mixing.ess(np.zeros((4, 10)), "bulk"),
        lambda: equal_mass(np.zeros((3, 2)), 2),
        lambda: affine(np.zeros((3, 2)), np.zeros((2, 4)), np.zeros(5)),
    ],
    ids=["axes", "kind", "inference", "diagnostics", "models"],
)
def test_a_wrong_shape_is_an_error_in_the_tests(call):
    with pytest.raises(jaxtyping.TypeCheckError):
        call()


def test_a_right_shape_is_not():
    assert entropy(np.full((3, 2), 0.5)) == pytest.approx(np.log(2))
