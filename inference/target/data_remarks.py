"""What is wrong with a network's data, or with its prior given the data, found before anything compiles.

**Targets without noise.** Let y be met exactly by weights that m of the n rows determine, n > m. If the scale s of the
noise is inferred, the likelihood integrated over the weights grows as s^-(n - m) when s falls to 0: there is no proper
posterior, and no maximum. A constant y is met by the output's bias alone, with m at most the inputs of the last layer
plus 1; a y that is linear in x is met by a linear model, and by rectifiers that are on for all rows, with m at most the
inputs plus 1. A prior of the noise that vanishes fast enough at 0 keeps the posterior proper.

**Targets of another scale.** The priors of inferred noise and of the weights are made for targets of about unit size.
Targets a thousand times larger are far in the tails of both.

**Functions that explode.** A dense layer with n inputs and weights of standard deviation s multiplies the size of its
inputs by s sqrt(n), and a rectifier by about 0.7. So five layers of 100 units under N(0, 1) turn 1 into 2,400, and no
trajectory of affordable length moves along such a posterior. Prior scales divided by sqrt(n), as with `fan_in`, keep
the units at their size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from models import Network
from models.architectures.perceptrons import Perceptron
from models.architectures.tables import perceptron_of
from models.priors import Normal, Univariate
from models.rules import Rules

__all__ = ["explosion", "noiseless", "refuse_unbounded", "remarks"]

_EXACT = 1e-6  # of the targets' standard deviation: residuals of float32 arithmetic
_LARGE, _SMALL = 10.0, 0.01  # times the prior scale of the noise
_LARGE_INPUTS = 100.0
_EXPLODES = 100.0  # times the units of the first hidden layer
_BOUNDED = ("tanh", "sigmoid")
_RECTIFIER = 0.7


def refuse_unbounded(model: Network, x: np.ndarray, y: np.ndarray) -> None:
    """Raise ValueError if targets without noise leave a network with inferred noise without a proper posterior.

    Args:
        model: the network.
        x: its inputs.
        y: its targets as they were given, before they are rounded.
    """
    if not _infers_noise(model):
        return
    targets = np.asarray(y, np.float64).reshape(len(y), -1)
    flat = np.flatnonzero(np.ptp(targets, axis=0) == 0)
    if flat.size and _unbounded(model, len(targets) - _last_inputs(model, x) - 1):
        which = f"column {flat[0]} of y" if targets.shape[1] > 1 else "y"
        value = targets[0, flat[0]]
        raise ValueError(f"{which} has one value, {value:g}, in all {len(y)} rows, and {_without_bound(model)}")
    if _is_linear(model) and _met_by_a_line(model, x, targets):
        raise ValueError(f"y is an exact linear function of x, and {_without_bound(model)}")


def noiseless(model: Any, arrays: tuple[Any, ...]) -> tuple[str, ...]:
    """A note if rectifiers that are all on meet the targets exactly: the posterior density has no bound there."""
    if not isinstance(model, Network) or not _infers_noise(model) or not isinstance(model.architecture, Perceptron):
        return ()
    x, y = (np.asarray(array, np.float64) for array in arrays)
    if model.architecture.activation != "relu" or not _met_by_a_line(model, x, y.reshape(len(y), -1)):
        return ()
    return (f"y is an exact linear function of x, which rectifiers can meet, and {_without_bound(model)}",)


def _met_by_a_line(model: Network, x: np.ndarray, targets: np.ndarray) -> bool:
    return _unbounded(model, len(targets) - x.shape[1] - 1) and _left_over(x, targets) <= _EXACT


def _without_bound(model: Network) -> str:
    return (
        "its noise is inferred: the density grows without bound as the noise falls to 0, so there is no posterior to "
        f"sample and no maximum; give the noise a scale, likelihood=models.{type(model.likelihood).__name__}(scale=...)"
    )


def _unbounded(model: Network, rows: float) -> bool:
    """Whether `rows` rows that are met without noise outweigh the noise's prior as the noise falls to 0."""
    if rows < 1:
        return False
    prior: Any = model.likelihood.prior.instance()  # type: ignore[attr-defined]
    scales = np.array([1e-3, 1e-6, 1e-9])
    if not np.all(prior.support(scales)):
        return False
    density = np.asarray(prior.log_prob(scales), np.float64) - rows * np.log(scales)
    return bool(np.all(np.diff(density) > 0))


