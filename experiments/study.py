"""What a study is: a question, a rule of decision that is written before it is run, and what was found.

A study is a file of this package with a function that runs it and a `Study` that says what it asks. The function is
given a `Laboratory`, which keeps posteriors that are dear, and the study's settings; it returns a `Finding`.
`touchstone reproduce` runs studies by name, and `experiments.findings` writes what was found into a document.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import inference
from data import Split
from inference.display.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CLEAR", "Finding", "Laboratory", "Study", "decided", "mean_and_error"]

CLEAR = 2.0
"""How many standard errors an effect must have before it counts, unless a study's rule says otherwise."""

_WORDS = ("confirmed", "contradicted", "undecided")


@dataclass(frozen=True)
class Finding:
    """What a study found.

    Attributes:
        verdict: "confirmed", "contradicted" or "undecided": what its rule says of the published claim.
        because: the numbers that the rule looked at, in a sentence or two.
        tables: ours beside the published numbers.
        values: the numbers behind it, for JSON.
        draw: makes the study's figure.
    """

    verdict: str
    because: str
    tables: tuple[Table, ...]
    values: Mapping[str, Any]
    draw: Callable[[], Figure]

    def __post_init__(self) -> None:
        if self.verdict not in _WORDS:
            raise ValueError(f"verdict must be one of {', '.join(_WORDS)}; got {self.verdict!r}")


class Laboratory:
    """Where a study runs: it says how far it is, and keeps posteriors that are dear.

    Args:
        say: takes a line of text about the progress.
        directory: where posteriors are kept, so that a study which is run again, or another one with the same
            reference, takes them from there; None keeps nothing.
    """

    def __init__(self, say: Callable[[str], None] = print, directory: str | Path | None = None) -> None:
        self.say = say
        self.directory = None if directory is None else Path(directory)

    def posterior(self, name: str, model: Any, train: Split, **options: Any) -> inference.Posterior:
        """Run a method, or take the posterior of the same run from the directory; go on with one that was stopped.

        What a run warns of is not shown: a study judges its posteriors, and says so where one can't be believed.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", inference.TouchstoneWarning)
            if self.directory is None:
                return inference.run(model, train, progress=False, **options)
            digest = hashlib.sha256(repr((model, sorted(options.items()))).encode())
            for part in (train.x, train.y):
                digest.update(np.ascontiguousarray(part).tobytes())
            folder = self.directory / f"{name}-{digest.hexdigest()[:12]}"
            if folder.exists():
                return inference.resume(folder, model, progress=False)
            return inference.run(model, train, progress=False, directory=folder, **options)


@dataclass(frozen=True)
class Study:
    """A published claim and how it is put to the test.

    Attributes:
        name: what it is called by, such as "hmc_uci".
        title: a few words.
        question: what is asked.
        rule: what counts as confirmed, contradicted and undecided: the effect, its standard error and the threshold.
            It is written before the study is run.
        published: what the paper found, its numbers, and which paper.
        run: runs the study with a laboratory and its settings.
        full: the settings of the whole study.
        quick: those that are other in a size for tests, which decides nothing.
        needs: data sets that do not come with the package.
        minutes: how long the whole study took on two cores, at least and roughly.
    """

    name: str
    title: str
    question: str
    rule: str
    published: str
    run: Callable[..., Finding]
    full: Mapping[str, Any]
    quick: Mapping[str, Any]
    needs: tuple[str, ...] = ()
    minutes: float = float("nan")

    def settings(self, quick: bool = False) -> dict[str, Any]:
        """The settings of the whole study, or of the quick one."""
        return {**self.full, **(self.quick if quick else {})}


def mean_and_error(values: Any) -> tuple[float, float]:
    """The mean of some numbers and its standard error; the error of a single number is nan."""
    numbers = np.asarray(values, float)
    error = float(numbers.std(ddof=1) / math.sqrt(len(numbers))) if len(numbers) > 1 else float("nan")
    return float(numbers.mean()), error


def decided(effect: float, error: float, clear: float = CLEAR) -> str:
    """The verdict on a claim by an effect that is positive if the claim holds, and its standard error."""
    if effect > clear * error:
        return "confirmed"
    return "contradicted" if effect < -clear * error else "undecided"
