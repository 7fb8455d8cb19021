"""What does a gradient inside HMC cost, against hand-written loops, BlackJAX and NumPyro?

Four chains of a 1x50 tanh network on 1,000 rows of 8 inputs, a fixed number of leapfrog steps, float32. Goals: at most
1.25 times the fastest hand-written arrangement, at least 1.5 times as fast as BlackJAX's vmapped chains, not slower
than NumPyro's parallel chains in steady state, and a second call that costs less than 0.3 s beyond its gradients.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import lax
from numpyro.infer import HMC, MCMC

import inference
import models
from benchmarks.timing import slopes, table

__all__ = ["main"]

_CHAINS, _STEPS, _NOISE = 4, 100, 0.8
_STEP = 0.01
_ROWS, _INPUTS, _UNITS = 1000, 8, 50

Weights = tuple[jax.Array, ...]


def _data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(_ROWS, _INPUTS)).astype(np.float32)
    return x, (np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]).astype(np.float32)


def _log_density(weights: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
    first, first_bias, last, last_bias = weights
    output = jnp.tanh(x @ first + first_bias) @ last + last_bias
    prior = sum(jnp.sum(leaf**2) for leaf in weights)
    return -0.5 * jnp.sum((output[:, 0] - y) ** 2) / _NOISE**2 - 0.5 * prior


def _features_first(weights: Weights, x: jax.Array, y: jax.Array) -> Weights:
    """The gradient, by hand, of chains folded into one product, with the rows along the last axis."""
    first, first_bias, last, last_bias = weights  # (chain, units, inputs), (chain, units), (chain, units), (chain,)
    hidden = jnp.tanh(jnp.einsum("cui,in->cun", first, x) + first_bias[..., None])
    residual = (y - jnp.einsum("cu,cun->cn", last, hidden) - last_bias[:, None]) / _NOISE**2
    back = last[..., None] * residual[:, None] * (1 - hidden**2)
    return (
        jnp.einsum("cun,in->cui", back, x) - first,
        back.sum(-1) - first_bias,
        jnp.einsum("cn,cun->cu", residual, hidden) - last,
        residual.sum(-1) - last_bias,
    )


def _trajectories(gradient: Callable[..., Weights]) -> Callable[..., Weights]:
    """Leapfrog trajectories one after the other, each from a new momentum; the Metropolis step costs nothing here."""

    def run(weights: Weights, x: jax.Array, y: jax.Array, key: jax.Array, draws: jax.Array) -> Weights:
        def leapfrog(_: Any, carry: tuple[Weights, Weights]) -> tuple[Weights, Weights]:
            position, momentum = carry
            position = jax.tree.map(lambda u, p: u + _STEP * p, position, momentum)
            return position, jax.tree.map(lambda p, g: p + _STEP * g, momentum, gradient(position, x, y))

        def draw(i: jax.Array, position: Weights) -> Weights:
            keys = jax.random.split(jax.random.fold_in(key, i), len(position))
            momentum = tuple(jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, position, strict=True))
            return lax.fori_loop(0, _STEPS, leapfrog, (position, momentum))[0]

        return lax.fori_loop(0, draws, draw, weights)

    return jax.jit(run)


def _in_threads(work: Callable[[int], Any], threads: int) -> None:
    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _cases(x: np.ndarray, y: np.ndarray) -> dict[str, Callable[[int], int]]:
    model = models.mlp((_UNITS,), "tanh", likelihood=models.Gaussian(scale=_NOISE))
    device_x, device_y, transposed = jnp.asarray(x), jnp.asarray(y), jnp.asarray(x.T.copy())
    keys = jax.random.split(jax.random.key(0), 4)
    start = (
        jax.random.normal(keys[0], (_INPUTS, _UNITS)) / np.sqrt(_INPUTS),
        jnp.zeros(_UNITS),
        jax.random.normal(keys[1], (_UNITS, 1)) / np.sqrt(_UNITS),
        jnp.zeros(1),
    )
    by_hand = _trajectories(jax.grad(_log_density))
    folded = _trajectories(_features_first)
    pair = (
        jnp.stack([start[0].T] * 2), jnp.stack([start[1]] * 2), jnp.stack([start[2][:, 0]] * 2), jnp.zeros(2)
    )  # fmt: skip
    options: dict[str, Any] = dict(
        chains=_CHAINS, warmup=0, step_size=_STEP, trajectory_length=_STEP * _STEPS, jitter=0.0, start="random"
    )

    def ours(draws: int) -> int:
        posterior = inference.run(model, x, y, method="hmc", draws=draws, progress=False, **options)
        return posterior.cost.gradients

    def threads(draws: int) -> int:
        def work(i: int) -> None:
            for j in range(_CHAINS // 2):
                key = jax.random.key(2 * i + j)
                jax.block_until_ready(by_hand(start, device_x, device_y, key, draws))

        _in_threads(work, 2)
        return _CHAINS * draws * _STEPS

    def features(draws: int) -> int:
        _in_threads(lambda i: jax.block_until_ready(folded(pair, transposed, device_y, jax.random.key(i), draws)), 2)
        return _CHAINS * draws * _STEPS

    kernel = blackjax.hmc(
        partial(_log_density, x=device_x, y=device_y), _STEP, jnp.ones(sum(leaf.size for leaf in start)), _STEPS
    )

    @jax.jit
    def blackjax_chains(key: jax.Array, draws: jax.Array) -> Any:
        def one(key: jax.Array) -> Any:
            return lax.fori_loop(
                0, draws, lambda i, state: kernel.step(jax.random.fold_in(key, i), state)[0], kernel.init(start)
            )

        return jax.vmap(one)(jax.random.split(key, _CHAINS))

    def vmapped(draws: int) -> int:
        jax.block_until_ready(blackjax_chains(jax.random.key(0), draws))
        return _CHAINS * draws * _STEPS

    samplers: dict[int, MCMC] = {}

    def numpyro_parallel(draws: int) -> int:
        if draws not in samplers:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                settings = dict(adapt_step_size=False, adapt_mass_matrix=False, trajectory_length=_STEP * _STEPS)
                kernel = HMC(model, step_size=_STEP, **settings)
                samplers[draws] = MCMC(
                    kernel, num_warmup=0, num_samples=draws, num_chains=_CHAINS, chain_method="parallel",
                    progress_bar=False,
                )  # fmt: skip
        samplers[draws].run(jax.random.key(0), x, y)
        jax.block_until_ready(samplers[draws].get_samples())
        return _CHAINS * draws * _STEPS

    return {
        "touchstone": ours,
        "hand-written, two threads": threads,
        "hand-written, two threads, features first": features,
        "BlackJAX, vmap": vmapped,
        "NumPyro, parallel": numpyro_parallel,
    }


def main() -> None:
    """Print microseconds per gradient and chain, ratios, and what a call costs by itself."""
    numpyro.set_host_device_count(_CHAINS)
    found = slopes(_cases(*_data()), 20, 120)
    ours = found["touchstone"][0]
    rows = [("", "us per gradient", "touchstone / this", "s beyond the gradients, second call")]
    for name, (slope, call) in found.items():
        rows.append((name, f"{slope * 1e6:.1f}", f"{ours / slope:.2f}", f"{call:.2f}"))
    table(rows)
    best = min(slope for name, (slope, _) in found.items() if "hand" in name)
    print(f"against the fastest by hand: {ours / best:.2f} (goal: at most 1.25)")
    print(f"faster than BlackJAX's vmap: {found['BlackJAX, vmap'][0] / ours:.2f} times (goal: at least 1.5)")
    print(f"against NumPyro's parallel chains: {ours / found['NumPyro, parallel'][0]:.2f} (goal: at most 1)")
    print(f"a second call beyond its gradients: {found['touchstone'][1]:.2f} s (goal: below 0.3)")


if __name__ == "__main__":
    main()
