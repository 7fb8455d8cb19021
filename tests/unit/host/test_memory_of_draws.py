"""What draws in memory take is said before they are made."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

import inference
from inference.engine import ledger

EMISSION = {"w": jax.ShapeDtypeStruct((10, 5), np.float32)}, {"lp": jax.ShapeDtypeStruct((), np.float64)}
SIZE = 4 * 100 * (50 * 4 + 8)


@pytest.mark.parametrize(("memory", "warned"), [(2 * SIZE, False), (2 * SIZE - 2, True)])
def test_draws_beyond_half_of_the_memory_are_warned_of_with_a_way_out(monkeypatch, memory, warned):
    monkeypatch.setattr(ledger, "available_memory", lambda: float(memory))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = ledger.Ledger()
        found.begin(4, 100, EMISSION)
    assert found.size == SIZE
    assert len(caught) == warned
    if warned:
        assert caught[0].category is inference.TouchstoneWarning
        assert "give a directory" in str(caught[0].message)
