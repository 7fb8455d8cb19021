"""What identifies a model of the user's own is the same wherever it is computed."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax._src import pretty_printer

from inference.target.arguments import fingerprint

X = np.ones(3, np.float32)


def test_a_notebook_and_a_terminal_give_the_fingerprint_of_a_program(monkeypatch):
    found = []
    for colours in (False, True):
        monkeypatch.setattr(pretty_printer, "CAN_USE_COLOR", colours)
        found.append(fingerprint(lambda x: jnp.sin(x) + 1, X))
    assert found[0] == found[1]
    assert fingerprint(lambda x: jnp.cos(x) + 1, X) != found[0]
