"""A sweep: the scores of one model over the values of one thing, with errors over seeds.

How values are compared is in `inference.sweeps.differences`. Where runs failed or were not made, the best is sought
over the seeds that all values have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from inference.display.cards import card
from inference.display.tables import Table, with_error
from inference.results.scores import BEST
from inference.sweeps.differences import Difference, mean_and_error, paired_differences
from inference.sweeps.figure import directed, draw_curves
from models import Prior
from models.rules import as_prior
from models.validation import one_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RHAT", "Sweep"]

RHAT = 1.01
"""Chains disagree whose R-hat is above this, and above what chance explains; as in `diagnostics.convergence`."""


class _Incomparable(ValueError):
    """No value can be called the best."""


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """Scores over the values of one thing; `str()` of it is the table with what to make of it.

    Attributes:
        name: what is varied: "temperature", "prior_scale" or "prior".
        values: temperatures, scales or priors.
        labels: the values in words.
        seeds: the same for all values.
        scores: by name, (value, seed); nan where a run failed or was not made.
        rhat: the worst R-hat of the functions of each run; nan where its draws are not chains.
        unmixed: whether the chains of each run disagree by more than chance explains, see `inference.mixing`, or have
            fewer than 50 effective draws.
        divergences: how many draws of each run were divergent.
        seconds: how long each run took, compiling included; nan where it was not made.
        gradients: how many gradients each run took.
        failures: why a run gave nothing, or lost chains, by the value's label and the seed.
        reference: the place among `values` of what the others are compared with, temperature 1 or the model's own
            prior; None if it is not among them.
        partial: True if Ctrl-C stopped the sweep before all runs were made.
    """

    name: str
    values: tuple[Any, ...]
    labels: tuple[str, ...]
    seeds: tuple[int, ...]
    scores: dict[str, Float[np.ndarray, "value seed"]]
    rhat: Float[np.ndarray, "value seed"]
    unmixed: Bool[np.ndarray, "value seed"]
    divergences: Int[np.ndarray, "value seed"]
    seconds: Float[np.ndarray, "value seed"]
    gradients: Int[np.ndarray, "value seed"]
    failures: dict[tuple[str, int], str]
    reference: int | None
    partial: bool = False

    def mean(self, score: str) -> Float[np.ndarray, " value"]:
        """The mean of a score over the seeds that have it; nan where none has."""
        return mean_and_error(self._of(score))[0]

    def standard_error(self, score: str) -> Float[np.ndarray, " value"]:
        """The standard error of the mean of a score; nan with fewer than two seeds."""
        return mean_and_error(self._of(score))[1]

    def difference(self, score: str, reference: Any = None) -> Difference:
        """How far each value's score is from the reference's, seed by seed.

        Args:
            score: the score's name.
            reference: one of the values, or its label; None takes `Sweep.reference`.
        """
        return paired_differences(self._of(score), self._place(reference), len(self.values) - 1)

    def best(self, score: str = "log_score", highest: bool | None = None) -> Any:
        """The value with the best mean score over the seeds that all have; `conclusion` says whether it stands out.

        Args:
            score: the score's name.
            highest: whether more is better, for a score of your own.
        """
        return self.values[self._best(score, highest)]

    def conclusion(self, score: str = "log_score", highest: bool | None = None) -> str:
        """Which value is best, and whether it can be told from the reference, or from the others, in a sentence."""
        try:
            place = self._best(score, highest)
        except _Incomparable as error:
            return f"{error}."
        what = f"{score}: {self.name} {self.labels[place]} is best"
        if np.sum(self._shared(score)) < 2:
            return f"{what}; one seed can't say whether that is more than chance."
        count = len(self.values)
        if self.reference is None or place == self.reference:
            pairs = count - 1 if place == self.reference else count * (count - 1) // 2
            found = paired_differences(self._of(score), place, pairs)
            others = [self.labels[i] for i in range(count) if i != place and not found.distinguishable[i]]
            unclear = (
                f"; not distinguishable from it: {', '.join(others)}"
                if others
                else ", and distinguishable from every other"
            )
            return f"{what}{unclear if count > 1 else ''}."
        own = f"{self.name} {self.labels[self.reference]}"
        found = self.difference(score)
        words = "" if found.distinguishable[place] else ", which is not distinguishable"
        paired = with_error(found.mean[place], found.standard_error[place], sign=True)
        return f"{what}; its paired difference to {own} is {paired}{words}."

    @property
    def concerns(self) -> tuple[str, ...]:
        """What speaks against believing the scores, in words."""
        made, total = int(np.isfinite(self.seconds).sum()), self.seconds.size
        found = [f"stopped after {made} of {total} runs"] if self.partial else []
        found += [f"{self.name} {label}, seed {seed}: {why}" for (label, seed), why in self.failures.items()]
        if self.unmixed.any():
            worst = self.labels[int(np.nanargmax(self.rhat)) // len(self.seeds)]
            found.append(
                f"the chains have not mixed (R-hat above {RHAT}, or few draws) in {self.unmixed.sum()} of {made} runs, "
                "worst "
                f"{np.nanmax(self.rhat):.3g} at {self.name} {worst}: their draws may not be those of the posterior"
            )
        if self.divergences.any():
            where = int((self.divergences > 0).sum())
            found.append(f"{self.divergences.sum()} divergent draws, in {where} of {made} runs")
        return tuple(found)

    def tables(self) -> tuple[Table, ...]:
        """Tables as text: means, and paired differences, each with their standard errors."""
        head = [self.name, *self.scores]
        counts = np.max([(~np.isnan(values)).sum(axis=1) for values in self.scores.values()], axis=0)
        differ = bool(np.ptp(counts))
        chains = bool(np.isfinite(self.rhat).any() or np.isinf(self.rhat).any())
        rows = []
        for i, label in enumerate(self.labels):
            cells = [with_error(self.mean(score)[i], self.standard_error(score)[i]) for score in self.scores]
            mixed = [f"{np.nanmax(self.rhat[i]):.3f}" if not np.isnan(self.rhat[i]).all() else ""] if chains else []
            rows.append(
                [label, *cells, *mixed, f"{mean_and_error(self.seconds)[0][i]:.1f}", *[str(counts[i])] * differ]
            )
        seeds = len(self.seeds)
        over = f"mean ± standard error over {seeds} seeds" if seeds > 1 else f"seed {self.seeds[0]}"
        over += ", or as many as a row says" * differ
        extra = ["worst R-hat"] * chains + ["seconds"] + ["seeds"] * differ
        means = Table(over, [*head, *extra], rows)
        if self.reference is None or len(self.values) == 1:
            return (means,)
        differences = [self.difference(score) for score in self.scores]
        rows = [
            [label, *(_marked(found, i) for found in differences)]
            for i, label in enumerate(self.labels)
            if i != self.reference
        ]
        marks = "; * cannot be explained by seeds alone" if seeds > 1 else ""
        own = f"{self.name} {self.labels[self.reference]}"
        return means, Table(f"paired differences to {own}{marks}", head, rows)

    @property
    def _conclusions(self) -> list[str]:
        return [self.conclusion()] if "log_score" in self.scores and len(self.values) > 1 else []

    def table(self) -> str:
        """All tables in one text."""
        return "\n".join(map(str, self.tables()))

    def __str__(self) -> str:
        return "\n".join([self.table(), *self._conclusions, *(f"  - {each}" for each in self.concerns)])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return card(f"Sweep of {self.name}", *self._conclusions, self.concerns, *self.tables())

    def plot(self, path: str | Path | None = None) -> Figure:
        """The curve of each score: means with standard errors, single seeds in grey, the reference as a dashed line.

        Points are hollow where the chains of a run have not mixed, see `unmixed`.

        Args:
            path: where to write the figure as well, in the format of its ending: .png, .pdf, .svg.
        """
        curves = {score: (values, *mean_and_error(values)) for score, values in self.scores.items()}
        numbers = None if self.name == "prior" else np.asarray(self.values, np.float64)
        titles = [directed(score) for score in self.scores]
        figure = draw_curves(titles, curves, self.labels, numbers, np.any(self.unmixed, axis=1), self.reference)
        if numbers is not None:
            figure.supxlabel(self.name.replace("_", " "), fontsize=10)
        figure.suptitle(self._caption(), fontsize=8, color="0.3", x=0.01, ha="left")
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=150)
        return figure

    def _caption(self) -> str:
        seeds = len(self.seeds)
        words = [f"mean ± standard error over {seeds} seeds (grey)" if seeds > 1 else f"seed {self.seeds[0]}"]
        words += [f"dashed: {self.name} {self.labels[self.reference]}"] if self.reference is not None else []
        words += ["hollow: chains that have not mixed"] if self.unmixed.any() else []
        return "; ".join(words)

    def _of(self, score: str) -> np.ndarray:
        one_of("score", score, self.scores)
        return self.scores[score]

    def _shared(self, score: str) -> np.ndarray:
        """Which seeds have the score for every value, values without any score left aside."""
        known = ~np.isnan(self._of(score))
        return known[known.any(axis=1)].all(axis=0)

    def _place(self, reference: Any) -> int:
        if reference is None:
            if self.reference is None:
                own = "temperature 1" if self.name == "temperature" else "the model's own prior"
                raise ValueError(f"{own} is not among the values; give reference one of {', '.join(self.labels)}")
            return self.reference
        if isinstance(reference, str) and reference in self.labels:
            return self.labels.index(reference)
        wanted = as_prior(reference) if self.name == "prior" and not isinstance(reference, str | Prior) else reference
        if wanted not in self.values:
            raise ValueError(f"reference must be one of {', '.join(self.labels)}, got {reference!r}")
        return self.values.index(wanted)

    def _best(self, score: str, highest: bool | None) -> int:
        values = self._of(score)
        if highest is None and score not in BEST:
            raise ValueError(f"whether more is better is not known of '{score}'; give highest=True or highest=False")
        if np.isnan(values).all():
            raise _Incomparable(f"no run has a {score}")
        if not self._shared(score).any():
            raise _Incomparable(f"no seed has a {score} of every {self.name}, so none is best")
        mean = mean_and_error(values[:, self._shared(score)])[0]
        if highest is None and math.isfinite(BEST[score]):
            return int(np.nanargmin(np.abs(mean - BEST[score])))
        return int(np.nanargmax(mean) if highest is None or highest else np.nanargmin(mean))


def _marked(found: Difference, i: int) -> str:
    return with_error(found.mean[i], found.standard_error[i], sign=True) + (" *" if found.distinguishable[i] else "  ")
