r"""A digit that is turned, under MC dropout (Gal & Ghahramani 2016, figure 4): do the passes scatter where it is lost?

LeNet with dropout of 0.5 before its last layer is fitted to images of MNIST. Ones of the test part are turned, step by
step, and each goes through the network 100 times. The scatter of the softmax outputs is measured by the epistemic part
of their entropy, H[mean p] - mean H[p], in nats; ordinary dropout makes one deterministic pass and has none. The angles
of the paper's figure are not stated in it; here they are 12, from 0 to 110 degrees. The paper shows one digit, and what
is shown of one digit here is the same; the rule looks at many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.ndimage import rotate
from scipy.special import softmax

import data
import inference
import models
from data import Split
from experiments.study import Finding, Laboratory, Study, decided, mean_and_error
from inference.display.figures import COLOURS, chart
from inference.display.tables import Table, with_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ANGLES", "PUBLISHED", "STUDIES", "of_angles", "turned"]

ANGLES = tuple(range(0, 120, 10))
"""Degrees by which the digit is turned."""

PUBLISHED = (1, 1, 1, 1, 1, 5, 5, 7, 7, 7, 7, 7)
"""The class that the paper's network gives to its one at each of 12 angles."""

_DIGIT = 1
_FAR = 45  # degrees from which on a one is no longer one


def dropout_digit(
    lab: Laboratory, train_rows: int, steps: int, digits: int, seeds: int, rate: float, passes: int
) -> Finding:
    """Fit the network with each seed, and turn the digits."""
    train, test = data.load("mnist").split()
    some = Split(train.x[:train_rows, ..., None], train.y[:train_rows], train.scaler, train.name, train.classes)
    ones = np.flatnonzero(test.y == _DIGIT)[:digits]
    x = train.scaler.inputs(turned(test.pictures(ones), ANGLES).reshape(-1, *test.x.shape[1:]))[..., None]
    model = models.lenet(likelihood=models.Categorical(10))
    guide = inference.Dropout(rate={"output": rate, "default": 0.0})
    predictions, errors = [], []
    for seed in range(seeds):
        posterior = lab.posterior(
            "digit", model, some, method="svi", guide=guide, steps=steps, batch_size=64, learning_rate=0.002,
            draws=passes, seed=seed,
        )  # fmt: skip
        predictions.append((posterior.predict(x), inference.centre(posterior).predict(x)))
        known = inference.centre(posterior).predict(test.x[:2000, ..., None]).mean.argmax(axis=1)
        errors.append(float(np.mean(known != test.y[:2000])))
        lab.say(f"seed {seed}: {errors[-1]:.2%} of 2,000 upright test images are wrong")
    shape = len(ANGLES), len(ones)
    epistemic = np.mean([each.epistemic.reshape(shape) for each, _ in predictions], axis=0)
    mean = np.mean([each.mean.reshape(*shape, 10) for each, _ in predictions], axis=0)
    sure = np.mean([each.mean.max(axis=1).reshape(shape) for _, each in predictions], axis=0)
    samples = softmax(predictions[0][0].outputs, axis=-1).reshape(-1, *shape, 10)[:, :, 0]
    return of_angles(epistemic, mean, sure, samples, float(np.mean(errors)))


def turned(images: np.ndarray, angles: tuple[int, ...]) -> np.ndarray:
    """Each of the `images`, (n, height, width), turned by each of the `angles`, (angle, n, height, width)."""
    return np.stack(
        [rotate(images, angle, axes=(1, 2), reshape=False, order=1, mode="nearest") for angle in angles]
    ).clip(images.min(), images.max())


