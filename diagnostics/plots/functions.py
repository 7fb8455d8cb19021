"""Figures of functions: what single draws of a posterior say, along one input, over two inputs, and at one input."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from data.rows import spaced
from inference.display.figures import COLOURS, chart
from inference.results.prediction import Classification, Prediction, Regression
from models.validation import positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draws", "probability_surface", "sampled_functions"]

_Kind = TypeVar("_Kind", bound=Prediction)

_WIDTHS = {1: 5.4, 2: 4.4, 3: 3.5}  # inches of a panel by how many are side by side: a page of a notebook holds three
_BINS = 40
_NEARLY = 1e-6
_SHADES = 21  # levels of a probability that are told apart


def sampled_functions(
    predictions: Mapping[str, Prediction],
    x: np.ndarray,
    data: tuple[np.ndarray, np.ndarray] | None = None,
    functions: int = 25,
) -> Figure:
    """Functions of single draws along one input, a panel for each prediction.

    Each panel has so many draws as thin lines, their mean as a thick one, and the central 90 % interval of a target,
    noise included, as a band. A point estimate has one function. `data` adds observed points.
    """
    found = _checked("sampled_functions", predictions, Regression, "a regression; for labels use probability_surface")
    positive_integer("functions", functions)
    _check_inputs("sampled_functions", predictions, x, 1)
    figure, panels = _panels(predictions)
    order = np.argsort(x[:, 0])
    along, bottom, top = x[order, 0], np.inf, -np.inf
    for axes, (name, prediction), colour in zip(panels, found.items(), cycle(COLOURS), strict=False):
        lower, upper = prediction.interval(0.9)
        axes.fill_between(along, lower[order], upper[order], color=colour, alpha=0.15, lw=0)
        means = _means(prediction)
        if len(means) > 1:
            chosen = means[spaced(len(means), min(functions, len(means)))]
            axes.plot(along, chosen[:, order].T, color=colour, lw=0.6, alpha=0.55)
        axes.plot(along, prediction.mean[order], color=colour, lw=2.0)
        if data is not None:
            axes.plot(data[0][:, 0], data[1], "k.", ms=4)
        axes.set(xlabel="x", ylabel="y" if axes is panels[0] else "")
        axes.set_title(f"{name}: {_counted(len(means))}", fontsize=10, loc="left")
        bottom, top = min(bottom, axes.get_ylim()[0]), max(top, axes.get_ylim()[1])
    for axes in panels:
        axes.set_ylim(bottom, top)
    return figure


def probability_surface(
    predictions: Mapping[str, Prediction],
    x: np.ndarray,
    data: tuple[np.ndarray, np.ndarray] | None = None,
    points: Mapping[str, tuple[float, float]] | None = None,
    label: int = 1,
) -> Figure:
    """The probability of one class over two inputs, a panel for each prediction.

    A black line is where that probability is one half: for two classes, the decision boundary.

    Args:
        predictions: the predictions by name.
        x: the inputs, (n, 2), which need not be a grid.
        data: observed inputs and labels.
        points: places to be marked, by the words that stand beside them.
        label: the class.
    """
    what = "labels; for a regression use sampled_functions"
    found = _checked("probability_surface", predictions, Classification, what)
    _check_inputs("probability_surface", predictions, x, 2)
    from matplotlib.colors import LinearSegmentedColormap

    _check_label(predictions, label)
    colours = LinearSegmentedColormap.from_list("probability", [COLOURS[0], "white", COLOURS[1]])
    figure, panels = _panels(predictions)
    levels = np.linspace(0, 1, _SHADES)
    for axes, (name, prediction) in zip(panels, found.items(), strict=True):
        probability = np.clip(prediction.probs[:, label], _NEARLY, 1 - _NEARLY)  # what rounds to 1 is inside too
        filled = axes.tricontourf(x[:, 0], x[:, 1], probability, levels, cmap=colours, alpha=0.85)
        if probability.min() < 0.5 < probability.max():
            axes.tricontour(x[:, 0], x[:, 1], probability, [0.5], colors="k", linewidths=1.2)
        if data is not None:
            _mark_classes(axes, *data)
        for words, place in (points or {}).items():
            axes.plot(*place, marker="*", ms=13, color=COLOURS[4], mec="k", mew=0.8)
            axes.annotate(words, place, (0, 10), textcoords="offset points", ha="center", fontsize=9)
        axes.set(xlabel="x1", ylabel="x2" if axes is panels[0] else "")
        axes.set_title(name, fontsize=10, loc="left")
    bar = figure.colorbar(filled, ax=panels, ticks=[0, 0.25, 0.5, 0.75, 1], shrink=0.9, aspect=25)
    bar.set_label(f"probability of class {label}", fontsize=9)
    return figure


def draws(
    predictions: Mapping[str, Prediction], row: int = 0, observed: float | None = None, label: int = 1, title: str = ""
) -> Figure:
    """What each draw says at one input, as a histogram for each prediction; a point estimate is a line.

    For a regression it is the mean of the target under the draw, for a classification the probability of a class.

    Args:
        predictions: the predictions by name.
        row: which of their inputs.
        observed: the target there, if it is known.
        label: the class, for labels.
        title: the title.
    """
    _checked("draws", predictions, Prediction, "predictions")
    figure, (axes,) = chart([title or f"What each draw says at input {row}"])
    labels = isinstance(next(iter(predictions.values())), Classification)
    if any(isinstance(prediction, Classification) != labels for prediction in predictions.values()):
        raise TypeError("draws needs predictions of one kind: all of them of numbers, or all of labels")
    if labels:
        _check_label(predictions, label)
    values = {}
    for name, prediction in predictions.items():
        at = prediction.at([row])
        values[name] = _probabilities(at, label) if isinstance(at, Classification) else _means(at)[:, 0]
    every = np.concatenate(list(values.values()))
    edges = np.linspace(0, 1, _BINS + 1) if labels else np.linspace(every.min(), every.max(), _BINS + 1)
    for (name, each), colour in zip(values.items(), cycle(COLOURS), strict=False):
        if len(each) == 1:
            axes.axvline(each[0], color=colour, lw=2, label=f"{name}: {_counted(1)}")
            continue
        shares = np.histogram(each, edges)[0] / len(each)
        axes.stairs(shares, edges, color=colour, fill=True, alpha=0.3, lw=0)
        axes.stairs(shares, edges, color=colour, lw=1.2, label=f"{name}: {_counted(len(each))}")
        axes.axvline(each.mean(), color=colour, lw=1.2, ls="--", label=f"{name}: mean")
    if observed is not None:
        axes.axvline(observed, color="k", lw=1.2, ls=":", label="observed")
    axes.set(xlabel=f"probability of class {label}" if labels else "f(x)", ylabel="share of the draws")
    axes.legend(frameon=False, fontsize="small")
    return figure


def _panels(predictions: Mapping[str, Prediction]) -> tuple[Figure, list[Any]]:
    columns = min(len(predictions), 3)
    return chart([""] * len(predictions), columns=columns, size=(_WIDTHS[columns], 3.3))


def _means(prediction: Prediction) -> np.ndarray:
    """The mean of the target under each draw, (draw, n)."""
    means = prediction.likelihood.mean(prediction.outputs)  # type: ignore[attr-defined]
    return np.asarray(means, np.float64).reshape(-1, len(prediction))


def _probabilities(prediction: Classification, label: int) -> np.ndarray:
    """The probability of a class at one input under each draw."""
    return prediction.likelihood.probabilities(prediction.outputs)[:, :, 0, label].ravel()


def _mark_classes(axes: Any, x: np.ndarray, labels: np.ndarray) -> None:
    for which, marker in zip(np.unique(labels), cycle("osD^v"), strict=False):
        chosen = x[labels == which]
        colour = COLOURS[int(which) % len(COLOURS)]
        axes.plot(chosen[:, 0], chosen[:, 1], marker, ms=5, color=colour, mec="w", mew=0.6, ls="")


def _counted(count: int) -> str:
    return "one function" if count == 1 else f"{count:,} draws"


def _checked(figure: str, predictions: Any, kind: type[_Kind], draws_what: str) -> dict[str, _Kind]:
    if not isinstance(predictions, Mapping) or not predictions:
        raise TypeError(f"{figure} needs predictions by name, such as {{'hmc': ...}}, got {type(predictions).__name__}")
    for prediction in predictions.values():
        if not isinstance(prediction, kind):
            raise TypeError(f"{figure} draws {draws_what}, got {type(prediction).__name__}")
        if prediction.likelihood.classes is None and prediction.likelihood.outputs > 1:
            raise ValueError(
                f"{figure} draws one output, and this prediction has {prediction.likelihood.outputs}; take a model "
                "with one"
            )
    return dict(predictions)


def _check_inputs(figure: str, predictions: Mapping[str, Prediction], x: Any, inputs: int) -> None:
    shape = np.shape(x)
    if len(shape) != 2 or shape[1] != inputs:
        raise ValueError(f"{figure} draws over {inputs} input{'s' if inputs > 1 else ''}, got x of shape {shape}")
    for name, prediction in predictions.items():
        if len(prediction) != shape[0]:
            raise ValueError(f"{figure} needs predictions at x, {shape[0]} rows; '{name}' has {len(prediction)}")


def _check_label(predictions: Mapping[str, Any], label: int) -> None:
    classes = min(prediction.likelihood.classes for prediction in predictions.values())
    if isinstance(label, bool) or not isinstance(label, int | np.integer) or not 0 <= label < classes:
        raise ValueError(f"label must be one of the classes 0 to {classes - 1}, got {label!r}")
