r"""Dropout as a guide (Gal & Ghahramani 2016): every weight matrix is W = diag(z) M + sigma E, z Bernoulli(keep).

How the free energy becomes the loss of dropout training: with N rows, one draw W_i per row i and an independent prior
N(0, s^2) on the weights, the free energy of `inference.variational.svi` at T = 1 and its one-draw estimate are

    F(M) = -sum_i E_q[log p(y_i | x_i, W)] + KL(q, p)
        ~= -sum_i log p(y_i | x_i, W_i) + sum_layers keep / (2 s^2) |M|^2 + constants        (sigma -> 0)

because KL(q, p) depends on M through the expected log prior alone once I(z; w) = H(keep), see
`inference.variational.masked_matrix`. Regression with noise precision tau has -log p(y | f) = tau/2 (y - f)^2 +
constant. Dividing by tau / 2,

    2 F / tau = sum_i (y_i - f(x_i, W_i))^2 + lambda |M|^2,      lambda = keep / (s^2 tau)

is the summed squared error of a network trained with dropout, where x_i W_i = (x_i * z_i) M, and weight decay lambda;
divided by N, the mean squared error with decay keep / (s^2 N tau). A classifier has no tau: F itself is its summed
cross-entropy with decay keep / (2 s^2). `keep` is 1 - `rate`, and `rate` is the probability to drop. Masks are not
scaled up by 1 / keep, so a network trained elsewhere with scaled masks has keep M where we have M.

At a fixed rate the rest is a constant. `rate="learn"` fits one rate per layer with the relaxed masks of Concrete
dropout (Gal, Hron & Kendall 2017), against F with I = H(keep):  z = sigmoid((logit(keep) + logit(u)) / 0.1).

References: https://arxiv.org/abs/1506.02142, https://arxiv.org/abs/1705.07832.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.target.density import Data, Position, Target
from inference.variational.closed_forms import expected_log_prob
from inference.variational.gaussian import narrow
from inference.variational.guide import Drawn, Guide
from inference.variational.masked_matrix import MaskedMatrix
from inference.variational.per_row import Layerwise, check_layers, layers_of
from models.layers import LinearMap
from models.validation import nonnegative_number, one_of

__all__ = ["Dropout", "Matrices"]

_FIRST_RATE = 0.1  # where a learned rate begins
_TINY = 1e-30  # keeps the gradient of a length finite at 0
_RELAXATION = 0.1  # the temperature of relaxed masks in Concrete dropout


class Matrices(NamedTuple):
    """The parameters of the guide.

    Attributes:
        matrices: M of every weight matrix, by site.
        logits: the logit of each matrix's rate, where rates are learned; else empty.
        others: the parameters of all other sites: a position, or independent normals.
    """

    matrices: Position
    logits: Position
    others: Any


@dataclass(frozen=True, kw_only=True)
class Dropout(Guide):
    """Bernoulli masks on the inputs of every layer.

    Attributes:
        rate: the probability to drop: a number for all layers, including the first, which sees the network's inputs; a
            mapping such as {"hidden0": 0.0, "output": 0.5, "default": 0.1}, by the layer whose inputs are dropped; or
            "learn", which fits one rate per layer by Concrete dropout.
        sigma: the standard deviation of the noise on the weights; 0 for none, as dropout is commonly used.
        per: what is dropped as one: an input "unit", which is a channel of a convolution and a word of an embedding, or
            each "weight" by itself (DropConnect).
        masks: "example" draws an independent mask for each row, as in the paper's objective; "shared" draws one for all
            rows of a step. With `particles=K` there are K masks of either kind.
        mask_information: how much of its mask a row of weights gives away, as the entropy counts it: "paper" takes all
            of it; "exact" computes it by quadrature, which differs where sigma is not small.
        others: the factor of biases and other sites: a "point", or a "gaussian".
    """

    name: ClassVar[str] = "dropout"
    starts_at_map: ClassVar[bool] = False

    rate: Any = 0.1
    sigma: float = 0.0
    per: str = "unit"
    masks: str = "example"
    mask_information: str = "paper"
    others: str = "point"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _rates(self.rate))
        nonnegative_number("svi: sigma", self.sigma)
        object.__setattr__(self, "sigma", float(self.sigma))
        one_of("svi: per", self.per, ("unit", "weight"))
        one_of("svi: masks", self.masks, ("example", "shared"))
        one_of("svi: mask_information", self.mask_information, ("paper", "exact"))
        one_of("svi: others", self.others, ("point", "gaussian"))
        if self.mask_information == "exact" and self.sigma == 0:
            raise ValueError('svi: mask_information="exact" needs sigma above 0; at 0 the paper\'s value is exact')

    def singular(self, target: Target, data: Data) -> bool:
        """Whether draws have no density: weights without noise, and points, have none."""
        return not self._dense

    @property
    def by_row(self) -> bool:
        """Whether each row has its own mask."""
        return self.masks == "example"

    @property
    def _dense(self) -> bool:
        return self.sigma > 0 and self.others == "gaussian"

    @property
    def has_points(self) -> bool:
        """Whether the other sites are points."""
        return self.others == "point"

    def check(self, target: Target, data: Data) -> None:
        """Require that all layers are dense, and that each has a rate and each rate a layer."""
        noisy = self.sigma > 0 and self.by_row  # then the outputs are drawn, see `_PerExample`
        check_layers(
            'svi: guide="dropout" with sigma above 0 and masks="example"' if noisy else 'svi: guide="dropout"',
            target, data, 'use sigma=0 or masks="shared"' if noisy else "",
        )  # fmt: skip
        layers = layers_of(target, data)
        if isinstance(self.rate, tuple):
            for layer, _ in self.rate:
                if layer != "default" and layer not in layers:
                    raise ValueError(f"svi: rate is for '{layer}', which is no layer; there are {', '.join(layers)}")
            missing = [layer for layer in layers if layer not in dict(self.rate) and "default" not in dict(self.rate)]
            if missing:
                raise ValueError(f"svi: rate has no entry for '{missing[0]}'; add it, or a 'default'")

    def begin(self, target: Target, data: Data, position: Position, key: jax.Array) -> Matrices:
        """Matrices whose mean, keep M, is `position`."""
        names = [f"{layer}.weight" for layer in layers_of(target, data)]
        logits = {}
        if self.rate == "learn":
            first = float(np.log(_FIRST_RATE) - np.log1p(-_FIRST_RATE))
            logits = {name: jnp.full((), first, position[name].dtype) for name in names}
        unfitted = Matrices({}, logits, {})
        matrices = {name: position[name] / self._keep(unfitted, name) for name in names}
        others = {name: leaf for name, leaf in position.items() if name not in matrices}
        return Matrices(matrices, logits, narrow(others) if self.others == "gaussian" else others)

    def draw(self, target: Target, data: Data, parameters: Matrices, key: jax.Array) -> Drawn:
        """A whole set of weights: one mask for all rows."""
        return self._draw(parameters, key, relaxed=False)

    def strata(self, target: Target, data: Data, parameters: Matrices, key: jax.Array) -> tuple[None, Drawn]:
        """One draw, with relaxed masks where the rate is learned."""
        return None, self._draw(parameters, key, relaxed=self.rate == "learn")

    def entropy(self, parameters: Matrices) -> jax.Array:
        """H[q] of the matrices and of the other sites' normals; points have no entropy."""
        exact = self.mask_information == "exact"
        total = sum((self.distribution(parameters, name).entropy(exact) for name in parameters.matrices), jnp.zeros(()))
        return total + parameters.others.entropy() if self.others == "gaussian" else total

    def expected_log_prior(self, parameters: Matrices, name: str, prior: Any) -> jax.Array | None:
        """E_q[log p] of a matrix or a normal; None for a point, whose draw gives its log prior."""
        if name in parameters.matrices:
            return self.distribution(parameters, name).expected_log_prob(prior)
        if self.others == "gaussian":
            return expected_log_prob(parameters.others.location[name], parameters.others.scale[name], prior)
        return None

    def layers(self, parameters: Matrices, key: jax.Array) -> Callable[..., Any] | None:
        """A handler that gives each row its own mask; None if rows share one."""
        return partial(_PerExample, self, parameters, key) if self.by_row else None

    def fitted(self, parameters: Matrices) -> dict[str, np.ndarray]:
        """M, the rate of each layer, and the other sites' parameters."""
        matrices = {f"{name}.matrix": np.asarray(leaf) for name, leaf in parameters.matrices.items()}
        rates = {f"{name}.rate": np.asarray(1 - self._keep(parameters, name)) for name in parameters.matrices}
        if self.others == "point":
            return matrices | rates | {f"{name}.point": np.asarray(leaf) for name, leaf in parameters.others.items()}
        means = {f"{name}.mean": np.asarray(leaf) for name, leaf in parameters.others.location.items()}
        return matrices | rates | means | {f"{n}.std": np.asarray(leaf) for n, leaf in parameters.others.scale.items()}

    def distribution(self, parameters: Matrices, name: str) -> MaskedMatrix:
        """The distribution of the weight matrix `name`."""
        return MaskedMatrix(parameters.matrices[name], self._keep(parameters, name), self.sigma, self.per)

    def mask(self, parameters: Matrices, name: str, key: jax.Array, shape: tuple[int, ...], relaxed: bool) -> Any:
        """Masks for the weight matrix `name`; `relaxed` ones are differentiable in the rate."""
        keep = self._keep(parameters, name)
        dtype = parameters.matrices[name].dtype
        if not relaxed:
            return jnp.ones((), dtype) if _is_one(keep) else jax.random.bernoulli(key, keep, shape).astype(dtype)
        uniform = jax.random.uniform(key, shape, dtype, minval=jnp.finfo(dtype).eps)
        odds = -parameters.logits[name] + jnp.log(uniform) - jnp.log1p(-uniform)
        return jax.nn.sigmoid(odds / _RELAXATION)

    def _keep(self, parameters: Matrices, name: str) -> Any:
        if self.rate == "learn":
            return jax.nn.sigmoid(-parameters.logits[name])
        if isinstance(self.rate, float):
            return 1 - self.rate
        rates = dict(self.rate)
        return 1 - rates[layer if (layer := name.removesuffix(".weight")) in rates else "default"]

    def _draw(self, parameters: Matrices, key: jax.Array, relaxed: bool) -> Drawn:
        *keys, others_key = jax.random.split(key, len(parameters.matrices) + 1)
        position, log_density = {}, jnp.zeros(())
        for name, own in zip(parameters.matrices, keys, strict=True):
            distribution = self.distribution(parameters, name)
            mask_key, noise_key = jax.random.split(own)
            mask = self.mask(parameters, name, mask_key, distribution.mask_shape, relaxed)
            position[name] = distribution.around(mask, noise_key)
            if self._dense:
                log_density = log_density + distribution.log_prob(position[name])
        if self.others == "gaussian":
            others: Drawn = parameters.others.draw(others_key)
            return Drawn(position | others.position, log_density + others.log_density)
        return Drawn(position | parameters.others, log_density)


