"""How precise must the arithmetic of HMC be: its energies, and the products in its gradients?

**Energies.** The error of a difference of two energies, over pairs of positions near each other: a linear model of
200,000 rows with outliers, whose energy is 4 10^7, and a network of 50,000 rows with classes. Float32 sums are compared
with those that subtract first, with sums in pairs of float32 (Knuth's exact sum of two, over a tree), and with a
network whose layers alone are in float32, see `models.float32_layers`. Pairs leave nothing of the error of a sum, if
the compiler does not simplify them away, which the last row shows; nothing helps against the error of each term.

**Products.** Accelerators round the factors of products to fewer bits unless they are told not to, see
`inference.host.arithmetic`. Here factors are rounded likewise, in the gradients alone, and the energies are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpyro.infer import log_likelihood

import inference
import models
from benchmarks.timing import table
from inference.mcmc import leapfrog
from inference.target.binding import bind
from inference.target.density import Data, Target
from inference.target.vectors import Flattened, as_vector
from models.effects import Messenger
from models.float32_layers import with_float32_layers

__all__ = ["main"]

_POSITIONS = 60
_TRAJECTORIES, _LENGTH = 40, 0.5
_BITS = {"float32, 24": 23, "three bfloat16, 16": 15, "TensorFloat-32, 11": 10, "bfloat16, 8": 7}  # without the first
Sites = dict[str, jax.Array]


def _outliers() -> tuple[Any, np.ndarray, np.ndarray, float]:
    """A linear model, its data and the width of its posterior."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200_000, 4)).astype(np.float32)
    noise = np.clip(generator.standard_t(1.5, size=len(x)), -300, 300)
    y = (x @ np.array([1.0, -0.5, 0.3, 0.0]) + noise).astype(np.float32)
    return models.linear(likelihood=models.Gaussian(scale=0.35)), x, y, 0.35 / np.sqrt(len(x))


def _classes() -> tuple[Any, np.ndarray, np.ndarray, float]:
    """A network with classes, its data and a distance over which the energy changes by some nats."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(50_000, 8)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int32) + (x[:, 1] * x[:, 2] > 0)
    return models.mlp((50, 50), "tanh", likelihood=models.Categorical(3)), x, y, 1e-3


def _two_sum(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """a + b rounded, and what rounding lost (Knuth, The Art of Computer Programming, volume 2, 4.2.2)."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def _in_pairs(terms: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The sum as a pair of float32, by a tree."""
    size = 1 << (terms.size - 1).bit_length()
    high, low = jnp.pad(terms, (0, size - terms.size)), jnp.zeros(size, terms.dtype)
    while size > 1:
        size //= 2
        total, lost = _two_sum(high[:size], high[size:])
        lost = lost + low[:size] + low[size:]
        high = total + lost
        low = lost - (high - total)
    return high[0], low[0]


def _errors(model: Any, x: np.ndarray, y: np.ndarray, width: float) -> tuple[float, dict[str, float]]:
    """The size of an energy, and the error of a difference by each arithmetic, and of pairs as sums of their terms."""
    target, data = bind(model, (x, y), 1.0, "posterior")[:2]
    generator = np.random.default_rng(1)
    start = target.start(jax.random.key(0), data)[0]
    if "output.bias" in start and len(start) == 2:  # where the outliers are about
        start = {"output.weight": jnp.asarray([[1.0], [-0.5], [0.3], [0.0]]), "output.bias": jnp.zeros(1)}
    places = {name: leaf + width * generator.normal(size=(_POSITIONS, *leaf.shape)) for name, leaf in start.items()}
    places = jax.tree.map(lambda leaf: leaf.astype(np.float32), places)

    def each(function: Callable[[Sites], Any], wide: bool = False) -> Any:
        with jax.enable_x64(wide):
            kind = jnp.float64 if wide else jnp.float32
            mapped = jax.jit(lambda places: lax.map(function, jax.tree.map(lambda leaf: leaf.astype(kind), places)))
            return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), mapped(places))

    def likelihood(target: Target) -> Callable[[Sites], jax.Array]:
        return lambda position: target.terms(position, data).log_likelihood

    def terms(position: Sites) -> jax.Array:
        return log_likelihood(model, jax.tree.map(lambda leaf: leaf[None], position), x, y)["y"][0]

    exact = each(likelihood(target), wide=True)
    high, low = each(lambda position: _in_pairs(terms(position)))
    first = jax.jit(terms)(jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), places))
    values = {
        "float32": each(likelihood(target)),
        "float32, subtracted, then summed": each(lambda position: jnp.sum(terms(position) - first)),
        "float32, summed in pairs": high + low,
        "layers alone in float32": each(likelihood(replace(target, model=with_float32_layers(model))), wide=True),
    }
    found = {}
    for name, value in values.items():
        error = (value - value[0]) - (exact - exact[0])
        found[name] = float(np.sqrt(np.mean(error[1:] ** 2)))
    of_terms = np.array([np.asarray(each_row, np.float64).sum() for each_row in lax.map(terms, places)])
    found["pairs, as sums"] = float(np.abs(high + low - of_terms).max())
    return float(np.abs(exact[0])), found


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product(x: jax.Array, weight: jax.Array, bits: int) -> jax.Array:
    """The product of factors that are rounded, with a gradient made of such products too."""
    return _rounded(x, bits) @ _rounded(weight, bits)


