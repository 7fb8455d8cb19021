"""The figure of `experiments.uncertainties`, one panel for each case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from diagnostics.predictions.averaging import Mixture
from diagnostics.predictions.detection import Detection
from experiments import uncertainty_cases as cases
from experiments.uncertainty_cases import Entropies, Level
from inference.display.figures import COLOURS, chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]

_EPISTEMIC, _ALEATORIC, _STRUCTURE = COLOURS[:3]


def draw(
    levels: dict[tuple[str, int, float], Level],
    grid: np.ndarray,
    variances: dict[str, np.ndarray],
    entropies: dict[str, Entropies],
    detections: dict[str, Detection],
    mixture: Mixture,
) -> Figure:
    """All six cases; the arguments are what `experiments.uncertainty_cases` gives."""
    titles = [
        "1. Noise raises both parts",
        "2. Data lower the epistemic part",
        "3. Away from the data the epistemic part grows",
        "4. Noisy labels are aleatoric",
        f"5. Digit {cases.DIGIT} held out",
        "6. Of it, what is about the structure",
    ]
    figure, panels = chart(titles, columns=3, size=(4.3, 3.3))
    _levels(panels[0], [level for (_, n, _), level in levels.items() if n == cases.SIZE], "noise")
    _levels(panels[1], [level for (_, _, noise), level in levels.items() if noise == cases.NOISE], "n")
    _away(panels[2], grid, variances, levels["tanh", cases.SIZE, cases.NOISE].aleatoric)
    _classes(panels[3], entropies)
    _digits(panels[4], detections)
    _structures(panels[5], grid, mixture)
    for axes in panels:
        axes.tick_params(labelsize=8)
    for i, place in {1: (0.5, 0.5), 2: "upper center", 3: "upper left", 5: "lower left"}.items():
        panels[i].legend(frameon=False, fontsize=7, loc=place)
    return figure


def _levels(axes: Any, levels: list[Level], by: str) -> None:
    """Variances against noise or rows, both axes logarithmic; those of the line beside the exact ones."""
    levels = sorted(levels, key=lambda level: getattr(level, by))
    lines = [level for level in levels if np.isfinite(level.exact_epistemic)]
    networks = [level for level in levels if not np.isfinite(level.exact_epistemic)]
    for part, colour in (("aleatoric", _ALEATORIC), ("epistemic", _EPISTEMIC)):
        for chosen, field, style, face, what in (
            (lines, f"exact_{part}", "-", colour, "line, exactly"),
            (lines, part, "o", colour, "line"),
            (networks, part, "o--", "white", "network"),
        ):
            places, values = ([getattr(level, name) for level in chosen] for name in (by, field))
            axes.plot(places, values, style, ms=5, lw=1, color=colour, markerfacecolor=face, label=f"{part}, {what}")
    axes.set(xscale="log", yscale="log", xlabel={"noise": "noise s", "n": "rows n"}[by], ylabel="mean variance")
    ticks = sorted({getattr(level, by) for level in levels})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _away(axes: Any, grid: np.ndarray, variances: dict[str, np.ndarray], aleatoric: float) -> None:
    _data(axes)
    axes.plot(grid, variances["exact"], color=_EPISTEMIC, lw=1, label="epistemic, line, exactly")
    axes.plot(grid, variances["tanh"], color=_EPISTEMIC, lw=1.2, ls="--", label="epistemic, network")
    axes.axhline(aleatoric, color=_ALEATORIC, lw=1.2, ls="--", label="aleatoric, network")


def _classes(axes: Any, entropies: dict[str, Entropies]) -> None:
    places = np.arange(len(entropies))
    epistemic, aleatoric, labels = (
        np.array([getattr(each, part) for each in entropies.values()]) for part in ("epistemic", "aleatoric", "labels")
    )
    axes.bar(places, epistemic, 0.6, color=_EPISTEMIC, label="epistemic")
    axes.bar(places, aleatoric, 0.6, bottom=epistemic, color=_ALEATORIC, label="aleatoric")
    seen = np.isfinite(labels)
    axes.hlines(labels[seen], places[seen] - 0.38, places[seen] + 0.38, color="k", lw=1.5, label="of the labels")
    axes.set_xticks(places, list(entropies))
    axes.set(ylabel="entropy (nats)", ylim=(-0.02, np.log(3)))


def _digits(axes: Any, detections: dict[str, Detection]) -> None:
    """AUROC with its interval, a row for each score."""
    rows = {
        score if name == "HMC" else f"{score}, {name}": each.auroc
        for name, detection in detections.items()
        for score, each in detection.separations.items()
    }
    for i, (name, found) in enumerate(rows.items()):
        colour = _ALEATORIC if "baseline" in name else _EPISTEMIC
        axes.plot(found[1:], [-i, -i], color=colour, lw=1.5)
        axes.plot(found.value, -i, "o", ms=5, color=colour)
    axes.set_yticks(-np.arange(len(rows)), [name.replace("_", " ") for name in rows])
    axes.locator_params(axis="x", nbins=5)
    axes.set(xlabel="AUROC, 95 % interval", ylim=(0.6 - len(rows), 0.6))


def _structures(axes: Any, grid: np.ndarray, mixture: Mixture) -> None:
    _data(axes)
    axes.plot(grid, mixture.structure, lw=1.2, color=_STRUCTURE, label="structure")
    axes.plot(grid, mixture.within, lw=1.2, color=_EPISTEMIC, label="epistemic, structure known")
    axes.plot(grid, mixture.aleatoric, lw=1.2, color=_ALEATORIC, label="aleatoric")
    axes.set(ylim=(1e-4, None))  # where the functions cross there is nothing to see


def _data(axes: Any) -> None:
    """Axes along the input, grey where there are data."""
    axes.axvspan(-cases.REACH, cases.REACH, color="0.93", lw=0)
    axes.set(yscale="log", xlabel="x (data in grey)", ylabel="variance")
