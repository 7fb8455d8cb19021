"""Energies that float32, or even float64, can't resolve are noticed, and models that insist on float32 run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import inference


def _offset(constant, x, y):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    numpyro.factor("constant", constant)
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x[:, 0] * w, 1.0), obs=y)


def _cast(x, y):
    """Far from its targets, with a mean that is rounded to float32 in whatever precision it is asked for."""
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal((x[:, 0] * w).astype(jnp.float32), 1e-3), obs=y + 1000.0)


def test_rounding_of_large_energies_is_noticed(conjugate):
    args = (conjugate.x, conjugate.y)
    small, large, huge = np.float64(0.0), np.float64(3e7), np.float64(3e16)
    nuts = dict(method="nuts", chains=1, draws=50, warmup=50, progress=False)
    with pytest.warns(UserWarning, match=r"nuts: rounding moves the energies by .* nat, above 0.05.*float64"):
        inference.run(_offset, large, *args, **nuts)
    assert inference.run(_offset, small, *args, **nuts).statistics["energy_noise"].max() < 1e-3
    options = dict(method="hmc", chains=1, draws=50, step_size=0.1, progress=False)
    posterior = inference.run(_offset, large, *args, **options)  # its energies are in float64: no warning
    assert posterior.statistics["acceptance_rate"].mean() > 0.9
    assert posterior.statistics["energy_noise"].max() < 1e-5
    message = r"hmc: rounding moves the energies by .* a smaller step does not help"
    with pytest.warns(UserWarning, match=message):
        inference.run(_offset, huge, *args, **options)
    with pytest.warns(UserWarning, match=message):
        inference.run(_cast, *args, **{**options, "step_size": 1e-9, "trajectory_length": 1e-9})


def _fixed_in_float32(y):
    """A model that can't be evaluated in float64: its scan has a float32 carry."""
    a = numpyro.sample("a", dist.Normal(0.0, 0.5))
    _, means = jax.lax.scan(lambda c, _: (a * c + 0.1, c), jnp.zeros((), jnp.float32), None, length=len(y))
    numpyro.sample("y", dist.Normal(means, 1.0), obs=y)


def test_a_model_that_insists_on_float32_runs():
    y = np.linspace(0, 1, 5).astype(np.float32)
    options = dict(chains=1, draws=20, warmup=20, progress=False)
    inference.run(_fixed_in_float32, y, method="nuts", **options)
    with pytest.warns(UserWarning, match=r"can't be evaluated in float64.*energies are in float32"):
        posterior = inference.run(_fixed_in_float32, y, method="hmc", **options)
    assert posterior.statistics["acceptance_rate"].mean() > 0.5
    with pytest.raises(ValueError, match=r"can't run with precision=\"float64\""):
        inference.run(_fixed_in_float32, y, method="hmc", precision="float64", **options)
