"""Docstrings of option records that explain every option, including the options of their bases.

Each option is documented once, on the record that introduces it; a reader of `help(inference.SGLD)` wants to see all.
"""

from __future__ import annotations

import inspect
import re

__all__ = ["join_attributes"]

_HEADING = "Attributes:"


def join_attributes(cls: type) -> None:
    """Add the attributes of a class's bases to its docstring, after its own; its original text stays in `_own_doc`."""
    own = inspect.cleandoc(cls.__dict__.get("__doc__") or "")  # Python 3.13 takes the indentation away, others leave it
    cls._own_doc = own  # type: ignore[attr-defined]
    entries: dict[str, str] = {}
    for base in cls.__mro__:
        for name, text in _attributes(base.__dict__.get("_own_doc", "")).items():
            entries.setdefault(name, text)
    summary = own.partition(_HEADING)[0].rstrip()
    if entries and summary:
        cls.__doc__ = f"{summary}\n\n{_HEADING}\n" + "\n".join(entries.values()) + "\n"


def _attributes(text: str) -> dict[str, str]:
    """The entries under the heading "Attributes:" by name, each with the lines that continue it."""
    entries: dict[str, list[str]] = {}
    for line in text.partition(_HEADING)[2].splitlines():
        begins = re.match(r" {4}(\w+):", line)
        if begins:
            entries[begins[1]] = [line]
        elif line.startswith(" " * 8) and entries:
            list(entries.values())[-1].append(line)
        elif line.strip():
            break  # another section
    return {name: "\n".join(lines) for name, lines in entries.items()}
