"""What do many chains cost in one program, against hand-written vmaps, BlackJAX's, and our own threads?

A 1x50 tanh network on 1,000 rows of 8 inputs, HMC with trajectories of 100 leapfrog steps, float32. Goals: 64 chains in
one program at least 0.8 times as fast as a hand-written vmap of the same trajectories, and 4 chains at least as fast as
BlackJAX's vmapped chains. An accelerator is what one program is for; on a CPU threads are the default.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import inference
import models
from benchmarks.timing import slopes, table

__all__ = ["main"]

_STEPS, _STEP, _NOISE = 100, 0.01, 0.8
_ROWS, _INPUTS, _UNITS = 1000, 8, 50

Weights = dict[str, jax.Array]


def _data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(_ROWS, _INPUTS)).astype(np.float32)
    return x, (np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]).astype(np.float32)


def _log_density(weights: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
    hidden = jnp.tanh(x @ weights["first"] + weights["first_bias"])
    output = (hidden @ weights["last"])[:, 0] + weights["last_bias"]
    return -0.5 * jnp.sum((output - y) ** 2) / _NOISE**2 - 0.5 * sum(jnp.sum(leaf**2) for leaf in weights.values())


def _starts(chains: int) -> Weights:
    keys = jax.random.split(jax.random.key(0), 2)
    return {
        "first": jax.random.normal(keys[0], (chains, _INPUTS, _UNITS)) / np.sqrt(_INPUTS),
        "first_bias": jnp.zeros((chains, _UNITS)),
        "last": jax.random.normal(keys[1], (chains, _UNITS, 1)) / np.sqrt(_UNITS),
        "last_bias": jnp.zeros((chains, 1)),
    }


@jax.jit
def _by_hand(starts: Weights, x: jax.Array, y: jax.Array, keys: jax.Array, draws: jax.Array) -> Weights:
    """Trajectories with a Metropolis step, of all chains in one vmap."""
    density = jax.value_and_grad(_log_density)

    def one(position: Weights, key: jax.Array) -> Weights:
        def draw(i: jax.Array, position: Weights) -> Weights:
            momentum_key, accept_key = jax.random.split(jax.random.fold_in(key, i))
            momenta = jax.random.split(momentum_key, len(position))
            momentum = {
                name: jax.random.normal(k, leaf.shape)
                for k, (name, leaf) in zip(momenta, position.items(), strict=True)
            }
            value, gradient = density(position, x, y)
            energy = 0.5 * sum(jnp.sum(p**2) for p in momentum.values()) - value

            def leapfrog(_: Any, carry: tuple[Weights, Weights, Weights, jax.Array]) -> Any:
                u, p, g, _ = carry
                p = jax.tree.map(lambda p, g: p + 0.5 * _STEP * g, p, g)
                u = jax.tree.map(lambda u, p: u + _STEP * p, u, p)
                value, g = density(u, x, y)
                return u, jax.tree.map(lambda p, g: p + 0.5 * _STEP * g, p, g), g, value

            new, p, _, value = lax.fori_loop(0, _STEPS, leapfrog, (position, momentum, gradient, value))
            new_energy = 0.5 * sum(jnp.sum(each**2) for each in p.values()) - value
            accepted = jnp.log(jax.random.uniform(accept_key)) < energy - new_energy
            return jax.tree.map(lambda n, o: jnp.where(accepted, n, o), new, position)

        return lax.fori_loop(0, draws, draw, position)

    return jax.vmap(one)(starts, keys)


def _cases(chains: int) -> dict[str, Callable[[int], int]]:
    x, y = _data()
    model = models.mlp((_UNITS,), "tanh", likelihood=models.Gaussian(scale=_NOISE))
    device_x, device_y, starts = jnp.asarray(x), jnp.asarray(y), _starts(chains)
    options: dict[str, Any] = dict(
        chains=chains, warmup=0, step_size=_STEP, trajectory_length=_STEP * _STEPS, jitter=0.0, start="random"
    )

    def ours(arrangement: str, draws: int) -> int:
        run = inference.run(
            model, x, y, method="hmc", draws=draws, progress=False, arrangement=arrangement, **options
        )  # fmt: skip
        return run.cost.gradients

    def by_hand(draws: int) -> int:
        keys = jax.random.split(jax.random.key(1), chains)
        jax.block_until_ready(_by_hand(starts, device_x, device_y, keys, draws))
        return chains * draws * _STEPS

    size = sum(leaf[0].size for leaf in starts.values())
    kernel = blackjax.hmc(partial(_log_density, x=device_x, y=device_y), _STEP, jnp.ones(size), _STEPS)

    @jax.jit
    def blackjax_chains(keys: jax.Array, draws: jax.Array) -> Any:
        def one(key: jax.Array, start: Weights) -> Any:
            return lax.fori_loop(
                0, draws, lambda i, state: kernel.step(jax.random.fold_in(key, i), state)[0], kernel.init(start)
            )

        return jax.vmap(one)(keys, starts)

    def blackjax_vmap(draws: int) -> int:
        jax.block_until_ready(blackjax_chains(jax.random.split(jax.random.key(1), chains), draws))
        return chains * draws * _STEPS

    return {
        "touchstone, vectorised": partial(ours, "vectorised"),
        "touchstone, threads": partial(ours, "threads"),
        "hand-written vmap": by_hand,
        "BlackJAX, vmap": blackjax_vmap,
    }


def main() -> None:
    """Print microseconds per gradient and chain, and ratios."""
    for chains, short, long, peer, goal in ((4, 10, 60, "BlackJAX, vmap", 1.0), (64, 1, 4, "hand-written vmap", 0.8)):
        found = slopes(_cases(chains), short, long)
        ours = found["touchstone, vectorised"][0]
        rows = [(f"{chains} chains", "us per gradient and chain", "speed of touchstone, vectorised, over this")]
        rows += [(name, f"{slope * 1e6:.1f}", f"{slope / ours:.2f}") for name, (slope, _) in found.items()]
        table(rows)
        print(f"against {peer}: {found[peer][0] / ours:.2f} (goal: at least {goal:g})\n")


if __name__ == "__main__":
    main()
