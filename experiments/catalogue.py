"""The studies by name; a study's file is imported when the study is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from experiments.study import Study
from models.validation import one_of

__all__ = ["FILES", "names", "studies", "study"]

FILES: dict[str, str] = {}
"""The module of each study; its attribute `STUDIES` is a tuple of `Study`."""


def names() -> list[str]:
    """The names of all studies."""
    return list(FILES)


def study(name: str) -> Study:
    """A study by its name."""
    one_of("study", name, names())
    return next(each for each in importlib.import_module(FILES[name]).STUDIES if each.name == name)


def studies() -> Iterator[Study]:
    """All studies, in the order of the catalogue."""
    return (study(name) for name in names())
