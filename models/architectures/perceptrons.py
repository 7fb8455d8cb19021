"""Dense networks: `linear`, `logistic` and `mlp`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from models.classifiers import Bernoulli, Categorical
from models.layers import Activation, Batch, activated, check_activation, dense
from models.likelihoods import Gaussian, Likelihood
from models.networks import Network
from models.priors import Normal, Prior
from models.validation import in_precision, positive_integer

__all__ = ["Perceptron", "linear", "logistic", "mlp"]


@dataclass(frozen=True)
class Perceptron:
    """Dense layers "hidden0", "hidden1", ..., each followed by the activation, then the dense layer "output".

    Attributes:
        hidden: the units of each hidden layer; empty for a linear map.
        activation: the name of one of `models.layers.ACTIVATIONS`, or a function of one array.
    """

    hidden: tuple[int, ...]
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        for units in self.hidden:
            positive_integer("hidden: the units of a layer", units)
        object.__setattr__(self, "hidden", tuple(int(units) for units in self.hidden))
        check_activation(self.activation)

    def __call__(self, x: Float[Batch, "n d"], outputs: int, prior: Prior) -> Float[Array, "n k"]:
        """h <- activation(h W + b) for each hidden layer, then h W + b."""
        for i, units in enumerate(self.hidden):
            x = activated(self.activation, dense(f"hidden{i}", x, units, prior))
        return dense("output", x, outputs, prior)

    def prepared(self, x: np.ndarray, precision: str) -> np.ndarray:
        """`x` in `precision`; raise ValueError unless it is rows of inputs, (n, d)."""
        if x.ndim == 1:
            raise ValueError(f"x must have shape (n, inputs), got {x.shape}; for one input use x.reshape(-1, 1)")
        if x.ndim != 2 or x.shape[1] == 0:
            raise ValueError(
                f"x must have shape (n, inputs), got {x.shape}; flatten each row with x.reshape(len(x), -1)"
            )
        return in_precision("x", x, precision)

    def rows_at_once(self, x: np.ndarray) -> int | None:
        """As many as the sampler takes by default."""
        return None


def mlp(
    hidden: int | Sequence[int] = (50,),
    activation: Activation = "relu",
    prior: Any = Normal(1.0),  # noqa: B008 (frozen)
    likelihood: Likelihood = Gaussian(),  # noqa: B008 (frozen)
) -> Network:
    """A multilayer perceptron.

    Args:
        hidden: the units of each hidden layer; a number means one layer.
        activation: "relu", "tanh", "silu", "gelu", "elu", "sigmoid", "softplus", or a function of one array.
        prior: one prior for weights and biases alike, or several by layer and kind; see `models.Rules`.
        likelihood: the distribution of the targets given the outputs.
    """
    layers = (hidden,) if isinstance(hidden, int | float | np.number) else tuple(hidden)
    return Network(Perceptron(layers, activation), prior, likelihood)


def linear(prior: Any = Normal(1.0), likelihood: Likelihood = Gaussian()) -> Network:  # noqa: B008 (frozen)
    """Linear regression with a bias: sites "output.weight" of shape (d, outputs) and "output.bias"."""
    return mlp((), prior=prior, likelihood=likelihood)


def logistic(classes: int = 2, prior: Any = Normal(1.0)) -> Network:  # noqa: B008 (frozen)
    """Logistic regression with a bias: one logit for two classes, a softmax for more."""
    positive_integer("logistic: classes", classes, least=2)
    return mlp((), prior=prior, likelihood=Bernoulli() if classes == 2 else Categorical(classes))
