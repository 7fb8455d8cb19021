"""The trace of a model without its numbers: sites with their distributions and shapes, and nothing is computed."""

from __future__ import annotations

from typing import Any

import jax
from numpyro import handlers

__all__ = ["traced"]


def traced(model: Any, *args: Any) -> dict[str, Any]:
    """The sites of one run of the model."""
    trace: dict[str, Any] = {}
    jax.eval_shape(lambda: trace.update(handlers.trace(handlers.seed(model, 0)).get_trace(*args)))
    return trace
