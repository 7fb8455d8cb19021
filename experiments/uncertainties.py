r"""The three kinds of uncertainty, each raised on its own: in the data, about the weights, about the structure.

1. More noise s in the data raises the aleatoric part as s^2, and the epistemic one with it, as s^2 / n.
2. More data lower the epistemic part as 1 / n and leave the aleatoric one as it is.
3. Away from the data the epistemic part grows.
4. Of three classes one has noisy labels: uncertainty is aleatoric there, and epistemic away from all three.
5. A digit that the network has never seen: which score notices it, beside the baseline of the maximum probability?
6. Three architectures, averaged and stacked: the part that is due to not knowing which, at the data and away from them.

A line with unknown noise has exact answers to 1, 2 and 3: given s its posterior is normal, and s is one number to sum
over. With p coefficients and a weak prior its mean epistemic variance over the observed inputs is p s^2 / n, the trace
of the projection onto them; for a network, n / s^2 times that variance says how many coefficients it is worth.

    python -m experiments.uncertainties --plot uncertainties.png
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from diagnostics.predictions.averaging import Mixture
from experiments import uncertainty_cases as cases
from experiments.uncertainty_cases import Entropies, Level
from experiments.uncertainty_figure import draw

__all__ = ["uncertainties"]

_DISTANCES = (0.0, 0.5, 1.0, 2.0, 4.0)
_TRAINING_DIGITS = 400


def uncertainties(
    draws: Annotated[int, typer.Option(min=50, help="Of each of two chains.")] = 500,
    sets: Annotated[int, typer.Option(min=1, help="Data sets of each size and noise.")] = 3,
    seed: Annotated[int, typer.Option(help="Of data and chains.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Where to write the figure.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The last line is a JSON object.")] = False,
) -> None:
    """Run the six cases, and print what became of each part."""
    console, began = Console(), time.perf_counter()
    noisier = [(cases.SIZE, noise) for noise in cases.NOISES]
    more = [(n, cases.NOISE) for n in cases.SIZES]
    fits = {
        (name, *setting): [cases.fit(name, *setting, draws, seed + i) for i in range(sets)]
        for name in ("line", "tanh")
        for setting in dict.fromkeys(noisier + more)
    }
    levels = {key: cases.mean_level(level for level, _ in found) for key, found in fits.items()}
    console.print(_levels("1. Noise in the data", levels, noisier))
    console.print(_levels("2. More data", levels, more))
    console.print(_slopes(levels, more), highlight=False)

    grid = np.linspace(-3 * cases.REACH, 3 * cases.REACH, 241)
    variances = cases.away({name: fits[name, cases.SIZE, cases.NOISE][0][1] for name in ("line", "tanh")}, grid)
    console.print(_distances(grid, variances))

    entropies = cases.classes(100, draws, seed)
    console.print(_classes(entropies))

    detections = cases.digits(_TRAINING_DIGITS, draws, seed)
    console.print(f"5. Digit {cases.DIGIT} held out\n{detections['HMC']}", highlight=False, soft_wrap=True)
    console.print(f"the baseline of a MAP network has AUROC {detections['MAP']['baseline'].auroc}\n", highlight=False)

    mixtures, scores = cases.structures(draws, seed, grid)
    console.print(_structures(mixtures, scores))
    console.print(_parts(grid, mixtures))
    console.print(f"{time.perf_counter() - began:.0f} seconds", highlight=False)
    if plot is not None:
        draw(levels, grid, variances, entropies, detections, mixtures["stacked"]).savefig(plot, dpi=150)
    if as_json:
        found = {
            "levels": [{"architecture": name, **_known(level)} for (name, *_), level in levels.items()],
            "away": {name: _beyond(grid, values) for name, values in variances.items()},
            "classes": {place: _known(each) for place, each in entropies.items()},
            "digits": {
                name: {score: each.auroc for score, each in one.separations.items()} for name, one in detections.items()
            },
            "weights": mixtures["stacked"].weights,
            "log_scores": scores,
            "structure": {name: _inside_and_away(grid, one.structure) for name, one in mixtures.items()},
        }
        print(json.dumps(found))


def _levels(title: str, levels: dict[tuple[str, int, float], Level], settings: list[tuple[int, float]]) -> Table:
    """Both parts at each setting, over what they should be in proportion to."""
    table = Table("", "n", "s", "aleatoric / s^2", "exactly", "n epistemic / s^2", "exactly", title=title)
    for name, what in (("line", "line"), ("tanh", "network")):
        for n, noise in settings:
            found, unit = levels[name, n, noise], noise**2
            table.add_row(
                what,
                f"{n}",
                f"{noise:g}",
                f"{found.aleatoric / unit:.3f} ± {found.aleatoric_error / unit:.3f}",
                f"{found.exact_aleatoric / unit:.3f}" if name == "line" else "",
                f"{n * found.epistemic / unit:.2f} ± {n * found.epistemic_error / unit:.2f}",
                f"{n * found.exact_epistemic / unit:.2f}" if name == "line" else "",
            )
    return table


def _slopes(levels: dict[tuple[str, int, float], Level], settings: list[tuple[int, float]]) -> str:
    line, network = ([levels[name, *each] for each in settings] for name in ("line", "tanh"))
    words = [
        f"{part} {cases.slope(line, part):.2f} (line), {cases.slope(line, f'exact_{part}'):.2f} (line, exactly), "
        f"{cases.slope(network, part):.2f} (network)"
        for part in ("epistemic", "aleatoric")
    ]
    return "slopes of log variance against log n\n  " + "\n  ".join(words) + "\n"


def _known(record: Level | Entropies) -> dict[str, float]:
    """The numbers of a record that it has; JSON has no word for the others."""
    return {name: value for name, value in record._asdict().items() if np.isfinite(value)}


def _beyond(grid: np.ndarray, values: np.ndarray) -> list[float]:
    """At each distance from the data, on both sides."""
    return [float(values[np.isclose(np.abs(grid), cases.REACH + distance)].mean()) for distance in _DISTANCES]


def _distances(grid: np.ndarray, variances: dict[str, np.ndarray]) -> Table:
    table = Table("distance", "line", "line, exactly", "network", title="3. Epistemic variance away from the data")
    columns = [_beyond(grid, variances[name]) for name in ("line", "exact", "tanh")]
    for distance, *values in zip(_DISTANCES, *columns, strict=True):
        table.add_row(f"{distance:g}", *(f"{value:.3g}" for value in values))
    return table


def _classes(entropies: dict[str, Entropies]) -> Table:
    table = Table("place", "aleatoric", "epistemic", "entropy of its labels", title="4. Noisy labels, in nats")
    for place, found in entropies.items():
        table.add_row(place, *(f"{value:.3f}" if np.isfinite(value) else "" for value in found))
    return table


def _structures(mixtures: dict[str, Mixture], scores: dict[str, float]) -> Table:
    table = Table("", "weight", "log score", title="6. Three architectures")
    weights = mixtures["stacked"].weights
    for name, score in scores.items():
        table.add_row(name, f"{weights[name]:.3f}" if name in weights else "", f"{score:.4f}")
    return table


def _inside_and_away(grid: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    inside = np.abs(grid) <= cases.REACH
    return float(values[inside].mean()), float(values[~inside].mean())


def _parts(grid: np.ndarray, mixtures: dict[str, Mixture]) -> Table:
    table = Table(
        "", "aleatoric", "epistemic, structure known", "structure", title="Variances inside the data and away"
    )
    for name, mixture in mixtures.items():
        means = [_inside_and_away(grid, part) for part in (mixture.aleatoric, mixture.within, mixture.structure)]
        for where, values in zip(("inside", "away"), zip(*means, strict=True), strict=True):
            table.add_row(f"{name}, {where}", *(f"{value:.3g}" for value in values))
    return table


if __name__ == "__main__":
    typer.run(uncertainties)
