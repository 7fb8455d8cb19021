"""Long reference runs by an independent sampler: BlackJAX's NUTS in float64, on densities written out by hand.

Nothing of this project is imported. `make references` writes `moments.json` anew: for each quantity of each posterior
its mean and the Monte Carlo error of that mean. It takes a few minutes.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import arviz as az
import blackjax
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

CHAINS, WARMUP, DRAWS, THIN = 4, 2000, 30_000, 2


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fifty rows, and five inputs at which functions are compared; `test_references.py` has the same."""
    generator = np.random.default_rng(11)
    x = generator.uniform(-2, 2, (50, 2))
    y = np.sin(1.5 * x[:, 0]) - 0.5 * x[:, 1] + 0.4 * generator.normal(size=50)
    return x.astype(np.float32), y.astype(np.float32), generator.uniform(-3, 3, (5, 2)).astype(np.float32)


def output(w: jax.Array, x: jax.Array) -> jax.Array:
    """Two inputs, three tanh units, one output: 13 weights."""
    hidden = jnp.tanh(x @ w[:6].reshape(2, 3) + w[6:9])
    return hidden @ w[9:12] + w[12]


def network(u: jax.Array) -> tuple[jax.Array, jax.Array]:
    """w ~ N(0, 1), noise ~ HalfNormal(1), y ~ N(f, noise^2); u holds w and the log of the noise."""
    x, y, places = data()
    w, log_noise = u[:13], u[13]
    noise = jnp.exp(log_noise)
    log_likelihood = -0.5 * jnp.sum((y - output(w, x)) ** 2) / noise**2 - len(y) * (log_noise + 0.5 * np.log(2 * np.pi))
    log_prior = -0.5 * jnp.sum(w**2) - 13 * 0.5 * np.log(2 * np.pi)
    log_prior += -0.5 * noise**2 + 0.5 * np.log(2 / np.pi)
    functions = output(w, places)
    return log_likelihood + log_prior + log_noise, _quantities(functions, w, log_likelihood, noise)


def classifier(w: jax.Array) -> tuple[jax.Array, jax.Array]:
    """w ~ Laplace(0, 0.7), y ~ Bernoulli(sigmoid(f)), at temperature 0.5 of the likelihood."""
    x, y, places = data()
    logits, label = output(w, x), y > 0
    log_likelihood = jnp.sum(jnp.where(label, -jnp.logaddexp(0, -logits), -jnp.logaddexp(0, logits)))
    log_prior = jnp.sum(-jnp.abs(w) / 0.7 - np.log(1.4))
    functions = jax.nn.sigmoid(output(w, places))
    return log_likelihood / 0.5 + log_prior, _quantities(functions, w, log_likelihood, jnp.array(1.0))


def _quantities(functions: jax.Array, w: jax.Array, log_likelihood: jax.Array, noise: jax.Array) -> jax.Array:
    """Means and second moments of the functions, and two that see all weights."""
    others = jnp.stack([jnp.sum(w**2), log_likelihood, noise])
    return jnp.concatenate([functions, functions**2, others])


NAMES = [f"f{i}" for i in range(5)] + [f"f{i}^2" for i in range(5)] + ["|w|^2", "log_likelihood", "noise"]
SIZES = {"network": (network, 14), "classifier": (classifier, 13)}


@partial(jax.jit, static_argnames=("name",))
def chain(name: str, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    density, size = SIZES[name]
    start_key, warm_key, run_key = jax.random.split(key, 3)

    def log_density(u: jax.Array) -> jax.Array:
        return density(u)[0]

    warm = blackjax.window_adaptation(blackjax.nuts, log_density, target_acceptance_rate=0.95)
    (state, parameters), _ = warm.run(warm_key, jax.random.normal(start_key, (size,)), WARMUP)
    kernel = blackjax.nuts(log_density, **parameters).step

    def step(state, keys):
        def inner(state, key):
            state, info = kernel(key, state)
            return state, info.is_divergent

        state, divergent = jax.lax.scan(inner, state, keys)
        return state, (density(state.position)[1], divergent.any())

    keys = jax.random.split(run_key, (DRAWS // THIN, THIN))
    return jax.lax.scan(step, state, keys)[1]


def main() -> None:
    """Run all, check that they can serve as references, and write the file."""
    moments = {}
    for name in SIZES:
        runs = [chain(name, jax.random.fold_in(jax.random.key(2024), i)) for i in range(CHAINS)]
        draws = np.stack([np.asarray(quantities) for quantities, _ in runs])
        divergent = int(sum(int(each.sum()) for _, each in runs))
        dataset = az.convert_to_dataset({"q": draws})
        moving = draws.std(axis=(0, 1)) > 0
        rhat = float(az.rhat(dataset)["q"].values[moving].max())
        ess = float(az.ess(dataset)["q"].values[moving].min())
        print(f"{name}: R-hat {rhat:.4f}, least ESS {ess:.0f}, {divergent} divergent", flush=True)
        assert rhat < 1.01, "the chains have not mixed"
        assert ess > 2000, "too few effective draws"
        mcse = np.where(moving, az.mcse(dataset)["q"].values, 0.0)
        moments[name] = {
            quantity: {"mean": float(mean), "mcse": float(error)}
            for quantity, mean, error in zip(NAMES, draws.mean(axis=(0, 1)), mcse, strict=True)
        }
    Path(__file__).with_name("moments.json").write_text(json.dumps(moments, indent=1) + "\n")


if __name__ == "__main__":
    main()
