r"""Leave-one-out cross-validation: how well each row is predicted by the posterior of all others, without new runs.

With l_i(w) = p(y_i | x_i, w), the posterior without row i is the posterior of all rows divided by l_i. So draws of the
full posterior with importance weights, which Pareto smoothing makes stable (PSIS, by ArviZ), are draws of it:

    log r_i(w) = log(p(w, y) / g(w)) - log l_i(w)
    elpd = sum_i log( sum_w r_i(w) l_i(w) / sum_w r_i(w) )

g is the density that the draws really come from. For chains it is the posterior, and the first term is a constant. For
a guide it is the guide's density, so the first term takes its draws to the posterior that it approximates: elpd is then
the posterior's, not that of the guide's own predictions (Magnusson et al. 2019). Where the network is linearised, as by
Laplace's method, the posterior is that of the linearised network, whose predictions these are. Draws without a density
(dropout, ensembles, a pruned guide) can't be corrected; they are taken as they come, and k-hat does not tell how wrong
that is.

At temperature T a row enters the posterior as l_i^(1/T), under both temperings, and log p(w, y) is the tempered
density. So the last term is divided by T, and elpd is what the same tempered posterior would have if it had been fitted
to the other rows; predictions use the untempered likelihood, as always.

k-hat, the Pareto shape of the weights of a row, says whether they can be relied on: up to min(1 - 1 / log10(S), 0.7)
for S draws. A row above it is so influential that only a fit without it can tell.

The LOO-PIT of a target is the probability that the posterior of all other rows puts below it. LOO-PITs are uniform if
the model is calibrated, which PITs of rows that were fitted are not.

References: Vehtari et al. 2017 (arXiv:1507.04544), Vehtari et al. 2024 (PSIS; arXiv:1507.02646), Magnusson et al. 2019
(arXiv:1904.10679).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from data import Split
from diagnostics.checks.inputs import inputs_and_targets
from inference import Posterior, mixing
from inference.display.cards import card
from inference.host.arviz import pareto_smoothed
from inference.results.function_space import PROBED_ROWS, probes
from inference.results.prediction import Prediction, Regression

__all__ = ["LeaveOneOut", "loo"]

_BLOCK = 2**21  # float64 numbers of draws, rows and outputs that are worked on at once
_MOST_K = 0.7
_LEAST_DRAWS = 4  # draws per chain that an effective sample size needs


@dataclass(frozen=True, eq=False, repr=False)
class LeaveOneOut:
    """Leave-one-out predictive densities; `str()` of it says what they are worth.

    Attributes:
        elpd: the sum over rows of the log density, or log probability, of each target given all other rows.
        error: the standard error of `elpd` over rows, sqrt(n var(pointwise)).
        p_loo: the effective number of parameters: how much larger elpd would be if each row had been fitted too.
        pointwise: the terms of elpd, (n,).
        pareto_k: k-hat of each row's weights, (n,).
        threshold: the largest k-hat that can be relied on with the posterior's number of draws.
        correction: whether the weights correct for draws that don't come from the posterior: "not needed" for chains,
            "made" for a guide with a density, "not possible" for other draws.
        pit: the probability below each target given all other rows, (n,) or (n, outputs); None for labels.
        caveat: what is wrong with draws of this method in any case, in words.
    """

    elpd: float
    error: float
    p_loo: float
    pointwise: Float[np.ndarray, " n"]
    pareto_k: Float[np.ndarray, " n"]
    threshold: float
    correction: str
    pit: Float[np.ndarray, "n ..."] | None
    caveat: str

    @property
    def unreliable(self) -> int:
        """How many rows have a k-hat above the threshold."""
        return int((~(self.pareto_k <= self.threshold)).sum())

    @property
    def reliable(self) -> bool | None:
        """Whether no k-hat is above the threshold; None where it can't tell, as the weights could not be corrected."""
        return None if self.correction == "not possible" else not self.unreliable

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return card("Leave-one-out", str(self), passed=self.reliable)

    def __str__(self) -> str:
        rows = len(self.pointwise)
        words = f"elpd {self.elpd:.4g} ± {self.error:.2g} over {rows} rows, p_loo {self.p_loo:.3g}. "
        if self.correction == "not possible":
            words += (
                "The draws have no density, so their weights can't be corrected: this is as if they came from the "
                "posterior, and k-hat does not certify it."
            )
        elif self.unreliable:
            why = (
                "the guide is too far from the posterior, or they are too influential; use draws of a sampler"
                if self.correction == "made"
                else "they are too influential; fit the model without them"
            )
            words += (
                f"It failed for {self.unreliable} of them, with a k-hat above {self.threshold:.2f} (worst "
                f"{self.pareto_k.max():.2f}): {why}."
            )
        else:
            words += f"Every k-hat is below {self.threshold:.2f} (worst {self.pareto_k.max():.2f})."
        return f"{words} {self.caveat}".rstrip()


