"""Figures of images: each with the probabilities that a posterior gives to its classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from inference.display.figures import COLOURS, chart
from inference.results.prediction import Classification

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["labelled_images"]

_MOST = 60  # images: more are too small to see


def labelled_images(
    prediction: Classification,
    images: Any,
    y: Any = None,
    *,
    columns: int = 4,
    classes: Sequence[str] | None = None,
    title: str = "",
) -> Figure:
    """Images in a grid, each beside the probabilities of its classes.

    A bar is the probability under the average of all draws, and its line spans the central 90 % of the draws: where the
    line is long, the draws disagree, and the uncertainty is epistemic. The bar of the true class is green. Above stand
    the aleatoric and the epistemic part of the entropy, in nats.

    Args:
        prediction: the prediction at these images.
        images: the images, (n, height, width) or (n, height, width, channels), as `Split.pictures` gives them.
        y: their labels, if they are known; a label that is not among the classes is told, and has no bar.
        columns: images side by side.
        classes: the names of the classes; None takes their numbers.
        title: the title of the figure.
    """
    if not isinstance(prediction, Classification):
        raise TypeError("labelled_images draws a classification; for a regression use plots.observed_and_predicted")
    images = np.asarray(images)
    if images.ndim not in (3, 4) or len(images) != len(prediction):
        raise ValueError(
            f"images must be the {len(prediction)} images of the prediction, shape (n, height, width) or (n, height, "
            f"width, channels), got {images.shape}"
        )
    if len(images) > _MOST:
        raise ValueError(
            f"a figure holds at most {_MOST} images, got {len(images)}; choose some by prediction.at(rows)"
        )
    labels = [None] * len(images) if y is None else [int(label) for label in y]
    if len(labels) != len(images):
        raise ValueError(f"y must have a label for each of the {len(images)} images, got {len(labels)}")
    probabilities = prediction.likelihood.probabilities(prediction.outputs)
    lower, upper = np.quantile(probabilities, (0.05, 0.95), axis=(0, 1))
    count = prediction.probs.shape[1]
    names = [str(k) for k in range(count)] if classes is None else [str(name) for name in classes]
    if len(names) != count:
        raise ValueError(f"classes must name all {count} classes, got {len(names)} names")
    titles = [
        text
        for i, label in enumerate(labels)
        for text in (
            "" if label is None else names[label] if 0 <= label < count else f"{label}, not a class",
            f"al. {prediction.aleatoric[i]:.2f}, ep. {prediction.epistemic[i]:.2f}",
        )
    ]
    figure, panels = chart(titles, columns=2 * columns, size=(1.45, 1.5))
    scale = {"cmap": "gray_r"} if images.ndim == 3 or images.shape[-1] == 1 else {}
    for i, label in enumerate(labels):
        picture, bars = panels[2 * i : 2 * i + 2]
        picture.imshow(images[i].squeeze(-1) if images.shape[-1] == 1 and images.ndim == 4 else images[i], **scale)
        picture.set(xticks=[], yticks=[])
        picture.spines[:].set_visible(False)
        colours = [COLOURS[2] if k == label else COLOURS[0] for k in range(count)]
        bars.bar(np.arange(count), prediction.probs[i], color=colours, width=0.75, alpha=0.85)
        bars.vlines(np.arange(count), lower[i], upper[i], color="0.2", lw=0.9)
        bars.set(ylim=(0, 1), yticks=[0, 1], xlim=(-0.6, count - 0.4))
        bars.set_xticks(np.arange(count), names)
        bars.tick_params(labelsize=6, length=2, pad=1)
        for axes in (picture, bars):
            axes.title.set_fontsize(8)
            axes.set_title(axes.get_title(loc="left"), loc="left", fontsize=8)
    if title:
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    return figure