def remarks(model: Network, x: np.ndarray, y: np.ndarray) -> tuple[str, ...]:
    """Notes on targets and inputs of a scale that the priors don't expect."""
    found = []
    unit = 1.0 if model.likelihood.classes is None else math.inf
    if _infers_noise(model):
        unit = _typical(model.likelihood.prior)  # type: ignore[attr-defined]
    size = float(np.sqrt(np.mean(np.square(np.asarray(y, np.float64))))) if model.likelihood.classes is None else 1.0
    spread = float(np.std(np.asarray(y, np.float64)))
    known = getattr(model.likelihood, "scale", None) is not None
    if math.isfinite(unit) and not known and (size > _LARGE * unit or 0 < spread < _SMALL * unit):
        found.append(
            f"y has size {size:.2g} and spread {spread:.2g}, where the priors of the noise and of the weights expect "
            f"about {unit:.2g}: standardise y, as data.load(...).split() does, or give the likelihood and the network "
            "priors of the scale of y"
        )
    sizes = np.delete(x, model.codes, axis=1) if model.codes else x
    inputs = float(np.sqrt(np.mean(np.square(np.asarray(sizes, np.float64))))) if sizes.size else 0.0
    if inputs > _LARGE_INPUTS:
        found.append(
            f"x has size {inputs:.2g}, where the prior of the weights expects about 1: standardise x, as "
            "data.load(...).split() does, or give the network a prior of another scale"
        )
    return tuple(found)


def explosion(model: Any, x: np.ndarray) -> tuple[str, ...]:
    """A note, with its remedy, if the units of a deep network grow from layer to layer under the prior."""
    growth = _growth(model, x)
    if growth < _EXPLODES:
        return ()
    return (
        f"under this prior the units of the last hidden layer are {growth:,.0f} times those of the first: trajectories "
        "that can follow such functions have many thousand steps, and a run may take hours or accept nothing; divide "
        "the prior's scale by the root of each layer's inputs, prior=models.Normal(1.0, fan_in=True)",
    )


def _infers_noise(model: Network) -> bool:
    likelihood: Any = model.likelihood
    return likelihood.classes is None and getattr(likelihood, "scale", 1.0) is None


def _typical(prior: Univariate) -> float:
    """The scale of a positive prior, else its mean, else infinity; for the usual priors nothing is compiled."""
    parameters = dict(prior.parameters)
    if "scale" in parameters:
        return parameters["scale"]
    try:
        return float(prior.instance().mean)
    except (ArithmeticError, NotImplementedError):  # without a mean, as an inverse gamma of concentration 1
        return math.inf


def _is_linear(model: Network) -> bool:
    return isinstance(model.architecture, Perceptron) and not model.architecture.hidden


def _last_inputs(model: Network, x: np.ndarray) -> float:
    """The inputs of the last layer; infinite where they are not known."""
    architecture = model.architecture
    if not isinstance(architecture, Perceptron):
        return math.inf
    return architecture.hidden[-1] if architecture.hidden else x.shape[1]


def _left_over(x: np.ndarray, y: np.ndarray) -> float:
    """The residual standard deviation of a linear regression, as a share of the targets'; the least over outputs."""
    design = np.column_stack([np.ones(len(x)), np.asarray(x, np.float64)])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return float(np.min(residual.std(axis=0) / np.maximum(y.std(axis=0), np.finfo(np.float64).tiny)))


def _growth(model: Any, x: np.ndarray) -> float:
    """The factor by which a perceptron's hidden units grow from the first layer to the last; 1 where it is unknown."""
    perceptron = perceptron_of(model) if isinstance(model, Network) else None
    if perceptron is None:
        return 1.0
    activation = perceptron.activation
    known = isinstance(model.prior, Normal | Rules | Univariate) and isinstance(activation, str)
    if not known or activation in _BOUNDED:
        return 1.0
    hidden = [
        site for site in model.sites(np.asarray(x[:1])) if site.kind == "weight" and site.layer.startswith("hidden")
    ]
    growth = math.prod(_RECTIFIER * model.prior.scale_of(site) * math.sqrt(site.fan_in) for site in hidden[1:])
    return growth if math.isfinite(growth) else 1.0
