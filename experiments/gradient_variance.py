r"""How noisy is the gradient of the free energy? Estimators of a Gaussian guide, and masks of a dropout guide.

A guide is fitted to a data set that ships with scikit-learn; then, at the fitted parameters, gradients are drawn many
times over the same minibatch of rows, so that what varies is the guide's own randomness alone:

    Gaussian   one draw of the weights for all rows ("weights"), outputs drawn per row ("local"), signs per row
               ("flipout"), four draws of the weights (particles = 4)
    dropout    one mask per row ("example"), one for all rows ("shared"), four for all rows, four per row

A row of the table is the total variance over all parameters, relative to the first case of its guide. The variance of a
case with one draw for all rows does not fall with the batch; that of one draw per row does.

    python -m experiments.gradient_variance
"""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import data
import inference
import models
from inference.target.binding import bind
from inference.target.minibatches import Minibatch
from inference.variational.dropout import Matrices
from inference.variational.gaussian import MeanField

__all__ = ["gradient_variance"]

_CASES: dict[str, dict[str, dict[str, Any]]] = {
    "gaussian": {
        "weights": {},
        "weights, 4 particles": {"particles": 4},
        "flipout": {"estimator": "flipout"},
        "local": {"estimator": "local"},
    },
    "dropout": {
        "shared": {"masks": "shared"},
        "shared, 4 particles": {"masks": "shared", "particles": 4},
        "example": {},
        "example, 4 particles": {"particles": 4},
    },
}
_BATCHES = (16, 64, 256)


def gradient_variance(
    name: Annotated[str, typer.Option("--data", help="A regression set.")] = "diabetes",
    hidden: Annotated[int, typer.Option(help="Units of the hidden layer.")] = 50,
    draws: Annotated[int, typer.Option(help="Gradients per case.")] = 2000,
    steps: Annotated[int, typer.Option(help="Of the fit before.")] = 3000,
) -> None:
    """Print the variance of the gradient of each case, by the size of the minibatch."""
    train, _ = data.load(name).split(seed=0)
    model = models.mlp((hidden,), "relu", models.Normal(1.0, fan_in=True), models.Gaussian(scale=0.7))
    bound = bind(model, (train.x, train.y), 1.0, "posterior", None)
    table = Table("guide", "case", *(f"{size} rows" for size in _BATCHES), title=f"variance of the gradient, {name}")
    for guide, cases in _CASES.items():
        posterior = inference.run(
            model, train, method="svi", guide=guide, start="random", steps=steps, draws=1, progress=False
        )
        parameters = _gaussian(posterior.guide) if guide == "gaussian" else _dropout(posterior.guide)
        found: dict[str, list[float]] = {}
        for case, options in cases.items():
            method = inference.SVI(guide=guide, **options)
            for size in _BATCHES:
                batch = Minibatch(jnp.arange(size), 0, 1)

                def one(key: jax.Array, method: Any = method, batch: Any = batch, parameters: Any = parameters) -> Any:
                    return jax.grad(
                        lambda parameters: method.objective().loss(bound.target, bound.data, batch, parameters, key)[0]
                    )(parameters)

                gradients = jax.jit(lambda keys, one=one: jax.lax.map(one, keys, batch_size=50))(
                    jax.random.split(jax.random.key(0), draws)
                )
                total = sum(float(np.var(leaf, axis=0).sum()) for leaf in jax.tree.leaves(jax.device_get(gradients)))
                found.setdefault(case, []).append(total)
        first = next(iter(found.values()))
        for case, variances in found.items():
            table.add_row(guide, case, *(f"{v / f:.3f}" for v, f in zip(variances, first, strict=True)))
    Console().print(table)


def _gaussian(guide: dict[str, np.ndarray]) -> MeanField:
    """The parameters that a fit has written down."""
    names = [name.removesuffix(".mean") for name in guide if name.endswith(".mean")]
    rho = {name: jnp.log(jnp.expm1(guide[f"{name}.std"])) for name in names}
    return MeanField({name: jnp.asarray(guide[f"{name}.mean"]) for name in names}, rho)


def _dropout(guide: dict[str, np.ndarray]) -> Matrices:
    """Likewise."""
    matrices = {n.removesuffix(".matrix"): jnp.asarray(value) for n, value in guide.items() if n.endswith(".matrix")}
    points = {n.removesuffix(".point"): jnp.asarray(value) for n, value in guide.items() if n.endswith(".point")}
    return Matrices(matrices, {}, points)


if __name__ == "__main__":
    typer.run(gradient_variance)
