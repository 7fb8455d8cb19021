"""The six cases of `experiments.uncertainties`: their data, their fits, and what can be known of them exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

import data
import inference
import models
from diagnostics.predictions.averaging import Mixture, average, stacking_weights
from diagnostics.predictions.detection import Detection, out_of_distribution
from inference import Posterior, mixing
from inference.results.mixture import entropy

__all__ = [
    "ARCHITECTURES", "DIGIT", "NOISE", "NOISES", "REACH", "SIZE", "SIZES", "Entropies", "Level", "away", "classes",
    "digits", "exact_line", "fit", "mean_level", "observed", "slope", "structures",
]  # fmt: skip

NOISES = (0.1, 0.2, 0.4)
NOISE = 0.2  # where the size is varied
SIZES = (50, 100, 200, 400)
SIZE = 100  # where the noise is varied
REACH = 2.0  # inputs are between -2 and 2
DIGIT = 9  # is held out

ARCHITECTURES = {"line": models.linear(), "tanh": models.mlp((10,), "tanh"), "relu": models.mlp((10,), "relu")}
"""All with N(0, 1) priors, and a noise that is a site with a HalfNormal(1) prior."""

_CENTRES = {"first class": (0.0, 2.0), "second class": (-1.7, -1.0), "noisy class": (1.7, -1.0)}
_LABELS = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.2, 0.2, 0.6]])  # the share of each label in each class
_FAR = 8.0  # from the middle of the classes
_BEND_SIZE, _BEND_NOISE = 30, 0.3  # so few and so noisy that neither a line nor a network is ruled out
_HELD_OUT, _TEST = 500, 2000  # rows for stacking, and for the scores


class Level(NamedTuple):
    """Mean variances over the observed inputs, with Monte Carlo errors; the exact ones for a line, else nan."""

    n: int
    noise: float
    aleatoric: float
    aleatoric_error: float
    epistemic: float
    epistemic_error: float
    exact_aleatoric: float = np.nan
    exact_epistemic: float = np.nan


class Entropies(NamedTuple):
    """Mean entropies over some inputs in nats, and that of the labels that were observed there, nan if none were."""

    aleatoric: float
    epistemic: float
    labels: float


def observed(
    truth: Callable[[np.ndarray], np.ndarray], n: int, noise: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Evenly spaced inputs and noisy targets; the noise of every set has the same variance, so they differ by n."""
    x = np.linspace(-REACH, REACH, n)
    e = np.random.default_rng(seed).normal(size=n)
    return x[:, None], truth(x) + noise * (e - e.mean()) / e.std()


def fit(name: str, n: int, noise: float, draws: int, seed: int) -> tuple[Level, Posterior]:
    """The line on data from a line, or a network on data from a sine."""
    x, y = observed((lambda x: 0.5 + 0.8 * x) if name == "line" else (lambda x: np.sin(2 * x)), n, noise, seed)
    posterior = _run(ARCHITECTURES[name], x, y, draws, seed)
    prediction = posterior.predict(x)
    squares = np.square(prediction.outputs[..., 0] - prediction.mean).mean(axis=2, keepdims=True)
    errors = [float(mixing.mcse(values)[0]) for values in (prediction.noise**2, squares)]
    parts = float(prediction.aleatoric.mean()), errors[0], float(prediction.epistemic.mean()), errors[1]
    if name != "line":
        return Level(n, noise, *parts), posterior
    aleatoric, epistemic = exact_line(x, y, x)
    return Level(n, noise, *parts, aleatoric, float(epistemic.mean())), posterior


def mean_level(levels: Iterable[Level]) -> Level:
    """Over data sets of the same size and noise, whose Monte Carlo errors are independent."""
    rows = list(levels)
    numbers = np.array(rows)[:, 2:]
    mean = Level(rows[0].n, rows[0].noise, *numbers.mean(axis=0).tolist())
    errors = np.sqrt(np.square(numbers[:, [1, 3]]).mean(axis=0) / len(rows)).tolist()
    return mean._replace(aleatoric_error=errors[0], epistemic_error=errors[1])


