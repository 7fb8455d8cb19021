"""The prior in function space: what a network believes before it has seen data.

A scale on weights says little to a reader; what it implies for functions says a lot. Functions are drawn from the prior
at given inputs: for regression their envelope and size, with and without noise; for classification how sure of itself
each drawn function is. A prior that puts all its mass on functions fifty times steeper than the data, or on
classifiers that are certain everywhere, is seen here before any inference is run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax import lax
from jaxtyping import Float
from numpyro import handlers

from data import Split
from data.pairs import as_pair
from data.rows import spaced
from inference.display.cards import card
from inference.display.figures import COLOURS, chart
from models import Network
from models.validation import positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PriorCheck", "prior_check", "prior_functions"]

_ROWS = 2000  # rows of inputs that are used: more would tell nothing new, and fill the memory


@dataclass(frozen=True, eq=False, repr=False)
class PriorCheck:
    """Functions drawn from the prior; `str()` of it is what they imply, in words.

    Attributes:
        x: the inputs.
        functions: (draw, n, quantity): means (and log scales) of a regression, all class probabilities of a classifier.
        targets: (draw, n) or (draw, n, outputs), targets drawn from each function with its noise.
        numbers: what the draws imply, by name. Regression: `function_spread`, the median over inputs of the prior's
            spread of f(x), half of its central 68 %, which for a normal is the standard deviation and exists for any
            tails; `target_spread`, the same for y; `wiggle`, the median over functions of the standard deviation of f
            over the inputs; `reach`, the 95 % quantile of the largest |f(x)|; with `y` given, `inside`, the share of
            observed targets inside the central 95 % of the prior's, and `ratio`, the spread of y over the standard
            deviation of the observed targets. Classification: `entropy`, the mean over functions and inputs of the
            entropy in nats; `certain`, the share of functions and inputs with more than 99 % for one class;
            `same_class`, the mean share of inputs to which a function gives its favourite class.
        envelope: (3, n, quantity), the 5 %, 50 % and 95 % quantiles of the functions at each input.
        entropy: (draw, n), the entropy of each function at each input for a classifier, else None.
        summary: the numbers in words.
    """

    x: np.ndarray
    functions: Float[np.ndarray, "draw n q"]
    targets: np.ndarray
    numbers: dict[str, float]
    envelope: Float[np.ndarray, "3 n q"]
    entropy: Float[np.ndarray, "draw n"] | None
    summary: str

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        return self.summary

    def _repr_html_(self) -> str:
        return card("Functions from the prior", self.summary, note="figure() draws them.")

    def figure(self) -> Figure:
        """The envelope along one input, or the spread over many; for a classifier the histogram of entropies."""
        return prior_functions(self)


def prior_check(model: Network, x: Any, y: Any = None, *, draws: int = 1000, seed: int = 0) -> PriorCheck:
    """Draw functions from a network's prior.

    Args:
        model: a network of `models`.
        x: inputs, or a `Split` or a pair `(x, y)`, whose inputs and targets are taken. Of more than 2,000 rows, 2,000
            are used, evenly spaced.
        y: observed targets to compare with the prior, if any.
        draws: the number of functions.
        seed: the seed of the draws.

    Raises:
        TypeError: if the model is not a network.
        ValueError: if the prior can't be drawn from, for instance because it is flat.
    """
    if not isinstance(model, Network):
        raise TypeError(f"prior_check needs a network of models, got {type(model).__name__}")
    positive_integer("draws", draws)
    if isinstance(x, Split | tuple):
        x, y = as_pair("prior_check", x)
    inputs, *observed = model.validate(x, y)
    chosen = spaced(len(inputs), _ROWS)
    inputs, observed = inputs[chosen], [targets[chosen] for targets in observed]
    try:
        outputs, targets = jax.device_get(_draw(model, draws, jax.random.key(seed), inputs))
    except NotImplementedError as error:
        raise ValueError(
            "the prior can't be drawn from: a flat prior has no draws; give every site a proper one"
        ) from error
    if not np.isfinite(outputs).all():
        raise ValueError("functions from this prior overflow float32; its tails are too heavy for so many layers")
    likelihood: Any = model.likelihood
    if likelihood.classes is not None:
        return _classification(inputs, likelihood.probabilities(outputs), targets)
    return _regression(inputs, likelihood.functions(outputs), targets, likelihood.mean(outputs), observed)


@partial(jax.jit, static_argnames=("model", "draws"))
def _draw(model: Network, draws: int, key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Outputs and targets of functions drawn from the prior."""

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        trace = handlers.trace(handlers.seed(model, key)).get_trace(x)
        weights = {name: site["value"] for name, site in trace.items() if site["type"] == "sample" and name != "y"}
        return handlers.substitute(model.outputs, data=weights)(x), trace["y"]["value"]

    return lax.map(one, jax.random.split(key, draws))


