r"""Averages over architectures: uncertainty about a network's structure, beside the uncertainty about its weights.

Architectures predict together as a mixture of their predictions, each of which is itself a mixture over its own draws:
p(y | x) = sum_k w_k p_k(y | x). Its uncertainty has three parts that add up. For regression, by the law of total
variance, with m_k, e_k and a_k the mean and the epistemic and aleatoric variance of part k, and m = sum_k w_k m_k,

    total = sum_k w_k a_k + sum_k w_k e_k + sum_k w_k (m_k - m)^2 = aleatoric + within + structure

and for classification, in nats, with H the entropy and p_k the probabilities of part k,

    total = sum_k w_k a_k + sum_k w_k e_k + (H[sum_k w_k p_k] - sum_k w_k H[p_k]) = aleatoric + within + structure

where the structure part is the mutual information between the label and the architecture. The epistemic part of the
mixture is within + structure.

Stacking (Yao et al. 2018) chooses the weights by the log score of the mixture on n points that no part was fitted to:

    maximise  (1/n) sum_i log sum_k w_k p_k(y_i)   over  w_k >= 0,  sum_k w_k = 1

With g_k the derivative by w_k, any w is at most  max_k g_k - 1  nats below the best one, because the problem is
concave and sum_k w_k g_k = 1; so a solution proves itself.

Reference: https://doi.org/10.1214/17-BA1091.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from inference import Prediction
from inference.display.cards import card
from inference.display.tables import Table
from inference.results.mixture import entropy
from inference.results.prediction import Classification
from models.validation import finite_array, nonnegative_number

__all__ = ["Mixture", "average", "stacking_weights"]

_ROUNDING = 1e-6  # how far the sum of weights may be from 1
_FIRST_STEPS = 30  # fixed-point steps, which bring the weights so near that the solver does not stray
_LEAST = 1e-300  # stands in for a density of 0, which has no logarithm, but which the solver may meet
_GAP = 1e-5  # nats below the best mean log density at most: no test set is large enough to see it


@dataclass(frozen=True, eq=False, repr=False)
class Mixture:
    """The average of several predictions at the same n inputs, made by `average`.

    Attributes:
        parts: the predictions by name.
        weights: the weights of the parts, by name; they add up to 1.
    """

    parts: dict[str, Prediction]
    weights: dict[str, float]

    def __len__(self) -> int:
        return len(next(iter(self.parts.values())))

    def __repr__(self) -> str:
        weights = ", ".join(f"{name} {weight:.3g}" for name, weight in self.weights.items())
        return f"<Mixture of {len(self.parts)} predictions at {len(self):,} inputs, with the weights {weights}>"

    def _repr_html_(self) -> str:
        weights = [(name, f"{weight:.3f}") for name, weight in self.weights.items()]
        heading = f"Average of {len(self.parts)} predictions at {len(self):,} inputs"
        return card(heading, Table("", ("prediction", "weight"), weights))

    @property
    def classification(self) -> bool:
        """Whether labels are predicted."""
        return isinstance(next(iter(self.parts.values())), Classification)

    @cached_property
    def mean(self) -> Float[np.ndarray, "n ..."]:
        """The mean of the mixture; for classification the probability of each class."""
        return self._weighted("mean")

    @property
    def probs(self) -> Float[np.ndarray, "n classes"]:
        """The probability of each class.

        Raises:
            TypeError: for a regression.
        """
        if not self.classification:
            raise TypeError("a regression has no class probabilities; use mean, total and log_prob")
        return self.mean

    @cached_property
    def aleatoric(self) -> Float[np.ndarray, "n ..."]:
        """The uncertainty that neither more data nor another architecture would remove."""
        return self._weighted("aleatoric")

    @cached_property
    def within(self) -> Float[np.ndarray, "n ..."]:
        """The epistemic part that is left when the architecture is known."""
        return self._weighted("epistemic")

    @cached_property
    def structure(self) -> Float[np.ndarray, "n ..."]:
        """The uncertainty that is due to not knowing the architecture."""
        if self.classification:
            return np.maximum(entropy(self.probs) - self._weighted("total"), 0.0)  # rounding can leave -1e-16
        squares = [w * (part.mean - self.mean) ** 2 for w, part in self._weights_and_parts]
        return np.asarray(sum(squares))

    @property
    def epistemic(self) -> Float[np.ndarray, "n ..."]:
        """The uncertainty about weights and structure."""
        return self.within + self.structure

    @property
    def total(self) -> Float[np.ndarray, "n ..."]:
        """The variance of the mixture, or its entropy in nats."""
        return self.aleatoric + self.epistemic

    @property
    def std(self) -> Float[np.ndarray, "n ..."]:
        """The standard deviation of the mixture, for classification of a label written as 0s and one 1."""
        return np.sqrt(self.probs * (1 - self.probs)) if self.classification else np.sqrt(self.total)

    def log_prob(self, y: Any) -> Float[np.ndarray, " n"]:
        """The log density, or log probability, of the mixture at each row's target."""
        terms = np.stack([np.log(w) + part.log_prob(y) for w, part in self._weights_and_parts])
        return logsumexp(terms, axis=0)

    @property
    def _weights_and_parts(self) -> list[tuple[float, Prediction]]:
        """The weights and predictions of the parts whose weight is above 0."""
        return [(self.weights[name], part) for name, part in self.parts.items() if self.weights[name] > 0]

    def _weighted(self, what: str) -> np.ndarray:
        return np.asarray(sum(w * getattr(part, what) for w, part in self._weights_and_parts))


