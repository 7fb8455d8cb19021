r"""Scores of predictions against what happened.

Proper scores reward honest probabilities: the log score is the mean log density (or probability) of the targets; the
CRPS is in closed form for a mixture of normals (Grimit et al. 2006), with A(m, s) = E|N(m, s^2)|:

    CRPS = (1/S) sum_i A(y - mu_i, sigma_i) - (1/(2 S^2)) sum_ij A(mu_i - mu_j, sqrt(sigma_i^2 + sigma_j^2))
    A(m, s) = m (2 Phi(m/s) - 1) + 2 s phi(m/s)

For a mixture of Student-t distributions the first sum has a closed form, and the second is a quadrature.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float, Int
from scipy.special import gammaln, stdtr, stdtrit

from data import Split
from data.pairs import targets_of
from inference.display.cards import card
from inference.display.tables import Table
from inference.results.prediction import Classification, Prediction, Regression
from models.conditionals import NormalConditional

__all__ = [
    "BEST",
    "Scores",
    "calibration_error",
    "confidence_bins",
    "crps_of_mixture",
    "crps_of_student_mixture",
    "equal_width",
    "in_data_units",
    "influences",
    "row_scores",
    "scores",
    "scores_of_rows",
]

BEST: dict[str, float] = {
    "rmse": 0.0, "crps": 0.0, "brier": 0.0, "ece": 0.0, "coverage": 0.9, "log_score": math.inf, "accuracy": math.inf,
}  # fmt: skip
"""The best value of each score; infinity where more is always better."""

_PIECES = 128  # into which each Student-t is cut: the CRPS is then off by about 1e-3 of itself
_BINS = 15  # as in Guo et al. 2017
_TINY = 1e-300


class Scores(dict[str, float]):
    """Scores by name: a dict, which a notebook shows as a table."""

    def __repr__(self) -> str:
        return ", ".join(f"{name} {value:.4g}" for name, value in self.items())

    def _repr_html_(self) -> str:
        best = {name: f"{value:g}" if math.isfinite(value) else "the higher the better" for name, value in BEST.items()}
        rows = [(name, f"{value:.4g}", best.get(name, "")) for name, value in self.items()]
        return card("Scores", Table("", ("score", "value", "best"), rows))


def scores(prediction: Prediction, y: Any) -> Scores:
    """The scores of a prediction.

    Args:
        prediction: the prediction of any posterior.
        y: the targets in the prediction's units, or a `Split`, for which the prediction is restored to the data's own
            units first.

    Returns:
        For regression `rmse`, `log_score` (mean log density), `crps` (nan for a Student-t likelihood with df <= 1) and
        `coverage` (of the central 90 % interval). For classification `accuracy`, `log_score` (mean log probability),
        `brier` (the squared error summed over classes, 0 to 2) and `ece` (the calibration error of the top class in 15
        bins of equal width).
    """
    return Scores(scores_of_rows(row_scores(prediction, y)))


def row_scores(prediction: Prediction, y: Any) -> dict[str, Float[np.ndarray, " n"]]:
    """What each row contributes to each score: its mean over rows is the score, and for `rmse` the score's square."""
    prediction, targets = in_data_units(prediction, y)
    log_score = prediction.log_prob(targets)
    if isinstance(prediction, Classification):
        probs = prediction.probs
        indicator = np.eye(probs.shape[1])[targets]
        return {
            "accuracy": (probs.argmax(axis=1) == targets).astype(np.float64),
            "log_score": log_score,
            "brier": ((probs - indicator) ** 2).sum(axis=1),
            "ece": _calibration_gaps(probs, targets, _BINS),
        }
    assert isinstance(prediction, Regression)
    lower, upper = prediction.interval(0.9)
    by_target = {
        "rmse": (prediction.mean - targets) ** 2,
        "crps": _crps(prediction, targets).reshape(targets.shape),
        "coverage": ((lower <= targets) & (targets <= upper)).astype(np.float64),
    }
    by_row = {name: values.reshape(len(values), -1).mean(axis=1) for name, values in by_target.items()}
    return {"rmse": by_row["rmse"], "log_score": log_score, "crps": by_row["crps"], "coverage": by_row["coverage"]}


def scores_of_rows(rows: dict[str, Float[np.ndarray, " n"]]) -> dict[str, float]:
    """The scores, from what each row contributes."""
    return {name: float(np.sqrt(values.mean()) if name == "rmse" else values.mean()) for name, values in rows.items()}


def influences(rows: dict[str, Float[np.ndarray, " n"]]) -> dict[str, Float[np.ndarray, " n"]]:
    """How each row moves each score, up to a constant: its standard deviation over root n is a score's standard error.

    For `rmse` it is taken through the derivative of the square root; for `ece` the bins' signs are taken as given.
    """
    root = scores_of_rows(rows).get("rmse", 0.0)
    return {name: values / max(2 * root, _TINY) if name == "rmse" else values for name, values in rows.items()}


def in_data_units(prediction: Prediction, y: Any) -> tuple[Prediction, np.ndarray]:
    """Prediction and targets in the data's own units if `y` is a `Split`, else as they are."""
    if not isinstance(prediction, Prediction):
        raise TypeError(f"prediction must be what predict gives for a network, got {type(prediction).__name__}")
    if isinstance(y, Split):
        return y.restore(prediction), y.y_original
    return prediction, np.asarray(targets_of(y))


