"""What the tests check of annotations: the shapes and kinds of arrays, in every function of the four packages.

Other annotations are mypy's. A test may hand over a word where a number belongs, to see that it is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beartype import beartype

__all__ = ["annotated", "checked"]

_ROOT = Path(__file__).parents[2]
_ARRAYS = re.compile(r"\b(Float|Int|Bool|Shaped|Num|UInt|Complex)\[")


def annotated() -> list[str]:
    """The modules of the four packages that annotate arrays."""
    return [
        ".".join(path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in ("data", "models", "inference", "diagnostics")
        for path in sorted((_ROOT / package).rglob("*.py"))
        if "from jaxtyping import" in path.read_text()
    ]


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which raises if an array is not of the shape and kind that its annotation says."""
    annotations = getattr(function, "__annotations__", {})
    arrays = {
        name: hint
        for name, hint in annotations.items()
        if _ARRAYS.search(hint if isinstance(hint, str) else repr(hint))
    }
    if not arrays:
        return function
    function.__annotations__ = arrays
    return beartype(function)