def exact_line(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> tuple[float, np.ndarray]:
    r"""The aleatoric variance, and the epistemic one at some inputs, of the line: N(0, 1) priors, s ~ HalfNormal(1).

    Given s, the coefficients are normal with precision L = I + F'F / s^2 and mean m = L^-1 F'y / s^2, F = (1, x), and

        log p(y | s) = -n log s - log|L| / 2 - (y'y / s^2 - m'L m) / 2 + constant

    so that what is left is a sum over a grid of log s, around the least-squares one.
    """
    design, new = (np.column_stack([np.ones(len(each)), each]) for each in (x, at))
    centre = np.std(y - design @ np.linalg.lstsq(design, y, rcond=None)[0])
    grid = centre * np.exp(np.linspace(-1.5, 1.5, 1001))
    logs, means, variances = [], [], []
    for s in grid:
        precision = np.eye(2) + design.T @ design / s**2
        mean = np.linalg.solve(precision, design.T @ y / s**2)
        misfit = y @ y / s**2 - mean @ precision @ mean
        prior = np.log(s) - s**2 / 2  # the first term because the grid is one of log s
        logs.append(prior - len(y) * np.log(s) - np.linalg.slogdet(precision)[1] / 2 - misfit / 2)
        means.append(new @ mean)
        variances.append((new * np.linalg.solve(precision, new.T).T).sum(axis=1))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    between = weights @ np.square(np.array(means) - weights @ np.array(means))
    return float(weights @ grid**2), weights @ np.array(variances) + between


def slope(levels: Iterable[Level], part: str) -> float:
    """Of the logarithm of a part against that of n, by least squares."""
    rows = list(levels)
    return float(np.polyfit(np.log([row.n for row in rows]), np.log([getattr(row, part) for row in rows]), 1)[0])


def away(posteriors: dict[str, Posterior], at: np.ndarray) -> dict[str, np.ndarray]:
    """The epistemic variance at some inputs, by architecture, and for the line exactly."""
    found = {name: posterior.predict(at[:, None]).epistemic for name, posterior in posteriors.items()}
    y = posteriors["line"].observed["y"].astype(np.float64)
    x = np.linspace(-REACH, REACH, len(y))
    return found | {"exact": exact_line(x[:, None], y, at[:, None])[1]}


def classes(each: int, draws: int, seed: int) -> dict[str, Entropies]:
    """The parts at new points of three classes, the last of which has noisy labels, and far from all of them."""
    generator = np.random.default_rng(seed)
    centres = np.array(list(_CENTRES.values()))
    labels = np.concatenate([np.repeat(np.arange(3), (row * each).round().astype(int)) for row in _LABELS])
    x = _around(np.repeat(centres, each, axis=0), generator)
    model = models.mlp((10,), "tanh", likelihood=models.Categorical(3))
    posterior = _run(model, x, labels, draws, seed)
    angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    places = {name: _around(np.tile(centre, (100, 1)), generator) for name, centre in _CENTRES.items()}
    places["far away"] = _FAR * np.column_stack([np.cos(angle), np.sin(angle)])
    known = [*np.abs(entropy(_LABELS)).tolist(), np.nan]
    found = [posterior.predict(place) for place in places.values()]
    parts = [(float(one.aleatoric.mean()), float(one.epistemic.mean())) for one in found]
    return {name: Entropies(*both, own) for name, both, own in zip(places, parts, known, strict=True)}


def digits(rows: int, draws: int, seed: int) -> dict[str, Detection]:
    """Whether a network that learned nine digits notices the tenth: all scores of HMC, and the baseline of MAP."""
    every = data.load("digits")
    known = every.y != DIGIT
    nine = data.Dataset("nine digits", every.x[known], every.y[known], 9)
    train, test = nine.split(seed=seed, test=1 - rows / len(nine))
    outside = train.scaler.inputs(every.x[~known])
    model = models.mlp((20,), "tanh", prior=models.Normal(3.0, fan_in=True), likelihood=models.Categorical(9))
    sampled = _run(model, train.x, train.y, draws, seed)
    point = inference.run(model, train, method="map", seed=seed, progress=False)
    return {
        "HMC": out_of_distribution(sampled.predict(test), sampled.predict(outside), seed=seed),
        "MAP": out_of_distribution(point.predict(test), point.predict(outside), "baseline", seed=seed),
    }


def structures(draws: int, seed: int, at: np.ndarray) -> tuple[dict[str, Mixture], dict[str, float]]:
    """Three architectures on a gentle bend, averaged and stacked, with log scores on rows that none has seen."""
    x, y = observed(_bend, _BEND_SIZE, _BEND_NOISE, seed)
    posteriors = {name: _run(model, x, y, draws, seed) for name, model in ARCHITECTURES.items()}
    generator = np.random.default_rng(seed + 1)
    held, test = (generator.uniform(-REACH, REACH, size) for size in (_HELD_OUT, _TEST))
    held_y, test_y = (_bend(each) + _BEND_NOISE * generator.normal(size=len(each)) for each in (held, test))
    predicted = [{name: one.predict(z[:, None]) for name, one in posteriors.items()} for z in (held, test, at)]
    weights = stacking_weights({name: one.log_prob(held_y) for name, one in predicted[0].items()})
    tested, found = (
        {"averaged": average(parts), "stacked": average(parts, weights)} for parts in (predicted[1], predicted[2])
    )
    every: dict[str, Any] = {**predicted[1], **tested}
    scores = {name: float(one.log_prob(test_y).mean()) for name, one in every.items()}
    return found, scores


def _bend(x: np.ndarray) -> np.ndarray:
    return 0.6 * x + 0.3 * np.tanh(3 * x)


def _around(centres: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return centres + 0.4 * generator.normal(size=centres.shape)


def _run(model: models.Network, x: np.ndarray, y: np.ndarray, draws: int, seed: int) -> Posterior:
    """By HMC whose lengths vary: a fixed one can bring a posterior as normal as a line's back to where it began."""
    return inference.run(model, x, y, method="hmc", jitter=0.5, chains=2, draws=draws, seed=seed, progress=False)