def _rounded(x: jax.Array, bits: int) -> jax.Array:
    return lax.reduce_precision(x, exponent_bits=8, mantissa_bits=bits)


def _forward(x: jax.Array, weight: jax.Array, bits: int) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return _product(x, weight, bits), (x, weight)


def _backward(bits: int, factors: tuple[jax.Array, jax.Array], slope: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, weight = factors
    return _product(slope, weight.T, bits), _product(x.T, slope, bits)


_product.defvjp(_forward, _backward)


class _Products(Messenger):
    """A handler that rounds the factors of what layers multiply."""

    def __init__(self, fn: Any, bits: int) -> None:
        super().__init__(fn)
        self._bits = bits

    def process_message(self, message: dict[str, Any]) -> None:
        """Replace a dense layer's product."""
        if message["type"] == "layer":
            x, weight, bias = message["args"]
            message["value"] = _product(x, weight, self._bits) + bias


@dataclass(frozen=True)
class _Coarse:
    """A network with rounded factors, as a model."""

    model: Any
    bits: int

    def __call__(self, *args: Any) -> None:
        _Products(self.model, self.bits)(*args)


def _trajectories(model: Any, x: np.ndarray, y: np.ndarray) -> Callable[[int, float], tuple[float, float]]:
    """Gives the error of the energy and the acceptance of trajectories, by the bits of factors and the step size."""
    draws = inference.run(
        model, x, y, method="hmc", chains=1, draws=_TRAJECTORIES, trajectory_length=_LENGTH, progress=False
    ).draws
    target, data = bind(model, (x, y), 1.0, "posterior")[:2]
    data = jax.device_put(data)
    positions = jax.vmap(as_vector)({name: jnp.asarray(draws[name][0]) for name in target.position(data)})
    momenta = jax.random.normal(jax.random.key(1), positions.shape)
    ones = jnp.ones_like(positions[0])

    @partial(jax.jit, static_argnums=0)
    def errors(coarse: Flattened, data: Data, step_size: jax.Array, steps: jax.Array) -> jax.Array:
        exact = Flattened.of(target, data)

        def error(start: tuple[jax.Array, jax.Array]) -> jax.Array:
            position, momentum = start
            gradient = jax.grad(coarse.log_density)(position, data)
            path = leapfrog.launch(position, gradient, momentum, ones, step_size, steps, step_size)
            path = lax.fori_loop(0, steps, lambda _, path: leapfrog.leapfrog(coarse, data, ones, path), path)
            ends = leapfrog.kinetic(leapfrog.land(path, ones)), exact.exact_log_density(path.position, data)
            before = path.kinetic, exact.exact_log_density(position, data)
            with jax.enable_x64(True):
                return (ends[0] - ends[1]) - (before[0] - before[1])

        return lax.map(error, (positions, momenta))

    def measure(bits: int, step_size: float) -> tuple[float, float]:
        coarse = Flattened.of(replace(target, model=_Coarse(model, bits)), data)
        found = np.asarray(errors(coarse, data, jnp.float32(step_size), jnp.int32(round(_LENGTH / step_size))))
        return float(np.sqrt(np.mean(found**2))), float(np.exp(-np.maximum(found, 0)).mean())

    return measure


def main() -> None:
    """Print both tables."""
    cases = {"outliers": _errors(*_outliers()), "classes": _errors(*_classes())}
    rows: list[tuple[str, ...]] = [("error of a difference of energies (nat)", *cases)]
    rows.append(("size of an energy", *(f"{size:.2g}" for size, _ in cases.values())))
    for name in cases["outliers"][1]:
        rows.append((name, *(f"{found[name]:.2g}" for _, found in cases.values())))
    table(rows)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(1000, 8)).astype(np.float32)
    y = (np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]).astype(np.float32)
    model = models.mlp((50, 50), "tanh", prior=models.Normal(1.0, fan_in=True), likelihood=models.Gaussian(scale=0.2))
    measure = _trajectories(model, x, y)
    print()
    rows = [("bits of the factors", "step size", "error of a trajectory's energy (nat)", "acceptance")]
    for step_size in (0.005, 0.001):
        for name, bits in _BITS.items():
            error, acceptance = measure(bits, step_size)
            rows.append((name, f"{step_size:g}", f"{error:.2g}", f"{acceptance:.3f}"))
    table(rows)


if __name__ == "__main__":
    main()