def of_angles(epistemic: Any, mean: Any, sure: Any, samples: Any, error: float) -> Finding:
    """The finding.

    Args:
        epistemic: nats, (angle, digit).
        mean: the mean probabilities, (angle, digit, class).
        sure: the largest probability of ordinary dropout's one pass, (angle, digit).
        samples: the probabilities under each pass, of the first digit, (pass, angle, class).
        error: the share of upright test images that are wrong.
    """
    far = np.array(ANGLES) >= _FAR
    effect = mean_and_error(epistemic[far].mean(axis=0) - epistemic[0])
    wrong = mean.argmax(axis=2) != _DIGIT
    lost = float(sure[wrong].mean()) if wrong.any() else float("nan")
    first = samples.mean(axis=0).argmax(axis=1)
    rows = [
        (
            f"{angle}°", f"{now}", f"{then}", f"{low:.2f} to {high:.2f}", f"{share:.0%}", with_error(*each),
            f"{alone:.2f}",
        )
        for angle, now, then, low, high, share, each, alone in zip(
            ANGLES, first, PUBLISHED, samples[:, :, _DIGIT].min(axis=0), samples[:, :, _DIGIT].max(axis=0),
            wrong.mean(axis=1), [mean_and_error(values) for values in epistemic], sure.mean(axis=1), strict=True,
        )
    ]  # fmt: skip
    columns = (
        "turned by", "class of the first", "published, its one", "p(1) of it, by pass", "of all, wrong",
        "epistemic, nats", "largest p of one pass",
    )  # fmt: skip
    return Finding(
        decided(*effect),
        f"From {_FAR} degrees on the passes scatter by {with_error(*effect, sign=True)} nats more than upright. "
        f"Where the class is wrong, one deterministic pass still gives its class {lost:.2f} on average. {error:.1%} "
        "of upright test images are wrong.",
        (Table(f"{epistemic.shape[1]} ones of MNIST", columns, rows),),
        {"angles": ANGLES, "epistemic": epistemic.mean(axis=1), "class": first, "wrong": wrong.mean(axis=1)},
        lambda: _figure(samples, epistemic),
    )


def _figure(samples: np.ndarray, epistemic: np.ndarray) -> Figure:
    """The passes' probabilities of the three most probable classes at each angle, and the epistemic part."""
    figure, (scatter, parts) = chart(["Softmax outputs of a one, by pass", "Epistemic part, all ones"], columns=2)
    shown = np.argsort(samples.mean(axis=(0, 1)))[::-1][:3]
    for i, label in enumerate(sorted(shown)):
        places = np.array(ANGLES) + 2.5 * (i - 1)
        scatter.plot(
            np.tile(places, len(samples)), samples[:, :, label].ravel(), "_", ms=7, alpha=0.3, color=COLOURS[i]
        )
        scatter.plot(places, samples[:, :, label].mean(axis=0), color=COLOURS[i], lw=1.2, label=f"class {label}")
    scatter.set(xlabel="degrees", ylabel="probability")
    scatter.legend(frameon=False, fontsize=8)
    lower, middle, upper = np.quantile(epistemic, [0.1, 0.5, 0.9], axis=1)
    parts.fill_between(ANGLES, lower, upper, color=COLOURS[0], alpha=0.25, lw=0, label="four digits in five")
    parts.plot(ANGLES, middle, color=COLOURS[0], label="median")
    parts.set(xlabel="degrees", ylabel="nats")
    parts.legend(frameon=False, fontsize=8)
    return figure


STUDIES = (
    Study(
        "dropout_digit",
        "MC dropout and a rotated digit",
        "Do the softmax outputs of dropout's passes scatter more when a digit is turned until it is none?",
        "The epistemic part of the entropy, averaged over the angles from 45 degrees on, minus that of the upright "
        "digit, paired by digit. Confirmed if its mean is above 0 by more than two standard errors over the digits, "
        "contradicted if it is as far below.",
        "Gal & Ghahramani 2016, figure 4: LeNet with dropout before the last layer, 100 passes, 1e6 iterations; the "
        "scatter grows as a one is turned, which is classified as 1 1 1 1 1 5 5 7 7 7 7 7.",
        dropout_digit,
        {"train_rows": 10_000, "steps": 1200, "digits": 60, "seeds": 2, "rate": 0.5, "passes": 100},
        {"train_rows": 200, "steps": 20, "digits": 3, "seeds": 1, "passes": 5},
        needs=("mnist",),
        minutes=3,
    ),
)
