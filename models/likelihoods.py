"""Likelihoods: what the outputs of a network say about the targets.

A likelihood sets the number of outputs, observes the targets inside the data plate (`observe`, a NumPyro effect),
checks targets before anything compiles (`check`), and gives the distribution of a target under each draw of the
posterior (`conditional`, in float64 with SciPy, or `probabilities`), from which predictions are mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float, Shaped

from models.priors import Prior, Univariate, as_prior
from models.validation import finite_array, positive_integer, positive_number

__all__ = ["Bernoulli", "Categorical", "Gaussian", "Likelihood"]


class Likelihood:
    """Base of all likelihoods.

    Every likelihood has `outputs`, how many outputs the network has, and `classes`, the number of classes, None for
    regression.
    """

    outputs: Any
    classes: Any = None

    def observe(self, outputs: Float[Array, "n k"], y: Shaped[Array, "n ..."] | None) -> None:
        """Sample the targets given the network's outputs, at the site "y" inside the plate "data"."""
        raise NotImplementedError(f"{type(self).__name__} must observe the targets")

    def check(self, y: Any, rows: int) -> np.ndarray:
        """The targets as they are used, float32 or int32; raise if they do not fit."""
        raise NotImplementedError(f"{type(self).__name__} must check the targets")


def _check_shape(y: np.ndarray, rows: int, outputs: int) -> None:
    expected = "(n,)" if outputs == 1 else f"(n, {outputs})"
    if y.ndim == 2 and y.shape[1] == 1 and outputs == 1:
        raise ValueError(f"y must have shape (n,) for one output, got {y.shape}; use y.ravel()")
    if y.ndim != (1 if outputs == 1 else 2) or (outputs > 1 and y.shape[1] != outputs):
        raise ValueError(
            f"y must have shape {expected} for a likelihood with {outputs} output{'s' * (outputs > 1)}, got {y.shape}; "
            "give the likelihood as many outputs as y has columns"
        )
    if len(y) != rows:
        raise ValueError(f"x and y must have as many rows, got {rows} in x and {len(y)} in y")


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Normal noise of one standard deviation around the network's output.

    Attributes:
        scale: the standard deviation of the noise in the units of `y`; None makes it a site "noise" with a prior,
            one value per output.
        outputs: the number of targets per row: `y` has shape (n,) for one and (n, outputs) for several.
        prior: of the noise's standard deviation where it is inferred, a univariate distribution on positive numbers.
            The default, HalfNormal(1), is meant for targets of unit scale.
    """

    scale: float | None = None
    outputs: int = 1
    prior: Prior = Univariate("HalfNormal", (("scale", 1.0),))

    def __post_init__(self) -> None:
        if self.scale is not None:
            positive_number("Gaussian: scale", self.scale)
        positive_integer("Gaussian: outputs", self.outputs)
        prior = as_prior(self.prior)
        if not isinstance(prior, Univariate) or prior.support is not dist.constraints.positive:
            raise ValueError(f"Gaussian: prior must be a distribution on positive numbers, got {self.prior!r}")
        object.__setattr__(self, "prior", prior)

    def observe(self, outputs: Float[Array, "n k"], y: Shaped[Array, "n ..."] | None) -> None:
        """y ~ N(outputs, noise^2)."""
        rows = outputs.shape[0]
        several = self.outputs > 1
        noise = self.scale
        if noise is None:
            assert isinstance(self.prior, Univariate)
            width = self.prior.instance()
            noise = numpyro.sample("noise", width.expand((self.outputs,)).to_event(1) if several else width)
        with numpyro.plate("data", rows, dim=-2 if several else -1):
            numpyro.sample("y", dist.Normal(outputs if several else outputs[:, 0], noise), obs=y)

    def check(self, y: Any, rows: int) -> np.ndarray:
        """Finite numbers of shape (n,) or (n, outputs); integers are fine."""
        array = finite_array("y", y)
        _check_shape(array, rows, self.outputs)
        return array.astype(np.float32)

    def noise(self, sites: dict[str, np.ndarray]) -> np.ndarray:
        """The noise's standard deviation per draw, ready to broadcast against (chain, draw, n[, outputs])."""
        if self.scale is not None:
            return np.asarray(self.scale, np.float64)
        return np.asarray(sites["noise"], np.float64)[:, :, None]

    def mean(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n ..."]:
        """The mean of a target under each draw."""
        return outputs if self.outputs > 1 else outputs[..., 0]

    def conditional(self, outputs: Float[np.ndarray, "chain draw n k"], noise: np.ndarray) -> Any:
        """The distribution of the targets under each draw, as a frozen SciPy distribution."""
        import scipy.stats

        return scipy.stats.norm(self.mean(outputs).astype(np.float64), noise)

    def rescaled(
        self, outputs: np.ndarray, noise: np.ndarray, location: np.ndarray, scale: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Outputs and noise for the targets `location + scale * y`."""
        return outputs * scale + location, np.asarray(noise * scale)


class _Classifier(Likelihood):
    """What likelihoods for labels have in common."""

    def check(self, y: Any, rows: int) -> np.ndarray:
        """Integer labels 0 .. classes - 1 of shape (n,)."""
        array = finite_array("y", y)
        if array.dtype.kind == "f":
            raise TypeError(
                f"y must hold integer labels for {type(self).__name__}, got dtype {array.dtype}; use y.astype(int) if "
                "they are labels, or models.Gaussian() for a regression"
            )
        _check_shape(array, rows, 1)
        bad = np.flatnonzero((array < 0) | (array >= self.classes))
        if bad.size:
            raise ValueError(
                f"y must hold labels 0 to {self.classes - 1} for {self.classes} classes, got {array[bad[0]]} at row "
                f"{bad[0]} ({bad.size} rows are affected); count labels from 0, or give the likelihood more classes"
            )
        return array.astype(np.int32)

    def probabilities(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n classes"]:
        """The probability of each class under each draw."""
        return np.exp(self.log_probabilities(outputs))

    def log_probabilities(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n classes"]:
        """Its logarithm, by a log-softmax that does not overflow."""
        logits = outputs.astype(np.float64)
        logits = logits - logits.max(axis=-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Categorical(_Classifier):
    """Labels 0 .. classes - 1 by the softmax of as many logits.

    Attributes:
        classes: the number of classes, at least 2.
    """

    classes: int

    def __post_init__(self) -> None:
        positive_integer("Categorical: classes", self.classes, least=2)

    @property
    def outputs(self) -> int:
        """One logit per class."""
        return self.classes

    def observe(self, outputs: Float[Array, "n k"], y: Shaped[Array, " n"] | None) -> None:
        """y ~ Categorical(softmax(outputs))."""
        with numpyro.plate("data", outputs.shape[0]):
            numpyro.sample("y", dist.Categorical(logits=outputs), obs=y)


@dataclass(frozen=True)
class Bernoulli(_Classifier):
    """Labels 0 and 1 by the sigmoid of one logit, that of label 1."""

    @property
    def classes(self) -> int:
        """Two."""
        return 2

    @property
    def outputs(self) -> int:
        """One logit."""
        return 1

    def observe(self, outputs: Float[Array, "n k"], y: Shaped[Array, " n"] | None) -> None:
        """y ~ Bernoulli(sigmoid(outputs))."""
        with numpyro.plate("data", outputs.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=outputs[:, 0]), obs=y)

    def log_probabilities(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n classes"]:
        """Of label 0 and of label 1, in this order."""
        return super().log_probabilities(np.concatenate([np.zeros_like(outputs), outputs], axis=-1))
