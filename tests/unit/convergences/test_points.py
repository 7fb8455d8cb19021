"""Point estimates: what their card shows is what they are judged by."""

from __future__ import annotations

import numpy as np

import inference
import models
from diagnostics import convergence
from inference.host.machine import Cost

ROWS = 40


def _members(*losses: np.ndarray) -> inference.Posterior:
    members = len(losses)
    return inference.Posterior(
        model=models.mlp((4,), "tanh"), method=inference.Ensemble() if members > 1 else inference.MAP(), seed=0,
        temperature=1.0, tempering="posterior", draws={"u": np.zeros((members, 1, 2))},
        statistics={"lp": np.zeros((members, 1))}, curves={"loss": np.stack(losses)}, observed={"y": np.zeros(ROWS)},
        probes=np.zeros((1, 1), np.float32), deterministic=(), cost=Cost(1.0, 1.0, 1, 1),
    )  # fmt: skip


def _falling(by: float) -> np.ndarray:
    """A loss without noise that falls so far over the last fifth of its steps."""
    steps = np.arange(1000)
    return 100 * np.exp(-steps / 20) - by * np.maximum(steps - 800, 0) / 200


def _rows(posterior: inference.Posterior) -> dict[str, tuple[str, ...]]:
    return {name: rest for name, *rest in convergence(posterior).measures().rows}


def test_a_loss_that_falls_surely_but_by_nothing_has_settled_and_the_card_says_why():
    posterior = _members(_falling(0.01))
    judged, rows = convergence(posterior), _rows(posterior)
    assert judged.settled
    assert judged.loss_slope < -100
    assert rows["slope of the loss, in standard errors"][1] == "±3"
    assert rows["change of the loss over its last fifth, in nats"] == ["-0.01", f"or ±{0.1 * ROWS:g}"]


def test_of_several_members_the_card_shows_the_loss_that_changed_most():
    rows = _rows(_members(_falling(0.01), _falling(-7.0), _falling(2.0)))
    assert rows["change of the loss over its last fifth, in nats"] == ["7", "or ±4"]
    assert not convergence(_members(_falling(0.01), _falling(-7.0))).settled
