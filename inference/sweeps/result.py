r"""A sweep: the scores of one model over the values of one thing, with errors over seeds.

With s_ij the score of value i under seed j, over J seeds, and r the value that others are compared with:

    mean_i = (1/J) sum_j s_ij                    standard error  sd_j(s_ij) / sqrt(J)
    difference_i = (1/J) sum_j (s_ij - s_rj)     standard error  sd_j(s_ij - s_rj) / sqrt(J)

All values share their seeds, so what a seed does to all of them alike drops out of the differences, and it is these
that decide whether a value is better than another. Where runs failed or were not made, the best is therefore sought
over the seeds that all values have. The errors are over seeds on the same training and test rows: they say what other
seeds would give, and nothing about other data. Whether a value is distinguishable from the reference is decided by
Student's t at 95 %, divided among all differences that could have been looked at (Bonferroni): all pairs, where the
best of the values is itself compared with the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import stdtrit

from inference.display.tables import aligned, with_error
from inference.results.scores import BEST
from inference.sweeps.figure import directed, draw_curves
from models import Prior
from models.rules import as_prior
from models.validation import one_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RHAT", "Difference", "Sweep"]

RHAT = 1.01
"""Chains disagree whose R-hat is above this, and above what chance explains; as in `diagnostics.convergence`."""
_ERROR_RATE = 0.05
_ROUNDING = 1e-12  # relative: more than rounding in float64 leaves between equal differences of scores


class _Incomparable(ValueError):
    """No value can be called the best."""


class Difference(NamedTuple):
    """The difference of each value's score to the reference's, over the seeds that both have.

    Attributes:
        mean: the mean of value minus reference.
        standard_error: the standard error of that mean; nan with fewer than two seeds.
        distinguishable: whether it is more than seeds alone explain; never where all seeds differ by the same amount,
            as an accuracy may on few rows, because then nothing is known about the error.
    """

    mean: Float[np.ndarray, " value"]
    standard_error: Float[np.ndarray, " value"]
    distinguishable: np.ndarray


@dataclass(frozen=True, eq=False)
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
        return _mean_and_error(self._of(score))[0]

    def standard_error(self, score: str) -> Float[np.ndarray, " value"]:
        """The standard error of the mean of a score; nan with fewer than two seeds."""
        return _mean_and_error(self._of(score))[1]

    def difference(self, score: str, reference: Any = None) -> Difference:
        """How far each value's score is from the reference's, seed by seed.

        Args:
            score: the score's name.
            reference: one of the values, or its label; None takes `Sweep.reference`.
        """
        return self._difference(score, self._place(reference), len(self.values) - 1)

    def _difference(self, score: str, place: int, looked_at: int) -> Difference:
        """The difference to the value at `place`, judged as one of `looked_at` differences."""
        values = self._of(score)
        with np.errstate(invalid="ignore"):
            gaps = values - values[place]
        mean, error = _mean_and_error(gaps)
        seeds = (~np.isnan(gaps)).sum(axis=1)
        level = 1 - _ERROR_RATE / 2 / max(1, looked_at)
        with np.errstate(invalid="ignore"):
            known = np.isfinite(error) & (error > 0)
            apart = known & (np.abs(mean) > stdtrit(np.maximum(seeds - 1, 1), level) * error)
        return Difference(mean, error, apart)

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
            found = self._difference(score, place, count - 1 if place == self.reference else count * (count - 1) // 2)
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

    def table(self) -> str:
        """Means and paired differences with their standard errors, as text."""
        head = [self.name, *self.scores]
        counts = np.max([(~np.isnan(values)).sum(axis=1) for values in self.scores.values()], axis=0)
        differ = bool(np.ptp(counts))
        chains = bool(np.isfinite(self.rhat).any() or np.isinf(self.rhat).any())
        rows = []
        for i, label in enumerate(self.labels):
            cells = [with_error(self.mean(score)[i], self.standard_error(score)[i]) for score in self.scores]
            mixed = [f"{np.nanmax(self.rhat[i]):.3f}" if not np.isnan(self.rhat[i]).all() else ""] if chains else []
            rows.append(
                [label, *cells, *mixed, f"{_mean_and_error(self.seconds)[0][i]:.1f}", *[str(counts[i])] * differ]
            )
        seeds = len(self.seeds)
        over = f"mean ± standard error over {seeds} seeds" if seeds > 1 else f"seed {self.seeds[0]}"
        over += ", or as many as a row says" * differ
        extra = ["worst R-hat"] * chains + ["seconds"] + ["seeds"] * differ
        lines = [over, *aligned([[*head, *extra], *rows])]
        if self.reference is not None and len(self.values) > 1:
            differences = {score: self.difference(score) for score in self.scores}
            rows = [
                [label, *(_marked(found, i) for found in differences.values())]
                for i, label in enumerate(self.labels)
                if i != self.reference
            ]
            own = f"{self.name} {self.labels[self.reference]}"
            marks = "; * cannot be explained by seeds alone" if seeds > 1 else ""
            lines += [f"paired differences to {own}{marks}", *aligned([head, *rows])]
        return "\n".join(lines)

    def __str__(self) -> str:
        lines = [self.table()]
        if "log_score" in self.scores and len(self.values) > 1:
            lines.append(self.conclusion())
        return "\n".join(lines + [f"  - {concern}" for concern in self.concerns])

    def plot(self, path: str | Path | None = None) -> Figure:
        """The curve of each score: means with standard errors, single seeds in grey, the reference as a dashed line.

        Points are hollow where the chains of a run have not mixed, see `unmixed`.

        Args:
            path: where to write the figure as well, in the format of its ending: .png, .pdf, .svg.
        """
        curves = {score: (values, *_mean_and_error(values)) for score, values in self.scores.items()}
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
        mean = _mean_and_error(values[:, self._shared(score)])[0]
        if highest is None and math.isfinite(BEST[score]):
            return int(np.nanargmin(np.abs(mean - BEST[score])))
        return int(np.nanargmax(mean) if highest is None or highest else np.nanargmin(mean))


def _mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of each row and its standard error, over the columns that are not nan."""
    mean, error = np.full((2, len(values)), np.nan)
    for i, row in enumerate(values):
        known = row[~np.isnan(row)]
        with np.errstate(invalid="ignore"):
            if known.size:
                mean[i] = known.mean()
            if known.size > 1:
                equal = np.ptp(known) <= _ROUNDING * np.abs(known).max()
                error[i] = 0.0 if equal else known.std(ddof=1) / math.sqrt(known.size)
    return mean, error


def _marked(found: Difference, i: int) -> str:
    return with_error(found.mean[i], found.standard_error[i], sign=True) + (" *" if found.distinguishable[i] else "  ")
