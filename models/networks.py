"""The frozen network: an architecture, a prior and a likelihood that together are a NumPyro model.

A `Network` is called as `model(x, y=None)` and works as it is with NumPyro's own inference and handlers. It is frozen,
hashable and equal to any other made of equal parts, so programs compiled for one serve the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import Array, Float, Shaped
from numpyro import handlers

from models.likelihoods import Likelihood
from models.priors import Prior, as_prior
from models.validation import finite_array

__all__ = ["Architecture", "Network"]


class Architecture(Protocol):
    """A frozen record of layers: samples their weights from the prior and applies them to a batch."""

    def __call__(self, x: Array, outputs: int, prior: Prior) -> Array:
        """The outputs, (n, outputs)."""
        ...

    def check(self, x: np.ndarray) -> None:
        """Raise ValueError if a batch does not have the shape this architecture takes."""
        ...


@dataclass(frozen=True)
class Network:
    """A network as a NumPyro model, `model(x, y=None)`.

    Every weight is a sample site `"<layer>.<kind>"` with its prior; the targets are the sample site "y" inside the
    plate "data". With one output `y` has shape (n,), with several (n, outputs).

    Attributes:
        architecture: the layers.
        prior: on every weight.
        likelihood: of the targets given the outputs; it sets the number of outputs.
    """

    architecture: Architecture
    prior: Prior
    likelihood: Likelihood

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", as_prior(self.prior))
        if not isinstance(self.likelihood, Likelihood):
            raise TypeError(
                f"likelihood must be a models.Gaussian, Categorical or Bernoulli, got {type(self.likelihood).__name__}"
            )

    def __call__(self, x: Float[Array, "n ..."], y: Shaped[Array, "n ..."] | None = None) -> None:
        """Sample every weight from the prior, and the targets; with `y` given, observe them."""
        self.likelihood.observe(self.outputs(x), y)

    def outputs(self, x: Float[Array, "n ..."]) -> Float[Array, "n k"]:
        """Sample the weights and give the network's outputs; `handlers.substitute` puts given weights in."""
        return self.architecture(x, self.likelihood.outputs, self.prior)

    def validate(self, x: Any, y: Any = None) -> tuple[np.ndarray, ...]:
        """The data as they are used, float32 or int32 labels; raise with advice where they do not fit.

        Nothing is compiled. `y` may be left out, as in a prediction.
        """
        inputs = finite_array("x", x)
        if inputs.ndim == 0 or len(inputs) == 0:
            raise ValueError(f"x must have at least one row, got shape {inputs.shape}")
        self.architecture.check(inputs)
        inputs = inputs.astype(np.float32)
        self.prior.check(tuple(self.weights(inputs)))
        return (inputs,) if y is None else (inputs, self.likelihood.check(y, len(inputs)))

    def weights(self, x: np.ndarray) -> dict[str, tuple[int, ...]]:
        """The sites of the weights with their shapes, for inputs like `x`; nothing is computed."""

        def sampled(x: Array) -> dict[str, Array]:
            with handlers.trace() as trace, handlers.seed(rng_seed=0):
                self.outputs(x)
            return {name: site["value"] for name, site in trace.items() if site["type"] == "sample"}

        return {name: tuple(value.shape) for name, value in jax.eval_shape(sampled, x[:1]).items()}
