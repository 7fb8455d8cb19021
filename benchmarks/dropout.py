"""How fast are MC dropout's training and its prediction, against loops by hand and PyTorch?

A 1x50 relu network on 1,000 rows of 8 inputs. Training drops inputs of both layers at rate 0.1 with a mask per example,
in batches of 128 that are slices of one permutation an epoch. Prediction makes 1,000 passes at 1,000 points. Ours has a
mask per pass, which is a whole set of weights, drawn when the fit ends; dropout as PyTorch has it draws one per pass
and point. Loops by hand are timed with both, and so is PyTorch, where it is installed; where the first layer drops
nothing they compute it once. Goals: training at least 0.85 of the speed of the loop by hand and 8 times that of
PyTorch's; prediction at least 2.2 times as fast as PyTorch's best with a mask per pass and point.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

import inference
import models
from benchmarks.timing import medians, slopes, table

__all__ = ["main"]

_ROWS, _INPUTS, _UNITS, _NOISE, _LEARNING_RATE = 1000, 8, 50, 0.3, 0.01
_BATCH = 128
_BATCHES = _ROWS // _BATCH  # of an epoch
_PASSES = 1000
_RATE = 0.1
_SHORT, _LONG = 100, 2100  # epochs of a fit
_FEWER_PYTORCH = 10  # so many times fewer epochs, because each takes that much longer
_REPEATS = 5
_MODEL = models.mlp((_UNITS,), "relu", likelihood=models.Gaussian(scale=_NOISE))
_OPTIONS: dict[str, Any] = dict(
    method="svi", guide="dropout", batch_size=_BATCH, learning_rate=_LEARNING_RATE, progress=False
)

Weights = tuple[jax.Array, ...]
Rates = tuple[float, float]


def _data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(_ROWS, _INPUTS)).astype(np.float32)
    return x, (np.sin(2 * x[:, 0]) + _NOISE * generator.normal(size=_ROWS)).astype(np.float32)


def _start() -> Weights:
    first_key, last_key = jax.random.split(jax.random.key(0))
    first = jax.random.normal(first_key, (_INPUTS, _UNITS)) / np.sqrt(_INPUTS)
    last = jax.random.normal(last_key, (_UNITS, 1)) / np.sqrt(_UNITS)
    return first, jnp.zeros(_UNITS), last, jnp.zeros(1)


def _dense(x: jax.Array, matrix: jax.Array, bias: jax.Array, rate: float, key: jax.Array, per: str) -> jax.Array:
    """A layer that drops its inputs, with a mask per "point" or per "pass"."""
    if rate == 0:
        return x @ matrix + bias
    if per == "pass":
        return x @ (jax.random.bernoulli(key, 1 - rate, (len(matrix), 1)) * matrix) + bias
    return (x * jax.random.bernoulli(key, 1 - rate, x.shape)) @ matrix + bias


@partial(jax.jit, static_argnames="epochs")
def _fit_by_hand(weights: Weights, x: jax.Array, y: jax.Array, key: jax.Array, epochs: int) -> Any:
    optimiser = optax.adam(optax.cosine_decay_schedule(_LEARNING_RATE, epochs * _BATCHES))

    def loss(weights: Weights, x: jax.Array, y: jax.Array, key: jax.Array) -> jax.Array:
        first_key, last_key = jax.random.split(key)
        hidden = jax.nn.relu(_dense(x, *weights[:2], _RATE, first_key, "point"))
        residual = (y - _dense(hidden, *weights[2:], _RATE, last_key, "point")[:, 0]) / _NOISE
        matrices, biases = (sum(jnp.sum(leaf**2) for leaf in leaves) for leaves in (weights[::2], weights[1::2]))
        return 0.5 * (_ROWS / _BATCH * jnp.sum(residual**2) + (1 - _RATE) * matrices + biases)

    def step(carry: Any, batch: Any) -> Any:
        weights, state = carry
        value, gradient = jax.value_and_grad(loss)(weights, *batch)
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(weights, updates), state), value

    def epoch(carry: Any, key: jax.Array) -> Any:
        order_key, key = jax.random.split(key)
        order = jax.random.permutation(order_key, _ROWS)[: _BATCHES * _BATCH]
        batches = x[order].reshape(_BATCHES, _BATCH, _INPUTS), y[order].reshape(_BATCHES, _BATCH)
        return lax.scan(step, carry, (*batches, jax.random.split(key, _BATCHES)))

    return lax.scan(epoch, (weights, optimiser.init(weights)), jax.random.split(key, epochs))


def _pytorch_network(torch: Any, rates: Rates = (_RATE, _RATE)) -> Any:
    nn = torch.nn
    layers = nn.Dropout(rates[0]), nn.Linear(_INPUTS, _UNITS), nn.ReLU(), nn.Dropout(rates[1]), nn.Linear(_UNITS, 1)
    return nn.Sequential(*layers)


def _pytorch_fit(torch: Any, x: np.ndarray, y: np.ndarray, fused: bool, epochs: int) -> int:
    network, all_x, all_y = _pytorch_network(torch), torch.from_numpy(x), torch.from_numpy(y)
    decay = _NOISE**2 / _ROWS
    optimiser = torch.optim.Adam(network.parameters(), _LEARNING_RATE, weight_decay=decay, fused=fused)
    for _ in range(epochs // _FEWER_PYTORCH):
        for rows in torch.randperm(_ROWS)[: _BATCHES * _BATCH].reshape(_BATCHES, _BATCH):
            optimiser.zero_grad()
            torch.nn.functional.mse_loss(network(all_x[rows])[:, 0], all_y[rows]).backward()
            optimiser.step()
    return epochs // _FEWER_PYTORCH * _BATCHES


def _training(torch: Any, x: np.ndarray, y: np.ndarray) -> dict[str, Callable[[int], int]]:
    arrays = _start(), jnp.asarray(x), jnp.asarray(y), jax.random.key(1)

    def ours(epochs: int) -> int:
        inference.run(_MODEL, x, y, rate=_RATE, steps=epochs * _BATCHES, draws=1, **_OPTIONS)
        return epochs * _BATCHES

    def by_hand(epochs: int) -> int:
        jax.block_until_ready(_fit_by_hand(*arrays, epochs))
        return epochs * _BATCHES

    cases = {"touchstone": ours, "hand-written": by_hand}
    if torch is not None:
        cases |= {
            "PyTorch": partial(_pytorch_fit, torch, x, y, False),
            "PyTorch, fused Adam": partial(_pytorch_fit, torch, x, y, True),
        }
    return cases


@partial(jax.jit, static_argnames=("rates", "per", "together"))
def _passes(weights: Weights, x: jax.Array, key: jax.Array, rates: Rates, per: str, together: bool) -> jax.Array:
    """Outputs (pass, point), all passes together or one after the other."""
    same = jax.nn.relu(x @ weights[0] + weights[1])

    def one(key: jax.Array) -> jax.Array:
        first_key, last_key = jax.random.split(key)
        hidden = jax.nn.relu(_dense(x, *weights[:2], rates[0], first_key, per)) if rates[0] else same
        return _dense(hidden, *weights[2:], rates[1], last_key, per)[:, 0]

    keys = jax.random.split(key, _PASSES)
    return jax.vmap(one)(keys) if together else lax.map(one, keys)


def _pytorch_passes(torch: Any, network: Any, x: np.ndarray, per: str, together: bool) -> np.ndarray:
    """Outputs (pass, point); a mask per pass is one on the rows of the matrices."""
    inputs, (drop, first, relu, drop_hidden, last) = torch.from_numpy(x), network
    with torch.no_grad():
        if per == "pass":
            matrices = [layer.weight.T for layer in (first, last)]
            masked = [torch.bernoulli(torch.full((_PASSES, len(m), 1), 1 - d.p)) * m if d.p else m[None]
                      for m, d in zip(matrices, (drop, drop_hidden), strict=True)]  # fmt: skip
            return (relu(inputs @ masked[0] + first.bias) @ masked[1] + last.bias)[..., 0].numpy()
        start, rest = (inputs, network) if drop.p else (relu(first(inputs)), network[3:])
        if together:
            return rest(start.expand(_PASSES, *start.shape))[..., 0].numpy()
        return torch.stack([rest(start)[:, 0] for _ in range(_PASSES)]).numpy()


def _prediction(torch: Any, x: np.ndarray, y: np.ndarray, rates: Rates) -> dict[str, Callable[[], object]]:
    rate = {"hidden0": rates[0], "output": rates[1]}
    posterior = inference.run(_MODEL, x, y, rate=rate, steps=700, draws=_PASSES, **_OPTIONS)
    arrays = _start(), jnp.asarray(x), jax.random.key(1)
    ways = {
        f"{'vmap' if together else 'lax.map'}, a mask per {per}": (per, together)
        for per in ("pass and point", "pass")
        for together in (False, True)
    }
    cases: dict[str, Callable[[], object]] = {"touchstone": lambda: posterior.predict(x).outputs}
    return cases


def main() -> None:
    """Print microseconds per step, milliseconds per prediction, and ratios."""


if __name__ == "__main__":
    main()
