"""What do compensated sums cost along a trajectory, against plain ones?

The leapfrog integrator on an 8-10-1 network and on a 1x50 network of 1,000 rows, 20,000 steps each. Goal: at most 25 %
more time.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import models
from benchmarks.timing import medians, table
from inference.mcmc import leapfrog
from inference.target.binding import bind
from inference.target.vectors import Flattened, as_vector

__all__ = ["main"]

_STEPS = 20_000


def _case(units: int, rows: int, compensated: bool) -> Callable[[], object]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 8)).astype(np.float32)
    model = models.mlp((units,), "tanh", likelihood=models.Gaussian(scale=0.5))
    target, data = bind(model, (x, np.sin(x[:, 0])), 1.0, "posterior")[:2]
    position = as_vector(target.start(jax.random.key(0), data)[0])
    flat, ones = Flattened.of(target, data), jnp.ones_like(position)

    def run(position: jax.Array) -> leapfrog.Path:
        gradient = jax.grad(flat.log_density)(position, data)
        number = jnp.float32(1e-4)
        path = leapfrog.launch(position, gradient, ones, ones, number, jnp.int32(_STEPS), number)
        return jax.lax.fori_loop(0, _STEPS, lambda _, path: leapfrog.leapfrog(flat, data, ones, path), path)

    add = leapfrog._add
    if not compensated:
        leapfrog._add = lambda total, rounding, increment: (total + increment, rounding)
    try:
        compiled = jax.jit(run).lower(position).compile()
    finally:
        leapfrog._add = add
    return lambda: jax.block_until_ready(compiled(position))


def main() -> None:
    """Print seconds and what compensation adds."""
    sizes = {"8-10-1, 200 rows": (10, 200), "8-50-1, 1,000 rows": (50, 1000)}
    rows: list[tuple[str, ...]] = [("", "plain s", "compensated s", "more time (goal: at most 25 %)")]
    for name, size in sizes.items():
        found = medians({"plain": _case(*size, False), "compensated": _case(*size, True)})
        more = found["compensated"] / found["plain"] - 1
        rows.append((name, f"{found['plain']:.2f}", f"{found['compensated']:.2f}", f"{more:.0%}"))
    table(rows)


if __name__ == "__main__":
    main()