class _PerExample(Layerwise):
    """Each row of a layer's inputs has its own draw of the layer's weights.

    With masks per unit, x_i W_i = (x_i * z_i) M + sigma |x_i| e_i exactly, with one e_i per row and unit of the output.
    A layer that is called many times, as in a recurrence, has the same mask in all its calls (Gal & Ghahramani 2016,
    https://arxiv.org/abs/1512.05287).
    """

    def __init__(self, guide: Dropout, parameters: Matrices, key: jax.Array, fn: Any = None) -> None:
        self.guide, self.parameters = guide, parameters
        super().__init__(key, fn)

    def answer(
        self, layer: str, function: LinearMap, x: jax.Array, weight: jax.Array, bias: jax.Array | None = None
    ) -> jax.Array | None:
        """(x_i * z_i) M + b, with the noise."""
        name = f"{layer}.weight"
        if name not in self.parameters.matrices:
            return None
        guide, matrix = self.guide, self.parameters.matrices[name]
        mask_key, noise_key = jax.random.split(self.key_of(layer))
        shape = (len(x), matrix.shape[-2]) if guide.per == "unit" else (len(x), *matrix.shape)
        mask = guide.mask(self.parameters, name, mask_key, shape, guide.rate == "learn")
        if guide.per == "unit":
            output = function.scaled(x, mask, matrix)
        else:
            output = function.by_row(x, jnp.broadcast_to(mask, shape) * matrix)
        if guide.sigma:
            length = jnp.sqrt(jnp.sum(jnp.square(x), axis=-1, keepdims=True) + _TINY)
            output = output + guide.sigma * length * jax.random.normal(noise_key, output.shape, output.dtype)
        return output if bias is None else output + bias


def _is_one(keep: Any) -> bool:
    return isinstance(keep, float) and keep == 1.0


def _rates(rate: Any) -> Any:
    """The rate as a number, the word "learn", or pairs of layers and numbers, which can be hashed."""
    if isinstance(rate, str):
        one_of("svi: rate", rate, ("learn",))
        return rate
    if isinstance(rate, Mapping | tuple | list):
        return tuple(sorted((str(layer), _number(f"rate of '{layer}'", each)) for layer, each in _pairs(rate)))
    return _number("rate", rate)


def _pairs(rate: Any) -> list[Any]:
    pairs = list(rate.items() if isinstance(rate, Mapping) else rate)
    if not pairs or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError(
            'svi: rate must be a number, "learn", or a mapping such as {"hidden0": 0.0, "default": 0.1}, got '
            + repr(rate)
        )
    return pairs


def _number(what: str, rate: Any) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.number) or not 0 <= rate < 1:
        raise ValueError(
            f"svi: {what} must be a number, at least 0 and below 1, got {rate!r}; it is the probability to drop, and "
            'rate="learn" learns all'
        )
    return float(rate)
