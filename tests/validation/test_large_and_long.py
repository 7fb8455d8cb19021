"""Float32 where it is hard: energies of tens of millions of nats, and trajectories of a hundred thousand steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import HMC, MCMC

import inference
import models
from inference.host import arithmetic
from inference.mcmc import leapfrog
from inference.target.binding import bind
from inference.target.vectors import Flattened, as_vector


def _outliers() -> tuple[np.ndarray, np.ndarray]:
    """200,000 rows with heavy-tailed noise, which a normal likelihood meets with large energies."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200_000, 4)).astype(np.float32)
    noise = np.clip(generator.standard_t(1.5, size=200_000), -300, 300)
    return x, (x @ np.array([1.0, -0.5, 0.3, 0.0], np.float32) + noise).astype(np.float32)


@pytest.mark.parametrize("scale", [0.35, 0.05])
def test_acceptance_at_two_hundred_thousand_rows(scale, monkeypatch):
    x, y = _outliers()
    model = models.linear(likelihood=models.Gaussian(scale=scale))
    # The posterior's standard deviation is scale / sqrt(200,000) in each direction: a step is a quarter of that.
    steps = dict(step_size=scale / 1800, trajectory_length=scale / 250)
    options = dict(method="hmc", chains=1, draws=60, warmup=10, progress=False, **steps)
    narrow = inference.run(model, x, y, **options).statistics
    wide = inference.run(model, x, y, precision="float64", **options).statistics
    monkeypatch.setattr(arithmetic, "_platform", lambda: "tpu")  # then the layers stay in float32
    layers = inference.run(model, x, y, **options).statistics
    monkeypatch.undo()
    size = np.abs(narrow["lp"]).mean()
    peer = MCMC(
        HMC(model, **steps, adapt_step_size=False, adapt_mass_matrix=False),
        num_warmup=10, num_samples=60, progress_bar=False,
    )  # fmt: skip
    start = {"output.weight": jnp.asarray([[1.0], [-0.5], [0.3], [0.0]]), "output.bias": jnp.zeros(1)}
    peer.run(jax.random.key(0), x, y, init_params=start, extra_fields=("accept_prob",))
    theirs = float(peer.get_extra_fields()["accept_prob"].mean())
    rates = {
        name: float(each["acceptance_rate"].mean())
        for name, each in (("float32", narrow), ("float64", wide), ("float32 layers", layers))
    }
    print(f"|U| {size:.3g}; acceptance {rates}, NumPyro in float32 {theirs:.3f}")
    assert size > (3e7 if scale == 0.35 else 1e9)
    assert rates["float64"] > 0.97
    assert rates["float32"] > 0.97
    assert rates["float32 layers"] > 0.97
    assert np.sqrt(np.mean(layers["energy_noise"] ** 2)) < 0.05  # which a run would warn of
    assert theirs < (0.8 if scale == 0.35 else 0.2)  # or this case would be no test


def test_nuts_in_float32_says_that_it_should_not_be_trusted_there():
    x, y = _outliers()
    model = models.linear(likelihood=models.Gaussian(scale=0.35))
    with pytest.warns(UserWarning, match="rounding moves the energies"):
        posterior = inference.run(
            model, x, y, method="nuts", chains=1, draws=30, warmup=30, max_tree_depth=4, progress=False
        )
    assert np.sqrt(np.mean(posterior.statistics["energy_noise"] ** 2)) > 0.05


def _energy_error(precision: str, steps: int, length: float) -> float:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(200, 8)).astype(np.float32)
    y = np.sin(x[:, 0]).astype(np.float32)
    model = models.mlp((10,), "tanh", likelihood=models.Gaussian(scale=0.5))
    with jax.enable_x64(precision == "float64"):
        target, data = bind(model, (x, y), 1.0, "posterior")[:2]
        numbers = {
            name: generator.normal(size=(2, *shape)).astype(np.float32) for name, shape in model.weights(x).items()
        }
        position, momentum = (
            as_vector({name: jnp.asarray(each[i], precision) for name, each in numbers.items()}) for i in (0, 1)
        )
        target, scale = Flattened.of(target, data), jnp.ones_like(position)

        @jax.jit
        def run(position, momentum):
            gradient = jax.grad(target.log_density)(position, data)
            step_size = jnp.asarray(length / steps, precision)
            path = leapfrog.launch(position, gradient, momentum, scale, step_size, steps, jnp.zeros(()))
            path = jax.lax.fori_loop(0, steps, lambda _, path: leapfrog.leapfrog(target, data, scale, path), path)
            ends = leapfrog.kinetic(leapfrog.land(path, scale)), target.exact_log_density(path.position, data)
            return ends, (path.kinetic, target.exact_log_density(position, data))

        after, before = run(position, momentum)
    return (float(after[0]) - float(after[1])) - (float(before[0]) - float(before[1]))


@pytest.mark.parametrize("steps", [10_000, 100_000])
def test_rounding_of_long_trajectories(steps, monkeypatch):
    exact = _energy_error("float64", steps, 2.0)
    compensated = _energy_error("float32", steps, 2.0)
    monkeypatch.setattr(leapfrog, "_add", lambda total, rounding, increment: (total + increment, rounding))
    plain = _energy_error("float32", steps, 2.0)
    print(f"{steps} steps: {exact:.2g} in float64; rounding {compensated - exact:.2g}, plain {plain - exact:.2g}")
    assert abs(compensated - exact) < 1e-4
    if steps == 100_000:
        assert abs(plain - exact) > 5e-4  # or this case would be no test
