"""Is what a notebook has stored what it shows today?

Words must be the same, and so must the kinds of outputs and the number of pictures of each cell. A number may differ by
5 %, by two units of its last digit, or by three standard errors where it is followed by one, as in "0.12 ± 0.03":
another processor rounds differently, and then chains part. Times are not compared, and of a line that progress left
behind neither is what comes after the time, because it is of the last piece of a chain. HTML is compared as the words
that it shows; what is in a frame is not.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

__all__ = ["changed"]

_SHARE, _DIGITS, _ERRORS = 0.05, 2, 3
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")
_LINES = ("tr", "p", "li", "div", "caption", "strong")
_TIME = re.compile(r"(?<![\w.])\d+(?:\.\d+)? (?:s|min|h|days)\b")


class _Words(HTMLParser):
    """What a page shows: a line for each paragraph and each row of a table, with two spaces before each cell."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.within = "", ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.within = tag
        self.text += "  " if tag in ("td", "th") else "\n" if tag in _LINES else ""

    def handle_endtag(self, tag: str) -> None:
        self.within = ""

    def handle_data(self, data: str) -> None:
        self.text += "" if self.within == "style" else data.strip("\n ")


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
    texts = [[text for output in each for text in _texts(output)] for each in (stored, fresh)]
    return [difference for pair in zip(*texts, strict=True) for difference in _in_text(*map(_without_times, pair))]


def _texts(output: Any) -> tuple[str, str]:
    """What an output says as text, and what its HTML shows."""
    data = output.get("data", {})
    return output.get("text") or data.get("text/plain", ""), _Words(data.get("text/html", "")).text


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
        if cells[0].endswith("per second"):
            cells = [cells[0]]
        elif "seconds" in cells:
            place = cells.index("seconds") - len(cells)
        elif place is not None and len(cells) >= -place > 0 and len(cells) > 1:
            cells[place] = "TIME"
        else:
            place = None
        line = re.sub(r"(iterations?|rounds?|runs?) in TIME, .*", r"\1 in TIME", _TIME.sub("TIME", "  ".join(cells)))
        lines.append(line)
    return "\n".join(lines)