def average(predictions: Mapping[str, Prediction], weights: Mapping[str, float] | None = None) -> Mixture:
    """Average the predictions of several architectures.

    Args:
        predictions: the predictions by name, of the same targets at the same inputs and in the same units. Each counts
            by its weight, however many draws it has.
        weights: the weights by the same names, adding up to 1, for instance from `stacking_weights`; None gives every
            prediction the same weight.

    Raises:
        TypeError: if one of `predictions` is not the prediction of a network.
        ValueError: if the predictions or the weights don't go together.
    """
    if not isinstance(predictions, Mapping):
        raise TypeError(f"average needs predictions by name, such as {{'relu': ...}}, got {type(predictions).__name__}")
    if not predictions:
        raise ValueError("predictions must hold at least one prediction by its name, got none")
    for name, prediction in predictions.items():
        if not isinstance(prediction, Prediction):
            raise TypeError(f"predictions must hold predictions of networks, '{name}' is {type(prediction).__name__}")
    (first, anchor), *others = predictions.items()
    for name, prediction in others:
        _check_alike(first, anchor, name, prediction)
    if weights is None:
        weights = dict.fromkeys(predictions, 1 / len(predictions))
    if set(weights) != set(predictions):
        raise ValueError(f"weights must have the names {', '.join(predictions)}, got {', '.join(weights)}")
    for name, weight in weights.items():
        nonnegative_number(f"weights: that of '{name}'", weight)
    total = sum(weights.values())
    if abs(total - 1) > _ROUNDING:
        raise ValueError(f"weights must add up to 1, got {total:.6g}; divide them by their sum")
    return Mixture(dict(predictions), {name: float(weights[name] / total) for name in predictions})


def stacking_weights(log_densities: Mapping[str, Any]) -> dict[str, float]:
    """The weights whose mixture has the best log score.

    Args:
        log_densities: by architecture, the log density of each point's target, `prediction.log_prob(y)`, at points that
            were held out from every fit, or left out of it one at a time. On points that were fitted, the architecture
            that fits most closely would win, not the one that predicts best.

    Returns:
        The weights by name, for `average`.

    Raises:
        ValueError: if `log_densities` are not finite or not of the same points.
        RuntimeError: if the weights could not be found, as far as known only where densities differ absurdly.
    """
    if not isinstance(log_densities, Mapping):
        raise TypeError(
            f"stacking_weights needs log densities by name, such as {{'relu': ...}}, got {type(log_densities).__name__}"
        )
    if not log_densities:
        raise ValueError("log_densities must hold at least one array by its name, got none")
    columns = {name: finite_array(f"log_densities: '{name}'", values) for name, values in log_densities.items()}
    shapes = {column.shape for column in columns.values()}
    if len(shapes) > 1 or len(next(iter(shapes))) != 1 or 0 in next(iter(shapes)):
        raise ValueError(f"log_densities must be of shape (n,), the same points for all, got shapes {sorted(shapes)}")
    logs = np.stack(list(columns.values()), axis=1).astype(np.float64)
    densities = np.exp(logs - logs.max(axis=1, keepdims=True))  # a factor for each point changes nothing
    found = _best_mixture(densities)
    gap = float(_slopes(densities, found).max() - 1)
    if not gap <= _GAP:
        raise RuntimeError(f"the stacking weights may be {gap:.2g} nats below the best; compare fewer architectures")
    return dict(zip(columns, found.tolist(), strict=True))


def _best_mixture(densities: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " k"]:
    """The best weights: by w_k <- w_k g_k, which never lowers the score but crawls, then by quadratic programming."""
    from scipy.optimize import minimize

    count = densities.shape[1]
    weights = np.full(count, 1 / count)
    for _ in range(_FIRST_STEPS):
        weights = weights * _slopes(densities, weights)
    solved = minimize(
        lambda w: -np.log(np.maximum(densities @ w, _LEAST)).mean(),
        weights,
        jac=lambda w: -_slopes(densities, w),
        bounds=[(0, 1)] * count,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 200},
    ).x
    solved = np.maximum(solved, 0.0)
    solved = solved / solved.sum()
    return min((weights, solved), key=lambda w: _slopes(densities, w).max())


def _slopes(densities: Float[np.ndarray, "n k"], weights: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """The derivative g of the mean log density by each weight."""
    return densities.T @ (1 / np.maximum(densities @ weights, _LEAST)) / len(densities)


def _check_alike(first: str, anchor: Prediction, name: str, prediction: Prediction) -> None:
    """Require that two predictions are of the same targets."""
    kinds = [type(each.likelihood).__name__ for each in (anchor, prediction)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"predictions must have the same kind of likelihood, '{first}' has {kinds[0]} and '{name}' {kinds[1]}; run "
            "all architectures with one"
        )
    facts = {
        "rows": [len(each) for each in (anchor, prediction)],
        "targets per row": [each.likelihood.outputs for each in (anchor, prediction)],
        "classes": [each.likelihood.classes for each in (anchor, prediction)],
    }
    for what, (ours, theirs) in facts.items():
        if ours != theirs:
            raise ValueError(f"predictions must have as many {what}, '{first}' has {ours} and '{name}' {theirs}")
    if anchor.restored != prediction.restored:
        raise ValueError(f"predictions must be in the same units; restore both '{first}' and '{name}', or neither")