def calibration_error(probs: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"], bins: int = _BINS) -> float:
    """Expected calibration error of the top class."""
    return float(_calibration_gaps(probs, labels, bins).mean())


def _calibration_gaps(probs: np.ndarray, labels: np.ndarray, bins: int) -> Float[np.ndarray, " n"]:
    """Each row's hit - confidence, with the sign that makes the sum over its bin positive."""
    _, confidence, hits = confidence_bins(probs, labels, bins)
    gap = (probs.argmax(axis=1) == labels) - probs.max(axis=1)
    return np.sign(hits - confidence)[equal_width(probs.max(axis=1), bins)] * gap


def confidence_bins(
    probs: Float[np.ndarray, "n k"], labels: Int[np.ndarray, " n"], bins: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count, summed confidence and hits of the top class in `bins` bins of equal width, closed above to lose no row."""
    confidence = probs.max(axis=1)
    hit = probs.argmax(axis=1) == labels
    place = equal_width(confidence, bins)
    count, total, hits = (np.bincount(place, weights, bins) for weights in (np.ones(len(place)), confidence, hit))
    return count, total, hits


def equal_width(values: Float[np.ndarray, " n"], bins: int) -> Int[np.ndarray, " n"]:
    """Which of `bins` bins of equal width each of `values` is in; bins are closed above, and the first below too."""
    return np.clip(np.ceil(values * bins).astype(int) - 1, 0, bins - 1)


def crps_of_mixture(
    mean: Float[np.ndarray, "draw n"], scale: Float[np.ndarray, "draw n"], y: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """CRPS of equally weighted mixtures of normals, one per column, in closed form.

    The sum over pairs runs in float32, relative to the target and in units of the mixture's spread, so that neither a
    large offset nor a large unit costs digits.
    """
    unit = np.sqrt(mean.var(axis=0) + (scale**2).mean(axis=0)) + np.abs(y - mean.mean(axis=0))
    return unit * np.asarray(_crps_at_zero(((mean - y) / unit).astype(np.float32), (scale / unit).astype(np.float32)))


@jax.jit
def _crps_at_zero(mean: jax.Array, scale: jax.Array) -> jax.Array:
    def column(argument: tuple[jax.Array, jax.Array]) -> jax.Array:
        mean, scale = argument

        def row(pair: tuple[jax.Array, jax.Array]) -> jax.Array:
            return jnp.mean(_expected_distance(pair[0] - mean, jnp.sqrt(pair[1] ** 2 + scale**2)))

        between = jnp.mean(lax.map(row, (mean, scale), batch_size=64))
        return jnp.mean(_expected_distance(mean, scale)) - between / 2

    return lax.map(column, (mean.T, scale.T))


def _crps(prediction: Regression, y: np.ndarray) -> np.ndarray:
    conditional = prediction.likelihood.conditional(prediction.outputs, prediction.noise)
    location, scale = (values.reshape(-1, y.size) for values in (conditional.location, conditional.scale))
    if isinstance(conditional, NormalConditional):
        return crps_of_mixture(location, scale, y.ravel())
    return crps_of_student_mixture(conditional.df, location, scale, y.ravel())


def crps_of_student_mixture(
    df: float, location: Float[np.ndarray, "draw n"], scale: Float[np.ndarray, "draw n"], y: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """CRPS of equally weighted mixtures of Student-t distributions, E|Y - y| - E|Y - Y'| / 2; nan up to df = 1.

    The first term is in closed form. For the second, each Student-t is cut into 128 pieces, finer towards its tails,
    and each piece is put at its own mean; the mean distance of all pieces follows from sorting them.
    """
    if df <= 1:
        return np.full(len(y), np.nan)  # there is no E|Y|
    z = (y - location) / scale
    to_target = (scale * (z * (2 * stdtr(df, z) - 1) + 2 * _student_tail(df, z))).mean(axis=0)
    levels = (1 - np.cos(np.pi * np.arange(_PIECES + 1) / _PIECES)) / 2
    tails = np.concatenate([[0.0], _student_tail(df, stdtrit(df, levels[1:-1])), [0.0]])
    weights = np.tile(np.diff(levels) / len(location), len(location))
    pieces = -np.diff(tails) / np.diff(levels)
    between = np.empty(len(y))
    for j in range(len(y)):
        points = (location[:, j, None] + scale[:, j, None] * pieces).ravel()
        order = np.argsort(points)
        weight = weights[order]
        between[j] = 2 * (weight * points[order]) @ (2 * np.cumsum(weight) - weight - 1)
    return to_target - between / 2


def _student_tail(df: float, z: np.ndarray) -> np.ndarray:
    """The integral of t f(t) from z to infinity, f the standard Student-t density."""
    constant = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * np.pi)
    return np.exp(constant - (df - 1) / 2 * np.log1p(z**2 / df)) * df / (df - 1)


def _expected_distance(mean: jax.Array, scale: jax.Array) -> jax.Array:
    """E|N(mean, scale^2)|."""
    z = mean / scale
    return mean * jax.scipy.special.erf(z / math.sqrt(2)) + scale * math.sqrt(2 / math.pi) * jnp.exp(-0.5 * z * z)
