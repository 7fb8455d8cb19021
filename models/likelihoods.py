"""What a likelihood is, and the likelihoods of real targets.

A likelihood sets the number of the network's outputs, observes the targets inside the data plate (`observe`, a NumPyro
effect), checks targets before anything compiles (`check`), and gives the distribution of a target under each draw of
the posterior (in float64 with SciPy), from which predictions are mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jaxtyping import Array, Float, Shaped

from models.conditionals import NormalConditional, StudentConditional
from models.layers import Batch
from models.priors import Univariate
from models.rules import positive_prior
from models.validation import finite_array, in_precision, plain_numbers, positive_integer, positive_number

__all__ = [
    "Gaussian",
    "HeteroscedasticGaussian",
    "Likelihood",
    "StudentTNoise",
    "check_targets",
    "scale_of_log_variance",
]

_UNIT = Univariate("HalfNormal", (("scale", 1.0),))
_LOG_VARIANCE = 20.0  # bound on a log variance: scales stay between 5e-5 and 2e4, their squares finite in float32


class Likelihood:
    """Base of all likelihoods.

    Every likelihood has `outputs`, the number of targets per row; `heads`, the number of outputs of the network; and
    `classes`, the number of classes, None for regression.
    """

    outputs: Any
    heads: Any
    classes: Any = None

    def link(self, heads: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """The outputs of the network's last layer in the form in which predictions report them."""
        return heads

    def observe(self, outputs: Float[Array, "n k"], y: Shaped[Batch, "n ..."] | None) -> None:
        """Sample the targets given the linked outputs, at the site "y" inside the plate "data"."""
        raise NotImplementedError(f"{type(self).__name__} must observe the targets")

    def check(self, y: Any, rows: int, precision: str = "float32") -> np.ndarray:
        """The targets as numbers in `precision` or as int32 labels; raise if they do not fit the likelihood."""
        raise NotImplementedError(f"{type(self).__name__} must check the targets")

    def functions(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n q"]:
        """What the outputs say about y, in the quantities in which draws are compared."""
        raise NotImplementedError(f"{type(self).__name__} must say what its functions are")

    def constant_log_likelihood(self, y: np.ndarray) -> float:
        """The log-likelihood of the best prediction that is the same for every row, under its best noise."""
        raise NotImplementedError(f"{type(self).__name__} must say what predicting a constant is worth")


def check_targets(y: np.ndarray, rows: int, outputs: int, labels: bool = False) -> None:
    """Require targets of shape (n,) for one output and (n, outputs) for several."""
    expected = "(n,)" if outputs == 1 else f"(n, {outputs})"
    if y.ndim == 2 and y.shape[1] == 1 and outputs == 1:
        raise ValueError(f"y must have shape (n,) for one output, got {y.shape}; use y.ravel()")
    if labels and y.ndim == 2:
        raise ValueError(f"y must hold one label per row, shape (n,), got {y.shape}; for one-hot rows y.argmax(axis=1)")
    if y.ndim != (1 if outputs == 1 else 2) or (outputs > 1 and y.shape[1] != outputs):
        raise ValueError(
            f"y must have shape {expected} for a likelihood with {outputs} output{'s' * (outputs > 1)}, got {y.shape}; "
            "give the likelihood as many outputs as y has columns"
        )
    if len(y) != rows:
        raise ValueError(f"x and y must have as many rows, got {rows} in x and {len(y)} in y")


def scale_of_log_variance(log_variance: Array) -> Array:
    """The standard deviation, from a log variance s that is kept within +-20 by 20 tanh(s / 20).

    The bound is smooth, so that even a head far outside it has a gradient that leads back; within +-5 it changes s by
    less than 2 %.
    """
    return jnp.exp(0.5 * _LOG_VARIANCE * jnp.tanh(log_variance / _LOG_VARIANCE))


class RealLikelihood(Likelihood):
    """What likelihoods of real targets have in common: a location and a scale per target."""

    def check(self, y: Any, rows: int, precision: str = "float32") -> np.ndarray:
        """The targets in `precision`; raise unless they are finite and of shape (n,) or (n, outputs)."""
        array = finite_array("y", y)
        check_targets(array, rows, self.outputs)
        return in_precision("y", array, precision)

    def mean(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n ..."]:
        """The centre of a target under each draw."""
        return outputs[..., : self.outputs] if self.outputs > 1 else outputs[..., 0]

    def functions(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n q"]:
        """The centre of each target."""
        return outputs[..., : self.outputs]

    def constant_log_likelihood(self, y: np.ndarray) -> float:
        """The log-likelihood of a normal with the mean and the standard deviation of each target."""
        targets = np.asarray(y, np.float64).reshape(len(y), -1)
        return float(NormalConditional(targets.mean(axis=0), targets.std(axis=0)).logpdf(targets).sum())

    def noise(self, sites: dict[str, np.ndarray]) -> np.ndarray:
        """The noise's scale per draw, ready to broadcast against (chain, draw, n[, outputs]); 0 if outputs hold it."""
        return np.zeros(())

    def conditional(self, outputs: Float[np.ndarray, "chain draw n k"], noise: np.ndarray) -> Any:
        """The distribution of the targets under each draw."""
        return NormalConditional(self.mean(outputs).astype(np.float64), noise)

    def rescaled(
        self, outputs: np.ndarray, noise: np.ndarray, location: np.ndarray, scale: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Outputs and noise for the targets `location + scale * y`."""
        return outputs * scale + location, np.asarray(noise * scale)

    def _observe(self, distribution: dist.Distribution, y: Batch | None) -> None:
        with numpyro.plate("data", distribution.batch_shape[0], dim=-2 if self.outputs > 1 else -1):
            numpyro.sample("y", distribution, obs=y)


class _Noise(RealLikelihood):
    """One scale for all rows, known or inferred. Subclasses are records with `scale`, `outputs` and `prior`."""

    scale: float | None
    prior: Any

    def __post_init__(self) -> None:
        plain_numbers(self)
        name = type(self).__name__
        if self.scale is not None:
            positive_number(f"{name}: scale", self.scale)
        positive_integer(f"{name}: outputs", self.outputs)
        object.__setattr__(self, "prior", positive_prior(f"{name}: prior", self.prior))

    @property
    def heads(self) -> int:
        """One output per target."""
        return self.outputs

    def noise(self, sites: dict[str, np.ndarray]) -> np.ndarray:
        """The known scale, or the draws of the site "noise"."""
        if self.scale is not None:
            return np.asarray(self.scale, np.float64)
        return np.asarray(sites["noise"], np.float64)[:, :, None]

    def _sample_noise(self) -> Any:
        if self.scale is not None:
            return self.scale
        width = self.prior.instance()
        return numpyro.sample("noise", width.expand((self.outputs,)).to_event(1) if self.outputs > 1 else width)


@dataclass(frozen=True)
class Gaussian(_Noise):
    """Normal noise of one standard deviation around the network's output.

    Attributes:
        scale: the standard deviation of the noise in the units of `y`; None makes it a site "noise" with a prior,
            one value per output.
        outputs: the number of targets per row: `y` has shape (n,) for one and (n, outputs) for several.
        prior: the prior of the noise's standard deviation where it is inferred, a univariate distribution on positive
            numbers. The default, HalfNormal(1), is meant for targets of unit scale.
    """

    scale: float | None = None
    outputs: int = 1
    prior: Any = _UNIT

    def observe(self, outputs: Float[Array, "n k"], y: Shaped[Batch, "n ..."] | None) -> None:
        """y ~ N(outputs, noise^2)."""
        noise = self._sample_noise()
        self._observe(dist.Normal(outputs if self.outputs > 1 else outputs[:, 0], noise), y)

    def constant_log_likelihood(self, y: np.ndarray) -> float:
        """The log-likelihood of a normal with the mean of each target, and `scale` or the target's own deviation."""
        if self.scale is None:
            return super().constant_log_likelihood(y)
        targets = np.asarray(y, np.float64).reshape(len(y), -1)
        return float(NormalConditional(targets.mean(axis=0), np.asarray(self.scale)).logpdf(targets).sum())


@dataclass(frozen=True)
class StudentTNoise(_Noise):
    """Student-t noise: like `Gaussian`, with heavier tails, so that outliers pull less.

    Attributes:
        df: degrees of freedom, above 0. The variance, and so the aleatoric part of a prediction, exists above 2 only;
            the centre is the mean above 1, and the median always.
        scale: the scale of the noise in the units of `y`; None makes it a site "noise" with a prior.
        outputs: the number of targets per row.
        prior: the prior of the scale where it is inferred.
    """

    df: float = 4.0
    scale: float | None = None
    outputs: int = 1
    prior: Any = _UNIT

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("StudentTNoise: df", self.df)

    def observe(self, outputs: Float[Array, "n k"], y: Shaped[Batch, "n ..."] | None) -> None:
        """y ~ StudentT(df, outputs, noise)."""
        noise = self._sample_noise()
        self._observe(dist.StudentT(self.df, outputs if self.outputs > 1 else outputs[:, 0], noise), y)

    def conditional(self, outputs: Float[np.ndarray, "chain draw n k"], noise: np.ndarray) -> Any:
        """The distribution of the targets under each draw."""
        return StudentConditional(self.df, self.mean(outputs).astype(np.float64), noise)

    def constant_log_likelihood(self, y: np.ndarray) -> float:
        """The log-likelihood of the Student-t with `df` degrees of freedom that fits each target best."""
        from scipy.stats import t as student  # takes a third of a second to import

        held = {"fdf": self.df} | ({} if self.scale is None else {"fscale": self.scale})
        columns = np.asarray(y, np.float64).reshape(len(y), -1).T
        return float(sum(student.logpdf(each, *student.fit(each, **held)).sum() for each in columns))


@dataclass(frozen=True)
class HeteroscedasticGaussian(RealLikelihood):
    """Normal noise whose scale is an output too (Kendall & Gal 2017, equation 5, with s = log sigma^2).

    The network has two heads per target, mean and log variance, the latter kept within +-20; predictions report mean
    and standard deviation.

    Attributes:
        outputs: the number of targets per row.
    """

    outputs: int = 1

    def __post_init__(self) -> None:
        positive_integer("HeteroscedasticGaussian: outputs", self.outputs)

    @property
    def heads(self) -> int:
        """One mean and one log variance per target, the means first."""
        return 2 * self.outputs

    def link(self, heads: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Means, then standard deviations."""
        return jnp.concatenate([heads[:, : self.outputs], scale_of_log_variance(heads[:, self.outputs :])], axis=1)

    def observe(self, outputs: Float[Array, "n k"], y: Shaped[Batch, "n ..."] | None) -> None:
        """y ~ N(mean, scale^2), both outputs."""
        mean, scale = outputs[:, : self.outputs], outputs[:, self.outputs :]
        self._observe(dist.Normal(mean, scale) if self.outputs > 1 else dist.Normal(mean[:, 0], scale[:, 0]), y)

    def conditional(self, outputs: Float[np.ndarray, "chain draw n k"], noise: np.ndarray) -> Any:
        """The distribution of the targets under each draw."""
        scale = outputs[..., self.outputs :].astype(np.float64)
        return NormalConditional(self.mean(outputs).astype(np.float64), scale if self.outputs > 1 else scale[..., 0])

    def functions(self, outputs: Float[np.ndarray, "*s n k"]) -> Float[np.ndarray, "*s n q"]:
        """The mean of each target, and the log of its scale as a quantity of its own."""
        return np.concatenate([outputs[..., : self.outputs], np.log(outputs[..., self.outputs :])], axis=-1)

    def rescaled(
        self, outputs: np.ndarray, noise: np.ndarray, location: np.ndarray, scale: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations for the targets `location + scale * y`."""
        mean, deviation = outputs[..., : self.outputs], outputs[..., self.outputs :]
        return np.concatenate([mean * scale + location, deviation * scale], axis=-1), noise
