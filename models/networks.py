"""The frozen network: an architecture, a prior and a likelihood that together are a NumPyro model.

A `Network` is called as `model(x, y=None)` and works unchanged with NumPyro's own inference and handlers. It is frozen,
hashable and equal to any other network made of equal parts, so programs compiled for one serve the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped
from numpyro import handlers
from numpyro.infer.initialization import init_to_uniform

from models.layers import Batch
from models.likelihoods import Likelihood
from models.priors import Prior, Site, unconstrained_scale
from models.rules import as_prior
from models.validation import finite_array

__all__ = ["Architecture", "Network", "Recorder"]


@runtime_checkable
class Architecture(Protocol):
    """A frozen record of layers: samples their weights from the prior and applies them to a batch."""

    def __call__(self, x: Batch, outputs: int, prior: Prior) -> Array:
        """The last layer's outputs for a batch, of shape (n, outputs)."""
        ...

    def prepared(self, x: np.ndarray, precision: str) -> np.ndarray:
        """A batch of finite numbers as this architecture takes it; raise ValueError if it does not fit."""
        ...

    def rows_at_once(self, x: np.ndarray) -> int | None:
        """How many rows like those of `x` a sampler should take at once; None leaves it to the sampler."""
        ...


@dataclass(frozen=True)
class Network:
    """A network as a NumPyro model, `model(x, y=None)`.

    Every weight is a sample site `"<layer>.<kind>"` with its prior; the targets are the sample site "y" inside the
    plate "data". With one output `y` has shape (n,), with several (n, outputs).

    Attributes:
        architecture: the layers.
        prior: the prior of every weight.
        likelihood: the distribution of the targets given the outputs; it sets the number of outputs.
    """

    architecture: Architecture
    prior: Prior
    likelihood: Likelihood

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", as_prior(self.prior))
        if not isinstance(self.likelihood, Likelihood):
            raise TypeError(
                "likelihood must be a models.Gaussian, models.Categorical or another likelihood of models, got "
                f"{type(self.likelihood).__name__}"
            )

    def __call__(self, x: Shaped[Batch, "n ..."], y: Shaped[Batch, "n ..."] | None = None) -> None:
        """Sample every weight from the prior, and the targets; with `y` given, observe them."""
        self.likelihood.observe(self.outputs(x), y)

    def outputs(self, x: Shaped[Batch, "n ..."]) -> Float[Array, "n k"]:
        """Sample the weights and give the network's outputs; `handlers.substitute` puts given weights in."""
        return self.likelihood.link(self.heads(x))

    def heads(self, x: Shaped[Batch, "n ..."]) -> Float[Array, "n k"]:
        """Sample the weights and give the last layer's outputs, before the likelihood's link."""
        return self.architecture(x, self.likelihood.heads, self.prior)

    def validate(self, x: Any, y: Any = None, precision: str = "float32") -> tuple[np.ndarray, ...]:
        """The data as numbers in `precision` or as int32 labels; raise with advice where they do not fit.

        Nothing is compiled. `y` may be left out, as in a prediction.
        """
        inputs = finite_array("x", x)
        if inputs.ndim == 0 or len(inputs) == 0:
            raise ValueError(f"x must have at least one row, got shape {inputs.shape}")
        inputs = self.architecture.prepared(inputs, precision)
        self.prior.check(self._recorded(inputs).sites())
        return (inputs,) if y is None else (inputs, self.likelihood.check(y, len(inputs), precision))

    @property
    def codes(self) -> tuple[int, ...]:
        """Which inputs of a row are codes, such as the number of a category, and so have no size."""
        return getattr(self.architecture, "codes", ())

    def sites(self, x: np.ndarray) -> tuple[Site, ...]:
        """The weights and biases that the prior samples, for inputs shaped like `x`; nothing is computed."""
        return tuple(site for site in self._recorded(x).sites() if self.prior.samples(site))

    def last_layer(self, x: np.ndarray) -> str:
        """The name of the layer that gives the outputs.

        Raises:
            ValueError: for a lifted network, which does not say in which order it uses its layers.
        """
        if hasattr(self.architecture, "values_of"):
            raise ValueError(
                "the last layer of a lifted network is not known; name the part that is to be inferred, such as "
                "stochastic='output'"
            )
        return self.sites(x)[-1].layer

    def shapes(self, x: np.ndarray) -> dict[str, tuple[int, ...]]:
        """The shapes of all weights and biases by name, fixed ones among them; nothing is computed."""
        return {site.name: shape for site, shape in self._recorded(x).asked}

    def _recorded(self, x: np.ndarray) -> Recorder:
        recorder = Recorder()
        jax.eval_shape(lambda x: self.architecture(x, self.likelihood.heads, recorder), x[:1])
        return recorder

    def weights(self, x: np.ndarray) -> dict[str, tuple[int, ...]]:
        """The sites that the outputs depend on, with their shapes, for inputs shaped like `x`; nothing is computed."""
        kind = jax.dtypes.canonicalize_dtype(x.dtype)  # shapes are the same in either precision
        return dict(_weights(self, jax.ShapeDtypeStruct((1, *x.shape[1:]), kind)))

    def supports(self, x: Batch) -> dict[str, Any]:
        """The support of each sample site that the outputs depend on, for inputs shaped like `x`."""
        trace = handlers.trace(_started(self.heads)).get_trace(x[:1])
        return {name: site["fn"].support for name, site in trace.items() if site["type"] == "sample"}

    def prior_scales(self, x: Batch) -> dict[str, Array]:
        """The prior standard deviation of every latent site in unconstrained coordinates, in the site's shape.

        Infinite where the prior is flat; the scale parameter where the variance is infinite. This method can be
        compiled.
        """
        trace = handlers.trace(_started(self)).get_trace(x[:1])
        sites = {name: site for name, site in trace.items() if site["type"] == "sample" and name != "y"}
        return {name: unconstrained_scale(site["fn"]) for name, site in sites.items()}


@lru_cache(maxsize=256)
def _weights(model: Network, row: jax.ShapeDtypeStruct) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """See `Network.weights`; asked for at every run and prediction, so it is remembered."""

    def sampled(x: Array) -> dict[str, Array]:
        trace = handlers.trace(_started(model.outputs)).get_trace(x)
        return {name: site["value"] for name, site in trace.items() if site["type"] == "sample"}

    return tuple((name, tuple(value.shape)) for name, value in jax.eval_shape(sampled, row).items())


def _started(model: Callable[..., Any]) -> Callable[..., Any]:
    """A model that can be run once even if its priors are flat and can't be sampled."""
    return handlers.substitute(handlers.seed(model, rng_seed=0), substitute_fn=init_to_uniform(radius=1.0))


class Recorder(Prior):
    """Stands in for a prior, and records which sites it is asked for.

    Attributes:
        asked: each site with its shape, in the order in which the architecture asks.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[Site, tuple[int, ...]]] = []

    def sites(self) -> tuple[Site, ...]:
        """The sites that it was asked for."""
        return tuple(site for site, _ in self.asked)

    def sample(self, site: Site, shape: tuple[int, ...]) -> Array:
        """Record the site; its weights are zeros."""
        self.asked.append((site, shape))
        return jnp.zeros(shape)

    def sample_unknowns(self, count: int) -> Array:
        """Missing inputs are no weights, and are not recorded; zeros."""
        return jnp.zeros(count)
