r"""The studies of Bayes by Backprop on MNIST: the test error under two priors, and how many weights can go.

The networks are those of `experiments.backprop_mnist`, with its settings, which were not searched. What is shortened:
one width of the paper's three, and some epochs in place of 600. Both studies use the same fit of the scale mixture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import diagnostics
import inference
import models
from data import Split
from experiments.backprop_mnist import PUBLISHED, PUBLISHED_PRUNED, TITLES, fits, parts, wrong
from experiments.deciding import dots, on_all
from experiments.study import Finding, Laboratory, Study, decided, mean_and_error
from inference.display.tables import Table

__all__ = ["STUDIES", "fewer", "of_errors", "of_pruning"]

_MARGIN = 0.002  # a share of the images: by so much the error may rise
_REMOVED = 0.95


def backprop_error(lab: Laboratory, hidden: int, epochs: int, train: int, batch: int, seed: int) -> Finding:
    """Fit all three networks."""
    test = parts(train)[2]
    missed = {}
    for name in PUBLISHED:
        missed[name] = wrong(_fitted(lab, name, hidden, epochs, train, batch, seed), test)
        lab.say(f"{TITLES[name]}: {missed[name].mean():.2%} of the test images are wrong")
    return of_errors(missed, hidden)


def backprop_pruning(lab: Laboratory, hidden: int, epochs: int, train: int, batch: int, seed: int) -> Finding:
    """Fit the network under the scale mixture, and prune it."""
    test = parts(train)[2]
    posterior = _fitted(lab, "mixture", hidden, epochs, train, batch, seed)
    missed = {share: wrong(inference.prune(posterior, share), test) for share in PUBLISHED_PRUNED}
    ratios = np.concatenate([ratio.ravel() for ratio in inference.signal_to_noise(posterior).values()])
    return of_pruning(missed, hidden, ratios.size, lambda: diagnostics.plots.signal_to_noise(
        {f"2 x {hidden} units, scale mixture": posterior}, 0.75
    ))  # fmt: skip


def _fitted(
    lab: Laboratory, name: str, hidden: int, epochs: int, train: int, batch: int, seed: int
) -> inference.Posterior:
    training: Split = parts(train)[0]
    common = {"steps": epochs * (train // batch), "batch_size": batch, "seed": seed}
    priors = models.Normal(math.exp(-2)), models.ScaleMixture(0.5, math.exp(-1), math.exp(-6))
    network, options = fits(hidden, common, {"learning_rate": 0.001, "draws": 10}, 0.001, *priors)[name]
    return lab.posterior(f"mnist-{name}", network, training, **options)


def fewer(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """By what share of the images `second` is wrong less often than `first`, and its standard error, paired."""
    return mean_and_error(first.astype(float) - second.astype(float))


def of_errors(missed: Mapping[str, np.ndarray], hidden: int) -> Finding:
    """The finding, from which test images each network has wrong."""
    effects = {name: fewer(missed[name], missed["mixture"]) for name in missed if name != "mixture"}
    rows = []
    for name, each in missed.items():
        away = "" if name not in effects else "{:+.2f} ± {:.2f}".format(*(100 * number for number in effects[name]))
        published = PUBLISHED[name].get(hidden)
        ours = "{:.2f} ± {:.2f}".format(*(100 * number for number in mean_and_error(each)))
        rows.append((TITLES[name], ours, away, "" if published is None else f"{published:.2f}"))
    images = len(missed["mixture"])
    return Finding(
        on_all(effects.values()),
        "The scale mixture has "
        + " and ".join(f"{100 * gain:+.2f} ± {100 * error:.2f} points less than the {TITLES[name]}"
                       for name, (gain, error) in effects.items())
        + f" of {images:,} test images wrong. The errors are those of the images, with one fit each.",
        (Table(
            f"Test error in % with 2 x {hidden} units", ("", "ours", "minus the scale mixture's", "published"), rows,
        ),),
        {"error": {name: each.mean() for name, each in missed.items()}},
        lambda: dots(
            {"test error, %": {TITLES[name]: (100 * each.mean(), 100 * mean_and_error(each)[1])
                               for name, each in missed.items()}},
            {"test error, %": {TITLES[name]: PUBLISHED[name][hidden] for name in missed if hidden in PUBLISHED[name]}},
            "% (cross: published)",
        ),
    )  # fmt: skip


def of_pruning(missed: Mapping[float, np.ndarray], hidden: int, weights: int, draw: Any) -> Finding:
    """The finding, from which test images are wrong by the share of the weights that was removed."""
    rows, effects = [], {}
    for share, each in missed.items():
        less, error = fewer(missed[0.0], each)
        effects[share] = (less + _MARGIN, error)
        rows.append((
            f"{share:.0%}", f"{weights - round(share * weights):,}", f"{100 * each.mean():.2f}",
            f"{-100 * less:+.2f} ± {100 * error:.2f}" if share else "", f"{PUBLISHED_PRUNED[share]:.2f}",
            f"{PUBLISHED_PRUNED[share] - PUBLISHED_PRUNED[0.0]:+.2f}" if share else "",
        ))  # fmt: skip
    gain, error = effects[_REMOVED]
    return Finding(
        decided(gain, error),
        f"Without {_REMOVED:.0%} of the weights the error is {-100 * (gain - _MARGIN):+.2f} ± {100 * error:.2f} points "
        f"from that of all ({100 * missed[0.0].mean():.2f} %), paired over the test images; "
        f"{100 * _MARGIN:g} are allowed.",
        (Table(
            f"Test error in %, pruned by |mu| / sigma: ours with 2 x {hidden} units, published with 2 x 1200",
            ("removed", "weights left", "ours", "change", "published", "change"), rows,
        ),),
        {"error": {f"{share:g}": each.mean() for share, each in missed.items()}},
        draw,
    )  # fmt: skip


_FULL = {"hidden": 400, "epochs": 12, "train": 50_000, "batch": 128, "seed": 0}
_QUICK = {"hidden": 16, "epochs": 1, "train": 500, "batch": 20}

STUDIES = (
    Study(
        "backprop_error",
        "Bayes by Backprop on MNIST: test error",
        "Is the test error under the scale mixture prior below that under a Gaussian prior, and that of a point "
        "estimate?",
        "The differences in the share of wrong test images, paired by image. Confirmed if both are above 0 by more "
        "than two standard errors, contradicted if one is as far below.",
        "Blundell et al. 2015, table 1, 600 epochs and a search: with 2 x 400 units 1.36 % under the scale mixture, "
        "1.82 % under the Gaussian, 1.83 % by SGD.",
        backprop_error,
        _FULL,
        _QUICK,
        needs=("mnist",),
    ),
    Study(
        "backprop_pruning",
        "Bayes by Backprop on MNIST: pruning",
        "Can 95 % of the weights be set to 0, by their signal-to-noise ratio, at almost no loss?",
        "Confirmed if the test error without 95 % of the weights is above that of all weights by less than "
        f"{100 * _MARGIN:g} points, by more than two standard errors over paired images; contradicted if it is above "
        "by more than that, likewise.",
        "Blundell et al. 2015, table 2 and figure 4, 2 x 1200 units: 1.24 % with all weights, 1.24 % without 75 %, "
        "1.29 % without 95 %, 1.39 % without 98 %; the density of the ratios has two modes.",
        backprop_pruning,
        _FULL,
        _QUICK,
        needs=("mnist",),
        minutes=2,
    ),
)
