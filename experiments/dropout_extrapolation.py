r"""MC dropout beyond its data, with ReLU and with tanh, beside the Gaussian process that is the network's limit.

Gal & Ghahramani (2016) extrapolate the concentration of CO2 on Mauna Loa. The series here is made up, with a bent trend
and a swing, so that nothing has to be downloaded and the truth is known: time is in standard deviations, and nothing is
observed after 1.7. One hidden layer of H units

    f(t) = c + sum_j v_j phi(w_j t + b_j),    w, b, c ~ N(0, s^2),    v ~ N(0, r^2 / H)

has, for any H, the prior covariance k(t, t') = s^2 + r^2 E[phi(w t + b) phi(w t' + b)], and is a Gaussian process as H
grows (Neal 1996). For ReLU the expectation is the arc-cosine kernel (Cho & Saul 2009); for tanh it is a sum over a
Gauss-Hermite grid of w and b. So the exact posterior of the limit is at hand. What is shortened: one wide layer in
place of four or five, for which the limit has this closed form.
"""

from __future__ import annotations

import numpy as np

import diagnostics
import inference
import models
from data import Scaler, Split
from experiments.study import Finding, Laboratory, Study, decided, mean_and_error
from inference.display.tables import Table, with_error

__all__ = ["PRIOR", "STUDIES", "kernel", "of_spreads", "process", "series"]

_SCALE, _OUTPUT = 3.0, 2.0  # s and r
_NOISE = 0.1
_END, _FAR = 1.7, 3.4  # where the data end, and how far one looks
_NODES = 40  # of the quadrature in w and in b
PRIOR = {"output.weight": models.Normal(_OUTPUT, fan_in=True), "default": _SCALE}
"""N(0, s^2) on all weights and biases but the output's weights, N(0, r^2 / H)."""


def dropout_extrapolation(
    lab: Laboratory, units: int, rate: float, steps: int, passes: int, seeds: int, rows: int
) -> Finding:
    """Fit both networks to the series of each seed; the spread at the end of the data and far from it."""
    grid = np.linspace(-1.9, _FAR, 266)[:, None]
    likelihood = models.Gaussian(scale=_NOISE)
    spreads, shown = [], {}
    for seed in range(seeds):
        time, values = series(rows, seed)
        one = Scaler(np.zeros(1), np.ones(1), np.zeros(()), np.ones(()))
        train = Split(time.astype(np.float32), values.astype(np.float32), one, "series")
        found = {}
        for activation in ("relu", "tanh"):
            model = models.mlp((units,), activation, PRIOR, likelihood)
            posterior = lab.posterior(
                "series", model, train, method="svi", guide="dropout", rate={"hidden0": 0.0, "output": rate},
                steps=steps, draws=passes, seed=seed,
            )  # fmt: skip
            prediction = posterior.predict(grid)
            mean, covariance = process(activation, time, values, grid)
            found[activation] = np.sqrt([prediction.epistemic, np.diag(covariance)])
            if seed == 0:
                draws = np.random.default_rng(0).multivariate_normal(mean, covariance, (1, 200), method="eigh")
                noise = np.full((1, 1, 1), _NOISE)
                shown[f"MC dropout, {activation}"] = prediction
                shown[f"Gaussian process, {activation}"] = inference.Regression(draws[..., None], likelihood, noise)
        spreads.append([found["relu"], found["tanh"]])
        lab.say(f"seed {seed} is done")
    return of_spreads(
        np.array(spreads), grid, lambda: diagnostics.plots.sampled_functions(shown, grid, series(rows, 0))
    )


