"""How fast is a step of SGLD and SGHMC, against a step of minibatch Adam on the same target?

A 1x50 tanh network on 1,000 rows of 8 inputs with known noise, batches of 128, one chain. Adam is `method="map"`, and
an optax loop by hand on slices of one permutation an epoch; BlackJAX's SGLD runs in a scan with rows drawn with
replacement. Goal: at least 0.8 of the steps per second of Adam. Another figure is what one of four chains costs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

import inference
import models
from benchmarks.timing import slopes, table

__all__ = ["main"]

_ROWS, _INPUTS, _UNITS, _NOISE, _BATCH = 1000, 8, 50, 0.3, 128
_BATCHES = _ROWS // _BATCH
_SHAPES = ((_INPUTS, _UNITS), (_UNITS,), (_UNITS, 1), (1,))
_STEP, _THIN = 1e-6, 100
_SHORT, _LONG = 100, 2100  # epochs
_REPEATS = 5
_GOAL = 0.8
_MODEL = models.mlp((_UNITS,), "tanh", likelihood=models.Gaussian(scale=_NOISE))

Case = Callable[[int], int]


def _data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(_ROWS, _INPUTS)).astype(np.float32)
    return x, (np.sin(2 * x[:, 0]) + _NOISE * generator.normal(size=_ROWS)).astype(np.float32)


def _sampler(x: np.ndarray, y: np.ndarray, method: str, **options: Any) -> Case:
    chosen: dict[str, Any] = dict(chains=1, warmup=0, thin=_THIN, batch_size=_BATCH, start="random") | options

    def run(epochs: int) -> int:
        draws = epochs * _BATCHES // _THIN
        inference.run(_MODEL, x, y, method=method, draws=draws, step_size=_STEP, progress=False, **chosen)
        return draws * _THIN * chosen["chains"]

    return run


def _adam(x: np.ndarray, y: np.ndarray) -> Case:
    def run(epochs: int) -> int:
        steps = epochs * _BATCHES
        inference.run(_MODEL, x, y, method="map", steps=steps, batch_size=_BATCH, progress=False)
        return steps

    return run


def _log_density(weights: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    first, first_bias, last, last_bias = weights
    residual = (y - (jnp.tanh(x @ first + first_bias) @ last + last_bias)[:, 0]) / _NOISE
    prior = sum(jnp.sum(leaf**2) for leaf in weights)
    return -0.5 * _ROWS / _BATCH * jnp.sum(residual**2) - 0.5 * prior


def _weights() -> tuple[jax.Array, ...]:
    return tuple(0.3 * jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate(_SHAPES))


@partial(jax.jit, static_argnames="epochs")
def _adam_by_hand(weights: Any, x: jax.Array, y: jax.Array, epochs: int) -> Any:
    optimiser = optax.adam(optax.cosine_decay_schedule(0.01, epochs * _BATCHES))

    def step(carry: Any, batch: Any) -> Any:
        weights, state = carry
        value, gradient = jax.value_and_grad(lambda w: -_log_density(w, *batch))(weights)
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(weights, updates), state), value

    def epoch(carry: Any, key: jax.Array) -> Any:
        order = jax.random.permutation(key, _ROWS)[: _BATCHES * _BATCH]
        batches = x[order].reshape(_BATCHES, _BATCH, _INPUTS), y[order].reshape(_BATCHES, _BATCH)
        return lax.scan(step, carry, batches)

    return lax.scan(epoch, (weights, optimiser.init(weights)), jax.random.split(jax.random.key(0), epochs))


@partial(jax.jit, static_argnames="epochs")
def _blackjax_sgld(weights: Any, x: jax.Array, y: jax.Array, epochs: int) -> Any:
    kernel = blackjax.sgld(lambda weights, rows: jax.grad(_log_density)(weights, x[rows], y[rows]))

    def step(weights: Any, key: jax.Array) -> Any:
        rows_key, key = jax.random.split(key)
        rows = jax.random.randint(rows_key, (_BATCH,), 0, _ROWS)
        return kernel.step(key, weights, rows, _STEP), None

    return lax.scan(step, weights, jax.random.split(jax.random.key(0), epochs * _BATCHES))


def _by_hand(function: Any, x: np.ndarray, y: np.ndarray) -> Case:
    def run(epochs: int) -> int:
        jax.block_until_ready(function(_weights(), jnp.asarray(x), jnp.asarray(y), epochs))
        return epochs * _BATCHES

    return run


def main() -> None:
    """Print microseconds per step, and Adam's over ours."""
    x, y = _data()
    cases: dict[str, Case] = {
        "touchstone, sgld": _sampler(x, y, "sgld"),
        "touchstone, sghmc": _sampler(x, y, "sghmc"),
        "touchstone, sgld, 4 chains, per chain": _sampler(x, y, "sgld", chains=4),
        "touchstone, map": _adam(x, y),
        "Adam by hand": _by_hand(_adam_by_hand, x, y),
        "BlackJAX, sgld": _by_hand(_blackjax_sgld, x, y),
    }
    micros = {name: 1e6 * slope for name, (slope, _) in slopes(cases, _SHORT, _LONG, _REPEATS).items()}
    ours = micros["touchstone, sgld"]
    rows = [(name, f"{each:.1f}", f"{each / ours:.2f}") for name, each in micros.items()]
    table([("", "us per step", "of ours"), *rows])
    for adam in ("touchstone, map", "Adam by hand"):
        print(f"SGLD's steps per second over those of {adam}: {micros[adam] / ours:.2f} (goal {_GOAL})")


if __name__ == "__main__":
    main()
