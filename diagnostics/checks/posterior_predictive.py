r"""Predictive checks: would the model have produced data like these?

Each draw w of the posterior makes a data set of its own, a replicate, at the same inputs: y_rep ~ p(y | x, w). A
statistic T is any number computed from the targets alone, and the Bayesian p-value says where the observed one lies
among the replicated ones,

    p = P(T(y_rep) > T(y)) + P(T(y_rep) = T(y)) / 2

so that a tie, as between counts, speaks for neither side. Values near 0 or 1 say that the model does not reproduce T;
values near 1/2 that it does, not that it is right. On the data that the posterior was fitted to, p is nearer to 1/2
than a uniform number would be, the more so the better T is fitted: choose a T that the likelihood does not fit by
itself, such as an extreme.

With an effective sample size E of the T(y_rep), the Monte Carlo error of p is the standard deviation of
Beta(1 + E p, 1 + E (1 - p)), which is about sqrt(p (1 - p) / E), but is not 0 where p is 0 or 1.

Reference: Gelman, Meng & Stern 1996 (Statistica Sinica 6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float

from diagnostics.checks.inputs import inputs_and_targets
from inference import Posterior, mixing
from inference.display.cards import card
from inference.display.tables import Table
from models import Likelihood

__all__ = ["PredictiveCheck", "predictive_check"]

Statistic = Callable[[np.ndarray], Any]

_REPLICATES = 1000  # at least, for a point estimate or an ensemble, which can't have more draws
_LEAST_DRAWS = 4  # draws per chain that an effective sample size needs
_UNKNOWN = (np.nan, np.nan)  # quantiles of nothing
_EXTREME = 0.025  # p-values nearer to 0 or 1 than this are pointed out


@dataclass(frozen=True, eq=False, repr=False)
class PredictiveCheck:
    """Observed statistics among replicated ones; `str()` of it has a line for each statistic.

    Attributes:
        observed: T(y) of each statistic, by its name.
        replicates: T(y_rep) under each draw, (chain, draw).
        p_values: P(T(y_rep) >= T(y)), with ties counted half.
        errors: the Monte Carlo standard errors of the p-values.
    """

    observed: dict[str, float]
    replicates: dict[str, Float[np.ndarray, "chain draw"]]
    p_values: dict[str, float]
    errors: dict[str, float]

    @property
    def p_value(self) -> float:
        """The p-value of the only statistic.

        Raises:
            ValueError: if there are several statistics.
        """
        if len(self.p_values) > 1:
            raise ValueError(f"there are {len(self.p_values)} statistics; use p_values, which has them by name")
        return next(iter(self.p_values.values()))

    @property
    def extreme(self) -> tuple[str, ...]:
        """The statistics that the model does not reproduce: their p-value is below 2.5 % or above 97.5 %."""
        return tuple(name for name, p in self.p_values.items() if not _EXTREME <= p <= 1 - _EXTREME)

    def table(self) -> Table:
        """A row for each statistic, as text."""
        rows = []
        for name, observed in self.observed.items():
            lower, upper = np.quantile(self.replicates[name], [0.05, 0.95]) if self.replicates[name].size else _UNKNOWN
            among = f"{lower:.4g} to {upper:.4g}"
            p_value = f"{self.p_values[name]:.3f} ± {self.errors[name]:.3f}"
            rows.append((name, f"{observed:.4g}", among, p_value, "not reproduced" if name in self.extreme else ""))
        return Table("", ("statistic", "observed", "90 % of the replicates", "p-value", ""), rows)

    def __str__(self) -> str:
        return "\n".join(
            f"{name}: {observed} observed, {among} in 90 % of the replicates, p = {p_value}{', ' if extreme else ''}"
            f"{extreme}"
            for name, observed, among, p_value, extreme in self.table().rows
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        heading = f"{len(self.extreme)} of {len(self.observed)} statistics are not reproduced"
        return card(heading if self.extreme else "Every statistic is reproduced", self.table(), passed=not self.extreme)


def predictive_check(
    posterior: Posterior,
    x: Any,
    y: Any = None,
    statistic: Statistic | Mapping[str, Statistic] | None = None,
    *,
    seed: int = 0,
) -> PredictiveCheck:
    """Compare statistics of the targets with the same statistics of data that the posterior predicts.

    Args:
        posterior: the posterior of a network, by any method.
        x: inputs, or a `Split` or a pair `(x, y)`, whose inputs and targets are taken. Targets and replicates are in
            the units of the `y` that was given to `run`; for a `Split` these are its standardised ones.
        y: the targets.
        statistic: a function from targets, (n,) or (n, outputs), to a number, such as `np.max`; or several by name.
            By default the minimum, maximum, mean and standard deviation of each output of a regression, and the share
            of each class of a classification.
        seed: the seed of the replicates.

    Returns:
        A `PredictiveCheck`. Each draw makes one replicate; a point estimate or an ensemble makes 1,000 in all.
    """
    inputs, targets = inputs_and_targets("predictive_check", posterior, x, y)
    if targets.dtype.kind == "f":
        targets = targets.astype(np.float64)  # as replicates are
    statistics = _named(statistic, posterior.model.likelihood)  # type: ignore[attr-defined]
    observed = {name: _number(name, function, targets) for name, function in statistics.items()}
    replicates = _replicates(posterior, inputs, statistics, seed)
    p_values, errors = {}, {}
    for name, values in replicates.items():
        p = float((values > observed[name]).mean() + (values == observed[name]).mean() / 2)
        p_values[name] = p
        errors[name] = _error(p, _effective_size(posterior, values))
    return PredictiveCheck(observed, replicates, p_values, errors)


def _named(statistic: Any, likelihood: Likelihood) -> dict[str, Statistic]:
    if statistic is None:
        return _usual(likelihood)
    if callable(statistic):
        name = getattr(statistic, "__name__", "statistic")
        return {"statistic" if name == "<lambda>" else name: statistic}
    if isinstance(statistic, Mapping) and statistic and all(callable(function) for function in statistic.values()):
        return dict(statistic)
    raise TypeError(
        "statistic must be a function from targets to a number, such as np.max, or a mapping from names to such "
        f"functions, got {statistic!r}"
    )


def _usual(likelihood: Likelihood) -> dict[str, Statistic]:
    """The statistics that are compared by default."""
    if likelihood.classes is not None:
        return {f"share of class {k}": partial(_share, k) for k in range(likelihood.classes)}
    usual: dict[str, Statistic] = {"min": np.min, "max": np.max, "mean": np.mean, "std": np.std}
    if likelihood.outputs == 1:
        return usual
    return {
        f"{name} of output {k}": partial(_of_output, k, function)
        for k in range(likelihood.outputs)
        for name, function in usual.items()
    }


def _share(k: int, labels: np.ndarray) -> Any:
    return (labels == k).mean()


def _of_output(k: int, function: Statistic, targets: np.ndarray) -> Any:
    return function(targets[:, k])


def _number(name: str, function: Statistic, targets: np.ndarray) -> float:
    value = np.asarray(function(targets))
    if value.ndim or value.dtype.kind not in "biuf" or not np.isfinite(value):
        what = f"an array of shape {value.shape}" if value.ndim else repr(value.item())
        raise ValueError(
            f"statistic '{name}' must give one finite number for targets of shape {targets.shape}, got {what}"
        )
    return float(value)


def _replicates(
    posterior: Posterior, inputs: np.ndarray, statistics: dict[str, Statistic], seed: int
) -> dict[str, np.ndarray]:
    """The statistics of replicated data, (chain, draw); if a draw makes several replicates, they are side by side."""
    prediction = posterior.predict(inputs)
    chains, draws = posterior.shape
    repeats = -(-_REPLICATES // (chains * draws)) if posterior.kind == "point" or chains * draws == 1 else 1
    values = {name: np.empty((chains, draws * repeats)) for name in statistics}
    generator = np.random.default_rng(seed)
    for chain in range(chains):
        one = replace(
            prediction,
            outputs=prediction.outputs[chain : chain + 1],
            noise=prediction.noise[chain : chain + 1] if prediction.noise.ndim else prediction.noise,
        )
        for repeat in range(repeats):
            sets = one.sample(int(generator.integers(2**32)))[0]
            for draw, targets in enumerate(sets):
                for name, function in statistics.items():
                    values[name][chain, draw * repeats + repeat] = _number(name, function, targets)
    return values


def _effective_size(posterior: Posterior, values: np.ndarray) -> float:
    """How many independent replicates the statistic's values are worth; guides and points make independent ones."""
    if posterior.kind != "chains":
        return float(values.size)
    if values.shape[1] < _LEAST_DRAWS:
        return float(len(values))  # the effective size of each chain is not known
    return min(float(mixing.ess(values[..., None])[0]), float(values.size))


def _error(p: float, size: float) -> float:
    """The standard deviation of Beta(1 + size p, 1 + size (1 - p))."""
    first, second = 1 + size * p, 1 + size * (1 - p)
    return float(np.sqrt(first * second / ((size + 2) ** 2 * (size + 3))))
