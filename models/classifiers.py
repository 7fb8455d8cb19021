"""The likelihoods of labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float, Shaped
from scipy.special import log_softmax, logsumexp

from models.layers import Batch
from models.likelihoods import Likelihood, check_targets, scale_of_log_variance
from models.validation import finite_array, positive_integer

__all__ = ["Bernoulli", "Categorical", "NoisyLogits"]


class LabelLikelihood(Likelihood):
    """What likelihoods of labels have in common."""

    outputs = 1

    def check(self, y: Any, rows: int, precision: str = "float32") -> np.ndarray:
        """The targets as int32 labels of shape (n,); raise unless they are integers 0 .. classes - 1."""
        array = finite_array("y", y)
        if array.dtype.kind == "f":
            raise TypeError(
                f"y must hold integer labels for {type(self).__name__}, got dtype {array.dtype}; use y.astype(int) if "
                "they are labels, or models.Gaussian() for a regression"
            )
        check_targets(array, rows, 1, labels=True)
        bad = np.flatnonzero((array < 0) | (array >= self.classes))
        if bad.size:
            raise ValueError(
                f"y must hold labels 0 to {self.classes - 1} for {self.classes} classes, got {array[bad[0]]} at row "
                f"{bad[0]} ({bad.size} rows are affected); count labels from 0, or give the likelihood more classes"
            )
        return array.astype(np.int32)

    def constant_log_likelihood(self, y: np.ndarray) -> float:
        """The log-likelihood of predicting every class with its frequency in `y`."""
        counts = np.bincount(np.asarray(y, np.int64))
        counts = counts[counts > 0]
        return float(counts @ np.log(counts / counts.sum()))

    def probabilities(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n classes"]:
        """The probability of each class under each draw."""
        return np.exp(self.log_probabilities(outputs))

    def log_probabilities(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n classes"]:
        """The log probability of each class under each draw."""
        return log_softmax(outputs.astype(np.float64), axis=-1)

    def functions(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n q"]:
        """The log odds of every class but the last, which follows from the others.

        Log odds rise with the probability, so both have the same ranks, and they never round to one value as 1 - 1e-17
        does.
        """
        logs = self.log_probabilities(outputs)
        others = [logsumexp(np.delete(logs, k, axis=-1), axis=-1) for k in range(logs.shape[-1] - 1)]
        return logs[..., :-1] - np.stack(others, axis=-1)


@dataclass(frozen=True)
class Categorical(LabelLikelihood):
    """Labels 0 .. classes - 1 by the softmax of `classes` logits.

    Attributes:
        classes: the number of classes, at least 2.
    """

    classes: int

    def __post_init__(self) -> None:
        positive_integer("Categorical: classes", self.classes, least=2)

    @property
    def heads(self) -> int:
        """One logit per class."""
        return self.classes

    def observe(self, outputs: Float[Array, "n k"], y: Shaped[Batch, " n"] | None) -> None:
        """y ~ Categorical(softmax(outputs))."""
        with numpyro.plate("data", outputs.shape[0]):
            numpyro.sample("y", dist.Categorical(logits=outputs), obs=y)


@dataclass(frozen=True)
class Bernoulli(LabelLikelihood):
    """Labels 0 and 1 by the sigmoid of one logit, which belongs to label 1."""

    @property
    def classes(self) -> int:
        """The number of classes, 2."""
        return 2

    @property
    def heads(self) -> int:
        """One logit."""
        return 1

    def observe(self, outputs: Float[Array, "n k"], y: Shaped[Batch, " n"] | None) -> None:
        """y ~ Bernoulli(sigmoid(outputs))."""
        with numpyro.plate("data", outputs.shape[0]):
            numpyro.sample("y", dist.Bernoulli(logits=outputs[:, 0]), obs=y)

    def log_probabilities(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n classes"]:
        """The log probabilities of label 0 and of label 1, in this order."""
        return super().log_probabilities(np.concatenate([np.zeros_like(outputs), outputs], axis=-1))


@dataclass(frozen=True)
class NoisyLogits(LabelLikelihood):
    r"""Labels by the softmax of logits with noise, whose scales are outputs too (Kendall & Gal 2017, equation 12).

        p(y | x, w) = E_e softmax(f + sigma * e)_y,   e ~ N(0, I)

    The expectation is the mean over a fixed set of normal points, so the density is a deterministic function of the
    weights, as Hamiltonian methods require. The points are `nodes` quasi-random ones (Sobol), each with both signs and
    in every cyclic order of the classes: 2 * classes * nodes in all. By this symmetry, noise alone favours no class. A
    draw's probabilities are averaged over the points before any entropy is taken. The network has two heads per class,
    f and log sigma^2; predictions report f and sigma.

    Attributes:
        classes: the number of classes, at least 2.
        nodes: the number of quasi-random points, a power of 2.
    """

    classes: int
    nodes: int = 8

    def __post_init__(self) -> None:
        positive_integer("NoisyLogits: classes", self.classes, least=2)
        positive_integer("NoisyLogits: nodes", self.nodes)
        if self.nodes & (self.nodes - 1):
            raise ValueError(f"NoisyLogits: nodes must be a power of 2, got {self.nodes!r}")

    @property
    def heads(self) -> int:
        """One logit and one log variance per class, the logits first."""
        return 2 * self.classes

    def link(self, heads: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Logits, then standard deviations."""
        return jnp.concatenate([heads[:, : self.classes], scale_of_log_variance(heads[:, self.classes :])], axis=1)

    def observe(self, outputs: Float[Array, "n k"], y: Shaped[Batch, " n"] | None) -> None:
        """y ~ Categorical(mean over points of softmax(f + sigma * point))."""
        logits, scale = outputs[:, None, : self.classes], outputs[:, None, self.classes :]
        points = _points(self.classes, self.nodes).astype(np.float32)
        log_probs = jax.nn.log_softmax(logits + scale * points, axis=-1)
        averaged = jax.nn.logsumexp(log_probs, axis=1) - np.log(len(points))
        with numpyro.plate("data", outputs.shape[0]):
            numpyro.sample("y", dist.Categorical(logits=averaged), obs=y)

    def log_probabilities(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n classes"]:
        """The log of the probabilities averaged over the points, one point at a time to bound the memory."""
        wide = outputs.astype(np.float64)
        logits, scale = wide[..., : self.classes], wide[..., self.classes :]
        total = np.full(logits.shape, -np.inf)
        points = _points(self.classes, self.nodes)
        for point in points:
            total = np.logaddexp(total, log_softmax(logits + scale * point, axis=-1))
        return total - np.log(len(points))


@lru_cache
def _points(classes: int, nodes: int) -> np.ndarray:
    """Standard normal points: Sobol points with a fixed scrambling, both signs, every cyclic order of the classes."""
    from scipy.stats import norm, qmc

    base = norm.ppf(qmc.Sobol(classes, scramble=True, rng=np.random.default_rng(0)).random(nodes))
    orders = np.concatenate([np.roll(base, shift, axis=1) for shift in range(classes)])
    return np.concatenate([orders, -orders])
