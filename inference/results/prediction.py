r"""Predictions: what a posterior says about new targets, as a mixture over its draws.

Every draw w_s of the posterior gives a distribution p(y | x, w_s); the prediction is their average, each draw with the
same weight:  p(y | x) = (1/S) sum_s p(y | x, w_s).  Uncertainty splits into a part that more data would remove and one
that they would not. For regression, as variances (law of total variance):

    total = Var_s(E[y | w_s]) + E_s(Var[y | w_s]) = epistemic + aleatoric

For classification, in nats, with H the entropy and p_s the probabilities under draw s (Kendall & Gal 2017):

    total = H[mean_s p_s] = (H[mean_s p_s] - mean_s H[p_s]) + mean_s H[p_s] = epistemic + aleatoric

Moments over draws divide by the number of draws, so a point estimate has an epistemic part of exactly 0. All numbers
are float64 NumPy arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from scipy.special import logsumexp

from inference.display.cards import card
from inference.display.first_rows import first_rows
from inference.results.mixture import DRAWS, entropy, mixture_quantile
from inference.results.table_predictions import Rows, to_frame
from models import Likelihood
from models.classifiers import LabelLikelihood
from models.likelihoods import RealLikelihood
from models.validation import finite_array

__all__ = ["Classification", "Prediction", "Regression"]

_BLOCK = 2**20  # values of draws and rows that are worked on at once


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """What a posterior says about the targets at n inputs.

    Attributes:
        outputs: the network's outputs under each draw, (chain, draw, n, outputs).
        likelihood: the likelihood of the targets given the outputs.
        noise: the likelihood's own parameter per draw, the same for all inputs and ready to broadcast; 0 if it has
            none.
        restored: True in the data's own units, False in the units of the `y` that was given to `run`.
        rows: what is known of the rows, if they are those of a table.
    """

    outputs: Float[np.ndarray, "chain draw n k"]
    likelihood: Likelihood
    noise: np.ndarray
    restored: bool = False
    rows: Rows | None = None

    @staticmethod
    def of(likelihood: Any, outputs: np.ndarray, sites: dict[str, np.ndarray]) -> Prediction:
        """The prediction of `likelihood` from `outputs` and the draws of the `sites` that they came from."""
        if likelihood.classes is None:
            return Regression(outputs, likelihood, likelihood.noise(sites))
        return Classification(outputs, likelihood, np.zeros(()))

    def __len__(self) -> int:
        return self.outputs.shape[2]

    def __repr__(self) -> str:
        return f"<{self._what}; mean, std, epistemic, aleatoric and sample have its numbers>"

    def _repr_html_(self) -> str:
        return card(self._what, first_rows(self), note="mean, std, epistemic, aleatoric and sample have its numbers.")

    @property
    def _what(self) -> str:
        chains, draws, inputs, _ = self.outputs.shape
        family = type(self.likelihood).__name__
        return f"{type(self).__name__} at {inputs:,} inputs by {chains} x {draws:,} draws, {family} likelihood"

    @property
    def has_variance(self) -> bool:
        """Whether its uncertainty splits into parts."""
        return True

    @property
    def mean(self) -> Float[np.ndarray, "n ..."]:
        """The mean of the mixture; labels are written as 0s and one 1."""
        raise NotImplementedError(f"{type(self).__name__} must know its mean")

    @property
    def std(self) -> Float[np.ndarray, "n ..."]:
        """The standard deviation of the mixture; labels are written as 0s and one 1."""
        raise NotImplementedError(f"{type(self).__name__} must know its standard deviation")

    @property
    def epistemic(self) -> Float[np.ndarray, "n ..."]:
        """The part of the uncertainty that more data would remove: a variance, or nats for labels."""
        raise NotImplementedError(f"{type(self).__name__} must know its epistemic part")

    @property
    def aleatoric(self) -> Float[np.ndarray, "n ..."]:
        """The part of the uncertainty that no data would remove: a variance, or nats for labels."""
        raise NotImplementedError(f"{type(self).__name__} must know its aleatoric part")

    @property
    def total(self) -> Float[np.ndarray, "n ..."]:
        """The whole uncertainty: a variance, or nats for labels."""
        raise NotImplementedError(f"{type(self).__name__} must know its uncertainty")

    def at(self, rows: Any) -> Any:
        """The prediction at `rows` alone."""
        return replace(self, outputs=self.outputs[:, :, rows], rows=None if self.rows is None else self.rows.at(rows))

    def to_frame(self, probability: float = 0.9) -> Any:
        """The prediction as a pandas data frame, a row for each input, with the index of the table if it came from one.

        Its columns are, for numbers, `mean`, `std`, `lower` and `upper` (of the central interval that holds
        `probability`), `epistemic` and `aleatoric` (variances, which add up to the square of `std`); for classes
        `label`, `probability <class>` for each, `epistemic` and `aleatoric` (in nats). For a table also `outside`, the
        columns in which a row is beyond the range of the training rows. With several targets, each column has the
        target's number behind its name.
        """
        return to_frame(self, probability)

    def log_prob(self, y: Any) -> Float[np.ndarray, " n"]:
        """The log density, or log probability, of the mixture at each row's target, joint over a row's outputs."""
        by_draw = self.log_prob_by_draw(y)
        return logsumexp(by_draw, axis=DRAWS) - np.log(by_draw.shape[0] * by_draw.shape[1])

    def log_prob_by_draw(self, y: Any) -> Float[np.ndarray, "chain draw n"]:
        """The log density, or log probability, of each row's target under each draw alone: its log-likelihood."""
        raise NotImplementedError(f"{type(self).__name__} must know its density")

    def sample(self, seed: int = 0) -> Shaped[np.ndarray, "chain draw n ..."]:
        """One target per draw and input."""
        raise NotImplementedError(f"{type(self).__name__} must draw targets")

    def rescaled(self, location: np.ndarray, scale: np.ndarray) -> Prediction:
        """The prediction of `location + scale * y`; labels have no units."""
        raise NotImplementedError(f"{type(self).__name__} must know its units")

    def _targets(self, y: Any) -> np.ndarray:
        array = finite_array("y", y)
        several = self.likelihood.classes is None and self.likelihood.outputs > 1
        expected = (len(self), self.likelihood.outputs) if several else (len(self),)
        if array.shape != expected:
            raise ValueError(f"y must have shape {expected}, as the prediction has, got {array.shape}")
        return array


