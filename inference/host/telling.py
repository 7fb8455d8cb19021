"""Warnings that users can filter, and that point at their own line, however deep in the library they come from."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from inference.host.hosts import is_first

__all__ = ["TouchstoneWarning", "tell"]

_HOME = Path(__file__).parents[2]
_OWN = tuple(str(_HOME / name) for name in ("data", "models", "inference", "diagnostics", "touchstone"))


class TouchstoneWarning(UserWarning):
    """A note on a run; to hide: `warnings.filterwarnings("ignore", category=inference.TouchstoneWarning)`."""


def tell(message: str) -> None:
    """Warn, pointing at the user's line that led here: the first frame that is not in one of our own files.

    Of several hosts, the first one warns.
    """
    if not is_first():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OWN):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, TouchstoneWarning, stacklevel=level)