def series(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Times (n, 1) and values (n,): a bent trend, a swing of period 0.85, and noise of 0.08."""
    time = np.linspace(-_END, _END, rows)[:, None]
    level = 0.8 * time[:, 0] + 0.15 * time[:, 0] ** 2 + 0.35 * np.sin(2 * np.pi * time[:, 0] / 0.85)
    return time, level + np.random.default_rng(seed).normal(0, 0.08, rows)


def kernel(activation: str, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The prior covariance of f between times (n, 1) and (m, 1)."""
    u, v = (np.column_stack([each[:, 0], np.ones(len(each))]) * _SCALE for each in (first, second))
    if activation == "relu":
        lengths = np.outer(np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1))
        angle = np.arccos(np.clip(u @ v.T / lengths, -1, 1))
        expected = lengths / (2 * np.pi) * (np.sin(angle) + (np.pi - angle) * np.cos(angle))
    else:
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        both = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
        shares = np.outer(weights, weights).ravel() / weights.sum() ** 2
        values = [np.tanh(each @ both.T) for each in (u, v)]
        expected = (values[0] * shares) @ values[1].T
    return _SCALE**2 + _OUTPUT**2 * expected


def process(activation: str, time: np.ndarray, values: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The posterior mean and covariance of the Gaussian process."""
    noisy = kernel(activation, time, time) + _NOISE**2 * np.eye(len(time))
    gain = np.linalg.solve(noisy, kernel(activation, time, at)).T
    return gain @ values, kernel(activation, at, at) - gain @ kernel(activation, time, at)


def of_spreads(spreads: np.ndarray, grid: np.ndarray, draw: object) -> Finding:
    """The finding, from epistemic deviations (seed, relu and tanh, dropout and process, time) at the times `grid`."""
    ends, far = (int(np.abs(grid[:, 0] - place).argmin()) for place in (_END, _FAR))
    inside = np.abs(grid[:, 0]) <= _END
    growth = np.log(spreads[..., far] / spreads[..., ends])
    effect = mean_and_error(growth[:, 0, 0] - growth[:, 1, 0])
    rows = []
    for i, activation in enumerate(("ReLU", "tanh")):
        for j, name in enumerate(("MC dropout", "Gaussian process")):
            each = spreads[:, i, j]
            cells = [each[:, inside].mean(axis=1), each[:, ends], each[:, far], np.exp(growth[:, i, j])]
            rows.append((f"{name}, {activation}", *(with_error(*mean_and_error(values)) for values in cells)))
    shares = (spreads[:, :, 0, far] / spreads[:, :, 1, far]).mean(axis=0)
    columns = ("", "in the data", f"at {_END}, their end", f"at {_FAR}", "grows by")
    return Finding(
        decided(*effect),
        "From the end of the data to as far again, the deviation of dropout's passes grows "
        f"{np.exp(growth[:, 0, 0].mean()):.2g}-fold with ReLU and {np.exp(growth[:, 1, 0].mean()):.2g}-fold with tanh "
        f"(difference of logarithms {with_error(*effect, sign=True)}). Out there it is {shares[0]:.2f} (ReLU) and "
        f"{shares[1]:.2f} (tanh) of that of the Gaussian process which is the network's own limit.",
        (Table("Epistemic standard deviation, mean ± standard error over series", columns, rows),),
        {"growth": growth, "share_of_process": shares},
        draw,  # type: ignore[arg-type]
    )


STUDIES = (
    Study(
        "dropout_extrapolation",
        "MC dropout beyond the data, ReLU and tanh",
        "Does the spread of dropout's passes grow away from the data with ReLU, and level off with tanh?",
        "The logarithm of how much the epistemic standard deviation grows from the end of the data to as far again, of "
        "ReLU minus tanh, paired by series. Confirmed if the mean is above 0 by more than two standard errors over "
        "series, contradicted if it is as far below. That of the Gaussian process is beside it; no rule is about it.",
        "Gal & Ghahramani 2016, section 5.1: on CO2 (4 or 5 layers of 1,024 units, rate 0.1, 1e6 iterations) the "
        "uncertainty of ReLU networks grows with the distance to the data and that of tanh networks stays bounded, as "
        "the Gaussian processes do that they approximate.",
        dropout_extrapolation,
        {"units": 256, "rate": 0.1, "steps": 8000, "passes": 500, "seeds": 5, "rows": 240},
        {"units": 16, "steps": 100, "passes": 20, "seeds": 2, "rows": 40},
        minutes=1,
    ),
)
