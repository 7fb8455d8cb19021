"""Is what a notebook has stored what it shows today?

Words must be the same, and so must the kinds of outputs and the number of pictures of each cell. A number may differ by
5 %, by two units of its last digit, or by three standard errors where it is followed by one, as in "0.12 ± 0.03":
another processor rounds differently, and then chains part. Times are not compared, and of a line that progress left
behind neither is what comes after the time, because it is of the last piece of a chain.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["changed"]

_SHARE, _DIGITS, _ERRORS = 0.05, 2, 3
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")
_TIME = re.compile(r"(?<![\w.])\d+(?:\.\d+)? (?:s|min|h|days)\b")


def changed(stored: Any, fresh: Any) -> list[str]:
    """What is different in the outputs of two notebooks with the same cells, in words."""
    pairs = zip(stored.cells, fresh.cells, strict=True)
    return [
        f"cell {number}: {difference}"
        for number, (before, after) in enumerate(pairs)
        if before.cell_type == "code"
        for difference in _differences(before.outputs, after.outputs)
    ]


def _differences(stored: list[Any], fresh: list[Any]) -> list[str]:
    kinds = [[sorted(output.get("data", [output.get("name", "error")])) for output in each] for each in (stored, fresh)]
    if kinds[0] != kinds[1]:
        return [f"{kinds[0]} are stored, {kinds[1]} are shown"]
    texts = [[output.get("text") or output.get("data", {}).get("text/plain", "") for output in each]
             for each in (stored, fresh)]  # fmt: skip
    return [difference for pair in zip(*texts, strict=True) for difference in _in_text(*map(_without_times, pair))]


def _in_text(stored: str, fresh: str) -> list[str]:
    if _words(stored) != _words(fresh):
        return [f"stored is {stored!r}, shown is {fresh!r}"]
    pairs = zip(_NUMBER.finditer(stored), _NUMBER.finditer(fresh), strict=True)
    return [f"{old[0]} is stored, {new[0]} is shown" for old, new in pairs if not _near(stored, old, new)]


def _words(text: str) -> list[str]:
    return _NUMBER.sub("#", text).split()


def _near(text: str, old: re.Match[str], new: re.Match[str]) -> bool:
    first, second = (float(each[0].replace(",", "")) for each in (old, new))
    digits = re.fullmatch(r"-?[\d,]+(?:\.(\d+))?(?:e([-+]?\d+))?", old[0])
    assert digits
    unit = 10.0 ** (int(digits[2] or 0) - len(digits[1] or ""))
    error = re.match(r" ± ([\d.]+)", text[old.end() :])
    allowed = [_SHARE * max(abs(first), abs(second)), _DIGITS * unit, _ERRORS * float(error[1]) if error else 0.0]
    return abs(first - second) <= max(allowed) * (1 + 1e-9)


def _without_times(text: str) -> str:
    lines, place = [], None  # the place of a column of seconds, counted from the right
    for line in text.splitlines():
        cells = re.split(r" {2,}", line.strip())
        if "seconds" in cells:
            place = cells.index("seconds") - len(cells)
        elif place is not None and len(cells) >= -place > 0 and len(cells) > 1:
            cells[place] = "TIME"
        else:
            place = None
        line = re.sub(r"(iterations?|rounds?|runs?) in TIME, .*", r"\1 in TIME", _TIME.sub("TIME", "  ".join(cells)))
        lines.append(line)
    return "\n".join(lines)
