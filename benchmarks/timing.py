"""How everything here is timed: in turn with its peers, in one process, and by medians. Ratios count, not seconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

__all__ = ["medians", "slopes", "table"]


def medians(cases: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Seconds that each case takes; every case runs once beforehand, then all in turn."""
    for case in cases.values():
        case()
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repeats):
        for name, case in cases.items():
            began = time.perf_counter()
            case()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def slopes(
    cases: dict[str, Callable[[int], int]], short: int, long: int, repeats: int = 5
) -> dict[str, tuple[float, float]]:
    """Seconds per unit of work, and seconds beyond that, of each case.

    A case takes how much to do and returns how many units that was. Both lengths of all cases are run in turn; the
    difference between them is work alone, whatever a call costs by itself.
    """
    units: dict[tuple[str, int], int] = {}

    def timed(name: str, amount: int) -> Callable[[], None]:
        def call() -> None:
            units[name, amount] = cases[name](amount)

        return call

    seconds = medians({f"{name} {amount}": timed(name, amount) for name in cases for amount in (short, long)}, repeats)
    result = {}
    for name in cases:
        work = units[name, long] - units[name, short]
        slope = (seconds[f"{name} {long}"] - seconds[f"{name} {short}"]) / work
        result[name] = slope, seconds[f"{name} {short}"] - slope * units[name, short]
    return result


def table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows in columns, the first line as their heads."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())
