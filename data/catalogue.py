"""`data.load`: every data set by its name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from data import bundled, toy, uci
from data.cache import cache_directory
from data.datasets import Dataset
from data.images import ARCHIVES, images
from data.origins import Origin
from data.text import imdb

__all__ = ["at_hand", "load", "names"]


def _named(maker: Callable[[str], Dataset], name: str) -> Callable[[], Dataset]:
    return lambda: maker(name)


_SETS: dict[str, Callable[..., Dataset]] = {
    **{maker: getattr(module, maker) for module in (bundled, toy) for maker in module.__all__},
    **{name: _named(uci.uci, name) for name in uci.SETS},
    **{name: _named(images, name) for name in ARCHIVES},
    "imdb": imdb,
}


def names() -> tuple[str, ...]:
    """The names `load` knows, in alphabetical order."""
    return tuple(sorted(_SETS))


def at_hand(name: str) -> bool:
    """Whether a set loads without a download: it is generated, ships with scikit-learn, or is in the cache."""
    return name in bundled.__all__ or name in toy.__all__ or (cache_directory() / f"{name}.npz").exists()


def load(name: str, **options: Any) -> Dataset:
    """Load a data set by its name.

    Args:
        name: one of `data.names()`.
        options: the arguments of a toy set's function: `data.load("gap", n=80, seed=0)`. Other sets take none.

    Raises:
        ValueError: for an unknown name, with the nearest known one, or for an option the set does not take.
    """
    if name not in _SETS:
        near = difflib.get_close_matches(str(name), _SETS, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        raise ValueError(f"name must be a known data set, got {name!r}; {hint}known are: {', '.join(names())}")
    maker = _SETS[name]
    known = tuple(inspect.signature(maker).parameters)
    unknown = [option for option in options if option not in known]
    if unknown:
        takes = f"it takes {', '.join(known)}" if known else "it takes none"
        raise ValueError(f"'{name}' has no option {unknown[0]!r}; {takes}")
    return replace(maker(**options), origin=Origin.of_set(name, options))
