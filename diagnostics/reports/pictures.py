"""The figures of a report, chosen by what there is to show, each with a caption in words."""

from __future__ import annotations

import base64
import io
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from data import Split
from data.pairs import as_pair
from diagnostics import plots
from diagnostics.checks.calibrations import calibration
from diagnostics.convergences.judging import Convergence
from inference import Posterior
from inference.results.prediction import Classification, Prediction, Regression
from inference.results.scores import in_data_units

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "of_chains", "of_predictions", "picture"]

_POINTS = 1000  # test points in one figure: more would make a large file, but not a better picture


@dataclass(frozen=True)
class Picture:
    """A figure in a report.

    Attributes:
        source: the figure as a data URI.
        title: the figure's title.
        caption: what to look for, in words.
    """

    source: str
    title: str
    caption: str


def of_chains(posterior: Posterior, judged: Convergence) -> tuple[Picture, ...]:
    """Pictures of how chains mix, or of how a loss fell."""
    found = []
    rhat, ess = judged.thresholds["rhat"], judged.thresholds["ess"]
    if judged.weights is not None or judged.functions is not None:
        spaces = (judged.weights, judged.functions)
        undone = " Dashed: weights once the order and signs of hidden units are undone." if judged.aligned else ""
        found += [
            picture(
                plots.mixing(*spaces, rhat, aligned=judged.aligned),
                f"Left of {rhat:g} the chains agree; predictions need it of the functions only.{undone}",
            ),
            picture(
                plots.effective_sizes(*spaces, ess, aligned=judged.aligned),
                f"How many independent draws the chains are worth; {ess:g} are asked for.",
            ),
            picture(plots.traces(posterior), "Chains that agree look alike, without drift and without standing still."),
            picture(plots.ranks(posterior), "Bars within the grey band: the chains visit the same values as often."),
        ]
    if "energy" in posterior.statistics and np.isfinite(judged.ebfmi) and judged.ebfmi > 0:
        found.append(
            picture(
                plots.energies(posterior),
                f"Both should be about as wide; the least E-BFMI of a chain is {judged.ebfmi:.2f}.",
            )
        )
    if judged.bias is not None:
        words = str(judged.bias)
        caption = f"Both should come to the dashed line. {words[0].upper()}{words[1:]}."
        found.append(picture(plots.temperatures(posterior), caption))
    if posterior.curves:
        found.append(
            picture(plots.losses(posterior), "It should be flat at the end; the first tenth of the steps is left out.")
        )
    return tuple(found)


def of_predictions(prediction: Prediction, test: Any, band: Picture | None) -> tuple[Picture, ...]:
    """Pictures of what was observed, of calibration, and of where the uncertainty comes from."""
    targets = test if isinstance(test, Split) else as_pair("report", test)[1]
    found = [band] if band is not None else []
    measured = calibration(prediction, targets)
    if isinstance(prediction, Classification):
        found.append(
            picture(
                plots.reliability(prediction, targets),
                f"Honest probabilities are on the line; bars are 95 % intervals. {measured}",
            )
        )
    elif isinstance(prediction, Regression):
        if band is None and len(prediction) <= _POINTS and np.ndim(test[1] if isinstance(test, tuple) else test.y) == 1:
            found.append(
                picture(
                    plots.observed_and_predicted(prediction, targets),
                    "A point on the line was predicted exactly; nine in ten intervals should reach it.",
                )
            )
        found += [
            picture(plots.pit(measured), "A calibrated prediction stays within the band. " + str(measured)),
            picture(plots.coverage(measured), "On the line, intervals hold as many targets as they say."),
        ]
    if prediction.has_variance:
        found.append(
            picture(
                plots.uncertainty_split(in_data_units(prediction, targets)[0]),
                "Where the uncertainty comes from: what more data would remove, and what they would not.",
            )
        )
    return tuple(found)


def picture(figure: Figure, caption: str) -> Picture:
    """A figure as a picture in vector form; letters are left to the browser, because paths would fill the file."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none"}):
        warnings.filterwarnings("ignore", "Glyph")  # for names in another script, which the browser has
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    heading = figure.get_suptitle() or figure.axes[0].get_title(loc="left")
    return Picture("data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode(), heading, caption)
