r"""Two biases of stochastic gradient Langevin dynamics, apart: no Metropolis step, and minibatches.

On one posterior, logistic regression, three samplers take the same Langevin step of size e,

    w <- w + e grad log p(w | y) + sqrt(2 e) n

- MALA decides by Metropolis whether to take it: exact at any step size. It is `method="hmc"` with one leapfrog step of
  length sqrt(2 e).
- SGLD with all rows takes it always: the bias that is left for want of the decision, of the order of e times the
  curvature.
- SGLD with minibatches adds their noise: a second bias, of the order of e times its variance.

Printed is, per step size, the variance of the draws over that of long HMC chains, averaged over the axes of the
posterior, so that stiff directions count as much as loose ones, with the standard error of this ratio; then what the
samplers measure themselves, acceptance or configurational temperature and the minibatches' noise. Steps are halved from
row to row.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import data
import inference
import models
from inference import mixing
from inference.results.function_space import weight_draws

__all__ = ["langevin_bias"]

_REFERENCE_DRAWS = 4000
_RATIO = "gradient_noise_ratio"


def langevin_bias(
    name: Annotated[str, typer.Option("--data", help="A classification of two classes.")] = "breast_cancer",
    largest: Annotated[float, typer.Option(help="The largest step size.")] = 0.032,
    halvings: Annotated[int, typer.Option(min=0, help="How often it is halved.")] = 3,
    batch: Annotated[int, typer.Option(help="Rows of a minibatch.")] = 64,
    time: Annotated[float, typer.Option(help="Steps times step size, per chain.")] = 400.0,
    seed: Annotated[int, typer.Option(help="Of all chains.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The last line is a JSON object.")] = False,
) -> None:
    """Run the three samplers at each step size, and print how wide their draws are."""
    console = Console()
    train, _ = data.load(name).split(seed=0)
    model = models.logistic(2)
    common: dict[str, Any] = {"seed": seed, "progress": False, "start": "map"}
    reference = inference.run(model, train, method="hmc", draws=_REFERENCE_DRAWS, **common)
    mean, axes = _axes(reference)
    exact = _squares(reference, mean, axes)
    table = Table("step size", "MALA", "SGLD, all rows", f"SGLD, {batch} rows", title="Variance over that of HMC")
    found = []
    for e in (largest / 2**i for i in range(halvings + 1)):
        steps = round(time / e)
        thin = max(1, steps // 5000)
        chain: dict[str, Any] = common | {"warmup": steps // 10, "draws": steps // thin, "thin": thin}
        length = math.sqrt(2 * e)
        mala = inference.run(
            model, train, method="hmc", trajectory_length=length, step_size=length, jitter=0.0, **chain
        )
        sgld = {
            rows: inference.run(model, train, method="sgld", step_size=e, batch_size=rows, **chain)
            for rows in (None, batch)
        }
        ratios = [_ratio(_squares(each, mean, axes), exact) for each in (mala, *sgld.values())]
        heat = [float(each.statistics["configurational_temperature"].mean()) for each in sgld.values()]
        noise = float(sgld[batch].statistics[_RATIO].mean())
        accepted = float(mala.statistics["acceptance_rate"].mean())
        remarks = f"accepts {accepted:.0%}", f"T {heat[0]:.2f}", f"T {heat[1]:.2f}, noise {noise:.0%}"
        words = [f"{ratio:.3f} ± {error:.3f}, {each}" for (ratio, error), each in zip(ratios, remarks, strict=True)]
        table.add_row(f"{e:g}", *words)
        found.append({"step_size": e, "mala": ratios[0], "all": ratios[1], "minibatch": ratios[2], "noise": noise})
    console.print(table)
    if as_json:
        print(json.dumps({"data": name, "batch": batch, "rows": found}))


def _axes(reference: inference.Posterior) -> tuple[np.ndarray, np.ndarray]:
    """The mean of the draws, and the axes of their covariance."""
    draws = weight_draws(reference).astype(np.float64)
    flat = draws.reshape(-1, draws.shape[2])
    return flat.mean(axis=0), np.linalg.eigh(np.cov(flat.T))[1]


def _squares(posterior: inference.Posterior, mean: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Squared distances of the draws from the mean along each axis, (chain, draw, axis)."""
    return np.square((weight_draws(posterior).astype(np.float64) - mean) @ axes)


def _ratio(squares: np.ndarray, exact: np.ndarray) -> tuple[float, float]:
    """Mean over axes of the ratio of variances, and its standard error by that of both means."""
    scale = exact.mean(axis=(0, 1))
    ours, theirs = ((each / scale).mean(axis=2, keepdims=True) for each in (squares, exact))
    return float(ours.mean()), float(np.hypot(mixing.mcse(ours)[0], mixing.mcse(theirs)[0]))


if __name__ == "__main__":
    typer.run(langevin_bias)
