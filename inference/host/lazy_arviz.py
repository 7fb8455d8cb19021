"""ArviZ, imported where it is first used: it takes longer to import than everything else together."""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["arviz"]


def arviz() -> Any:
    """The ArviZ module, imported without the notice about its next major version that it prints once a day."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing a major refactor", FutureWarning)
        import arviz as module
    return module
