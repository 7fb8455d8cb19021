"""Simulation-based calibration (Talts et al. 2018), exact: ranks are uniform if and only if the kernel is right.

Weights are drawn from the prior and data from the weights, so the weights are a draw of the posterior given the data.
They are put at a random place of a stationary chain: k draws of one chain from them and n - k of another. The kernel
is reversible, so their rank among the n is uniform, whatever the autocorrelation. All simulations run in one program.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpyro import handlers
from numpyro.infer import Predictive

import models
from inference.mcmc.hmc import HMC
from inference.mcmc.mclmc import MCLMC
from inference.target.binding import bind
from inference.target.density import Target
from inference.target.vectors import Flattened

SIMULATIONS, DRAWS, THIN, BINS = 512, 63, 2, 16
X = np.random.default_rng(0).uniform(-2, 2, (12, 2)).astype(np.float32)
PLACE = np.array([[0.7, -1.1]], np.float32)
MODEL = models.mlp((3,), "tanh", likelihood=models.Gaussian(scale=0.5))
METHOD = HMC(step_size=0.12, trajectory_length=1.2, precision="float64")  # vmap needs one precision throughout
ADJUSTED = MCLMC(adjusted=True, step_size=1.0, trajectory_length=2.0, warmup=0, precision="float64")
FAMILY_WISE = 1e-4  # false alarms over all quantities


def _quantities(target: Target, position, data) -> jax.Array:
    """Two single ones, and three that see data and all weights."""
    terms = target.terms(position, data)
    output = handlers.substitute(target.model.outputs, data=position)(PLACE)[0, 0]
    square = sum(jnp.sum(leaf**2) for leaf in position.values())
    return jnp.stack(
        [position["output.bias"][0], output, square, terms.log_likelihood, terms.log_likelihood + terms.log_prior]
    )


def _p_values(method: HMC | MCLMC, sampled_with=MODEL) -> np.ndarray:
    """One per quantity, for draws of a method from the posterior of one model and data from `MODEL`."""
    with jax.enable_x64(True):
        target, template = bind(sampled_with, (X, np.zeros(12, np.float32)), 1.0, "posterior")[:2]
        settings, flat = method.settings(target, template), Flattened.of(target, template)
        truth = Predictive(MODEL, num_samples=SIMULATIONS)(jax.random.key(1), X)
        y = truth.pop("y")

        def simulate(position, y, key):
            data = template._replace(arrays=(X, y))

            def chain(key):
                def draw(state, _):
                    for _ in range(THIN):
                        state = method.kernel().step(target, data, state, np.int32(10**6)).state
                    return state, _quantities(target, flat.position(state.position), data)

                return jax.lax.scan(draw, method.kernel().init(target, data, position, key, settings), None, DRAWS)[1]

            return _quantities(target, position, data), jax.vmap(chain)(jax.random.split(key))

        keys = jax.random.split(jax.random.key(2), SIMULATIONS)
        own, chains = jax.device_get(jax.jit(jax.vmap(simulate))(truth, y, keys))
        first, second = chains[:, 0], chains[:, 1]
    generator = np.random.default_rng(3)
    split = generator.integers(0, DRAWS + 1, SIMULATIONS)
    place = np.arange(DRAWS)
    counted = np.where((place < split[:, None])[..., None], first, second[:, ::-1])
    ties = generator.uniform(size=counted.shape) < 0.5
    below = (counted < own[:, None]) | ((counted == own[:, None]) & ties)
    ranks = below.sum(axis=1)
    counts = np.stack([np.bincount(each * BINS // (DRAWS + 1), minlength=BINS) for each in ranks.T])
    return scipy.stats.chisquare(counts, axis=1).pvalue


@pytest.mark.parametrize("method", [METHOD, ADJUSTED], ids=["hmc", "mclmc"])
def test_ranks_are_uniform(method):
    p = _p_values(method)
    assert p.min() > FAMILY_WISE / len(p), f"p-values {p}"


def test_a_prior_that_is_a_tenth_off_is_seen():
    wrong = models.mlp((3,), "tanh", models.Normal(1.1), models.Gaussian(scale=0.5))
    assert _p_values(METHOD, wrong)[2] < FAMILY_WISE  # in |w|^2
