"""Where a network's functions are judged."""

from __future__ import annotations

import numpy as np

from inference.results.function_space import PROBED_ROWS, probes


def test_real_inputs_are_probed_in_the_data_between_and_outside():
    x = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    found = probes(x)
    assert found.shape == (PROBED_ROWS + 20, 2)
    assert np.abs(found[-10:]).max() > np.abs(x).max()


def test_tokens_have_nothing_between_them_and_nothing_outside():
    tokens = np.random.default_rng(0).integers(0, 9, (50, 12)).astype(np.int32)
    found = probes(tokens)
    assert {row.tobytes() for row in found} <= {row.tobytes() for row in tokens}