def _regression(
    x: np.ndarray, functions: np.ndarray, targets: np.ndarray, means: np.ndarray, observed: list[np.ndarray]
) -> PriorCheck:
    numbers = {
        "function_spread": float(np.median(_spread(means))),
        "target_spread": float(np.median(_spread(targets))),
        "wiggle": float(np.median(means.std(axis=1))),
        "reach": float(np.quantile(np.abs(means).reshape(len(means), -1).max(axis=1), 0.95)),
    }
    words = (
        f"At these inputs a function from the prior spreads by {numbers['function_spread']:.3g} around its median, "
        f"varies by {numbers['wiggle']:.3g} over the inputs, and stays below {numbers['reach']:.3g} in 95 % of "
        f"draws; with noise, targets spread by {numbers['target_spread']:.3g}."
    )
    if observed:
        lower, upper = np.quantile(targets, [0.025, 0.975], axis=0)
        numbers["inside"] = float(((lower <= observed[0]) & (observed[0] <= upper)).mean())
        words += f" The central 95 % of them hold {numbers['inside']:.0%} of the observed targets."
        own = observed[0].std(axis=0)
        if np.all(own > 0):
            numbers["ratio"] = float(np.median(_spread(targets) / own))
            words += f" They spread {numbers['ratio']:.3g} times as far as the observed ones."
    envelope = np.quantile(functions, [0.05, 0.5, 0.95], axis=0)
    return PriorCheck(x, functions, targets, numbers, envelope, None, words)


def _spread(draws: np.ndarray) -> np.ndarray:
    lower, upper = np.quantile(draws, [0.16, 0.84], axis=0)
    return (upper - lower) / 2


def _classification(x: np.ndarray, probabilities: np.ndarray, targets: np.ndarray) -> PriorCheck:
    classes = probabilities.shape[-1]
    entropy = -(probabilities * np.log(np.maximum(probabilities, 1e-300))).sum(axis=-1)
    favourite = np.stack([(probabilities.argmax(axis=-1) == k).mean(axis=1) for k in range(classes)]).max(axis=0)
    numbers = {
        "entropy": float(entropy.mean()),
        "certain": float((probabilities.max(axis=-1) > 0.99).mean()),
        "same_class": float(favourite.mean()),
    }
    words = (
        f"A function from the prior has mean entropy {numbers['entropy']:.3g} nats (the most is "
        f"{np.log(classes):.3g}), is more than 99 % sure of one class at {numbers['certain']:.0%} of these inputs, and "
        f"gives its favourite class to {numbers['same_class']:.0%} of them."
    )
    envelope = np.quantile(probabilities, [0.05, 0.5, 0.95], axis=0)
    return PriorCheck(x, probabilities, targets, numbers, envelope, entropy, words)


def prior_functions(check: PriorCheck) -> Figure:
    """What a prior says about functions; see `diagnostics.prior_check`."""
    if check.entropy is not None:
        figure, (axes,) = chart(["How unsure functions from the prior are"])
        most = float(np.log(check.functions.shape[-1]))
        axes.hist(check.entropy.ravel(), np.linspace(0, most, 30), color=COLOURS[0])
        axes.axvline(most, color="k", lw=0.8, ls="--", label="all classes alike")
        axes.set(xlabel="entropy (nats)", ylabel="functions and inputs")
        axes.legend(frameon=False)
        return figure
    if check.x.shape[1:] != (1,):
        figure, (axes,) = chart(["Functions from the prior over all inputs, without and with noise"])
        first = check.targets if check.targets.ndim == 2 else check.targets[..., 0]  # the first of several outputs
        functions, targets = check.functions[..., 0].ravel(), first.ravel()
        low, high = np.quantile(targets, [0.005, 0.995])
        edges = np.linspace(low, high, 60)
        axes.hist(targets, edges, density=True, color=COLOURS[1], alpha=0.5, label="y")
        axes.hist(functions, edges, density=True, color=COLOURS[0], alpha=0.6, label="f(x)")
        axes.set(xlabel="value", ylabel="density")
        axes.legend(frameon=False)
        return figure
    figure, (axes,) = chart(["Functions from the prior: 90 % band and ten of them"])
    order = np.argsort(check.x[:, 0])
    axes.fill_between(check.x[order, 0], *check.envelope[[0, 2]][:, order, 0], color=COLOURS[0], alpha=0.2, lw=0)
    axes.plot(check.x[order, 0], check.functions[:10, order, 0].T, lw=0.8, color=COLOURS[0])
    axes.set(xlabel="x", ylabel="f(x)")
    return figure
