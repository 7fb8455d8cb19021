"""One thread traces a model at a time.

NumPyro's stack of handlers is one list for all threads of a process, so two models that are traced at once would meet
there. Whatever runs a model's Python code holds this lock; compiled programs run without it.
"""

from __future__ import annotations

import threading

__all__ = ["TRACING"]

TRACING = threading.RLock()