def loo(posterior: Posterior, x: Any, y: Any = None) -> LeaveOneOut:
    """Leave-one-out cross-validation by importance sampling.

    Args:
        posterior: the posterior of a network, with several draws.
        x: the inputs that it was fitted to, or the `Split` or pair `(x, y)`. Given a `Split`, log densities are in the
            data's own units, as in `scores`, else in the units of `y`.
        y: the targets that it was fitted to.

    Raises:
        ValueError: if `x` and `y` are not the training data in their order, or there is only one draw.
    """
    inputs, targets = inputs_and_targets("loo", posterior, x, y)
    size = posterior.shape[0] * posterior.shape[1]
    if size == 1:
        raise ValueError("loo needs several draws, and this posterior has one; there is nothing to weight")
    fitted = posterior.observed.get("y", targets)
    if not np.array_equal(fitted, targets):
        raise ValueError(
            "loo needs the data that the posterior was fitted to, all rows in the same order, and y is not what it "
            "observed; for other data use scores"
        )
    if _in_another_order(posterior.probes, inputs, getattr(posterior.model, "codes", ())):
        raise ValueError(
            "loo needs the data that the posterior was fitted to, all rows in the same order, and those of x are in "
            "another one"
        )
    ratios, correction = _ratios(posterior, inputs, targets)
    smoothed = pareto_smoothed(ratios)[0] if correction == "made" else np.full(size, -np.log(size))
    left_out, kept, shapes, cdf = [], [], [], []
    for prediction, some in _blocks(posterior, inputs, targets):
        log_likelihood = prediction.log_prob_by_draw(some)
        rows = log_likelihood.reshape(size, -1).T
        efficiency = _efficiency(posterior, log_likelihood)
        log_weights = ratios - rows / posterior.temperature
        for i, share in enumerate(efficiency):
            log_weights[i], k = pareto_smoothed(log_weights[i], share)
            shapes.append(k)
        left_out.append(logsumexp(log_weights + rows, axis=1))
        kept.append(logsumexp(smoothed + rows, axis=1))
        if isinstance(prediction, Regression):
            below = prediction.cdf_by_draw(some).reshape(size, *some.shape)
            cdf.append(np.einsum("ns,sn...->n...", np.exp(log_weights), below))
    pointwise = np.concatenate(left_out)
    p_loo = float(np.concatenate(kept).sum() - pointwise.sum())
    if isinstance(x, Split) and x.classes is None:
        pointwise = pointwise - np.log(x.scaler.y_scale).sum()
    return LeaveOneOut(
        elpd=float(pointwise.sum()),
        error=float(np.sqrt(len(pointwise) * pointwise.var(ddof=1))),
        p_loo=p_loo,
        pointwise=pointwise,
        pareto_k=np.array(shapes),
        threshold=float(np.clip(1 - 1 / np.log10(size), 0, _MOST_K)),
        correction=correction,
        pit=np.concatenate(cdf) if cdf else None,
        caveat=posterior.method.caveat,
    )


def _in_another_order(judged: np.ndarray, inputs: np.ndarray, codes: tuple[int, ...]) -> bool:
    """Whether the posterior's first probes, which are rows of its data, are rows of `inputs`, but not in place."""
    expected = probes(inputs, codes)
    if judged.shape != expected.shape or np.array_equal(judged, expected):
        return False
    rows = {row.tobytes() for row in inputs}
    return all(row.tobytes() in rows for row in judged[: min(len(inputs), PROBED_ROWS)])


def _ratios(posterior: Posterior, inputs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, str]:
    """log(p(w, y) / g(w)) of each draw up to a constant, (chain * draw,), and which `correction` that is."""
    statistics = posterior.statistics
    size = posterior.shape[0] * posterior.shape[1]
    if posterior.kind == "chains":
        return np.zeros(size), "not needed"
    if "guide_log_density" not in statistics:
        return np.zeros(size), "not possible"
    ratios = (statistics["lp"].astype(np.float64) - statistics["guide_log_density"]).ravel()
    if posterior.linearised:  # then lp is the density of the network as it is, not as it predicts
        as_it_is = replace(posterior, method=replace(posterior.method, linearised=False))  # type: ignore[call-arg]
        difference = _log_likelihood(posterior, inputs, targets) - _log_likelihood(as_it_is, inputs, targets)
        ratios = ratios + difference / posterior.temperature
    if not np.isfinite(ratios).all():
        raise ValueError("loo needs finite log densities of the guide's draws; some are not")
    return ratios, "made"


def _log_likelihood(posterior: Posterior, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The log-likelihood of all rows together under each draw, (chain * draw,)."""
    blocks = _blocks(posterior, inputs, targets)
    return np.sum([prediction.log_prob_by_draw(some).sum(axis=2).ravel() for prediction, some in blocks], axis=0)


def _blocks(posterior: Posterior, inputs: np.ndarray, targets: np.ndarray) -> Iterator[tuple[Prediction, np.ndarray]]:
    """Yield predictions of a block of rows with their targets, so that memory does not grow with the number of rows."""
    likelihood: Any = posterior.model.likelihood  # type: ignore[attr-defined]
    numbers = posterior.shape[0] * posterior.shape[1] * max(likelihood.heads, likelihood.classes or 1)
    count = -(-len(inputs) // max(1, _BLOCK // numbers))
    for rows in np.array_split(np.arange(len(inputs)), count):
        yield posterior.predict(inputs[rows]), targets[rows]


def _efficiency(posterior: Posterior, log_likelihood: Float[np.ndarray, "chain draw n"]) -> np.ndarray:
    """The effective share of the draws for the mean of each row's likelihood, on which the length of a tail depends."""
    chains, draws, rows = log_likelihood.shape
    if posterior.kind != "chains" or draws < _LEAST_DRAWS:
        return np.ones(rows)
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=(0, 1)))
    return np.maximum(mixing.ess(likelihood, "mean"), 1) / (chains * draws)