@dataclass(frozen=True, eq=False, repr=False)
class Regression(Prediction):
    """A prediction of real targets, (n,) for one output and (n, d) for several."""

    likelihood: RealLikelihood

    @cached_property
    def _conditional(self) -> Any:
        return self.likelihood.conditional(self.outputs, self.noise)

    @cached_property
    def _centres(self) -> Float[np.ndarray, "chain draw n ..."]:
        return self.likelihood.mean(self.outputs).astype(np.float64)

    @cached_property
    def mean(self) -> Float[np.ndarray, "n ..."]:
        """The mean of the mixture."""
        return self._centres.mean(axis=DRAWS)

    @cached_property
    def epistemic(self) -> Float[np.ndarray, "n ..."]:
        """The variance over draws of the conditional mean."""
        return self._centres.var(axis=DRAWS)

    @cached_property
    def aleatoric(self) -> Float[np.ndarray, "n ..."]:
        """The mean over draws of the conditional variance.

        Raises:
            ValueError: if the noise has no variance, such as a Student-t with 2 degrees of freedom or fewer.
        """
        if not self.has_variance:
            raise ValueError(
                f"{self.likelihood} has no variance, so there is no aleatoric or total variance; use interval and cdf"
            )
        return np.broadcast_to(self._conditional.var(), self._centres.shape).mean(axis=DRAWS)

    @property
    def has_variance(self) -> bool:
        """Whether the noise has a variance; a Student-t with 2 degrees of freedom or fewer has none."""
        return bool(np.isfinite(self._conditional.var()).all())

    @property
    def total(self) -> Float[np.ndarray, "n ..."]:
        """The variance of the mixture."""
        return self.epistemic + self.aleatoric

    @property
    def std(self) -> Float[np.ndarray, "n ..."]:
        """The standard deviation of the mixture."""
        return np.sqrt(self.total)

    def log_prob_by_draw(self, y: Any) -> Float[np.ndarray, "chain draw n"]:
        """The log density of each row's target under each draw, joint over a row's outputs."""
        log_density = self._conditional.logpdf(self._targets(y))
        return log_density.sum(axis=-1) if log_density.ndim > 3 else log_density

    def cdf(self, y: Any) -> Float[np.ndarray, "n ..."]:
        """The probability that the mixture puts below each target."""
        return self.cdf_by_draw(y).mean(axis=DRAWS)

    def cdf_by_draw(self, y: Any) -> Float[np.ndarray, "chain draw n ..."]:
        """The probability that each draw alone puts below each target."""
        return self._conditional.cdf(self._targets(y))

    def interval(self, probability: float = 0.9) -> tuple[Float[np.ndarray, "n ..."], Float[np.ndarray, "n ..."]]:
        """The central interval of the mixture that holds `probability`, as (lower, upper)."""
        if not 0 < probability < 1:
            raise ValueError(f"probability must be above 0 and below 1, got {probability!r}")
        return self._quantile((1 - probability) / 2), self._quantile((1 + probability) / 2)

    def _quantile(self, level: float) -> np.ndarray:
        """The mixture's quantile at `level`, by blocks of rows, so that memory is bounded."""
        draws = self.outputs.shape[0] * self.outputs.shape[1]
        size = max(1, _BLOCK // (draws * self.outputs.shape[3]))
        blocks = [
            mixture_quantile(self.likelihood, self.outputs[:, :, first : first + size], self.noise, level)
            for first in range(0, len(self), size)
        ]
        return np.concatenate(blocks)

    def sample(self, seed: int = 0) -> Float[np.ndarray, "chain draw n ..."]:
        """One target per draw and input."""
        return self._conditional.rvs(np.random.default_rng(seed))

    def rescaled(self, location: np.ndarray, scale: np.ndarray) -> Regression:
        """The prediction of `location + scale * y`; a prediction that is already in the data's own units stays so."""
        if self.restored:
            return self
        expected = () if self.likelihood.outputs == 1 else (self.likelihood.outputs,)
        if np.shape(scale) != expected:
            raise ValueError(
                f"a prediction of {self.likelihood.outputs} outputs needs scales of shape {expected}, got "
                f"{np.shape(scale)}; restore it by a split of the data it was made for"
            )
        outputs, noise = self.likelihood.rescaled(self.outputs.astype(np.float64), self.noise, location, scale)
        return replace(self, outputs=outputs, noise=noise, restored=True)


@dataclass(frozen=True, eq=False, repr=False)
class Classification(Prediction):
    """A prediction of labels."""

    likelihood: LabelLikelihood

    @cached_property
    def _log_probs(self) -> Float[np.ndarray, "chain draw n classes"]:
        return self.likelihood.log_probabilities(self.outputs)

    @cached_property
    def probs(self) -> Float[np.ndarray, "n classes"]:
        """The probability of each class under the mixture."""
        return np.exp(self._log_probs).mean(axis=DRAWS)

    @property
    def mean(self) -> Float[np.ndarray, "n classes"]:
        """The mean of a label written as 0s and one 1, which is `probs`."""
        return self.probs

    @property
    def std(self) -> Float[np.ndarray, "n classes"]:
        """The standard deviation of a label written as 0s and one 1."""
        return np.sqrt(self.probs * (1 - self.probs))

    @cached_property
    def aleatoric(self) -> Float[np.ndarray, " n"]:
        """The mean over draws of the entropy, in nats."""
        return -(np.exp(self._log_probs) * self._log_probs).sum(axis=-1).mean(axis=DRAWS)

    @cached_property
    def total(self) -> Float[np.ndarray, " n"]:
        """The entropy of the mixture, in nats."""
        return entropy(self.probs)

    @property
    def epistemic(self) -> Float[np.ndarray, " n"]:
        """The mutual information between label and weights, in nats; 0 for a point estimate."""
        if self.outputs.shape[0] * self.outputs.shape[1] == 1:
            return np.zeros(len(self))
        return np.maximum(self.total - self.aleatoric, 0.0)  # rounding can leave -1e-16

    def log_prob_by_draw(self, y: Any) -> Float[np.ndarray, "chain draw n"]:
        """The log probability of each row's label under each draw."""
        labels = self.likelihood.check(self._targets(y), len(self))
        chosen = np.take_along_axis(self._log_probs, labels[None, None, :, None].astype(np.int64), axis=-1)
        return chosen[..., 0]

    def interval(self, probability: float = 0.9) -> Any:
        """Labels have no interval: raises TypeError."""
        raise TypeError("a label has no interval; use probs, epistemic and aleatoric")

    def sample(self, seed: int = 0) -> Shaped[np.ndarray, "chain draw n"]:
        """One label per draw and input."""
        gumbel = np.random.default_rng(seed).gumbel(size=self._log_probs.shape)
        return (self._log_probs + gumbel).argmax(axis=-1).astype(np.int32)

    def rescaled(self, location: np.ndarray, scale: np.ndarray) -> Classification:
        """This prediction as it is: labels have no units."""
        return self
