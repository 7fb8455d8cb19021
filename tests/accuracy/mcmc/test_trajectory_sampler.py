"""What HMC and MCLMC promise alike of their trajectories."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from inference import HMC, MCLMC
from inference.target.binding import bind

METROPOLIS = {
    "hmc": HMC(trajectory_length="prior", target_acceptance=0.5, chains=2, draws=200),
    "mclmc": MCLMC(adjusted=True, step_size=0.4, trajectory_length=0.8, warmup=0, chains=2, draws=200),
}
KERNELS = {
    "hmc": HMC(jitter=0.1, mass="diagonal"),
    "mclmc": MCLMC(mass="diagonal", warmup=40),
    "adjusted mclmc": MCLMC(adjusted=True, mass="diagonal", warmup=40),
}


@pytest.mark.parametrize("name", METROPOLIS)
def test_a_refused_draw_is_repeated(conjugate, name):
    posterior = conjugate.run(method=METROPOLIS[name], seed=1)
    accepted = posterior.statistics["accepted"]
    assert 0.2 < accepted.mean() < 0.8
    draws = conjugate.stacked(posterior)
    same = (draws[:, 1:] == draws[:, :-1]).all(axis=-1)
    np.testing.assert_array_equal(same, ~accepted[:, 1:])
    lp = posterior.statistics["lp"]
    np.testing.assert_array_equal(lp[:, 1:][same], lp[:, :-1][same])


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_use_each_key_once(conjugate, name):
    method = KERNELS[name]
    target, data = bind(conjugate.model, (conjugate.x, conjugate.y), 1.0, "posterior")[:2]
    settings = method.settings(target, data)
    start, _ = target.start(jax.random.key(0), data)
    with jax.debug_key_reuse(True):
        state = jax.jit(lambda key: method.kernel().init(target, data, start, key, settings))(jax.random.key(1))
        step = jax.jit(lambda state: method.kernel().step(target, data, state, np.int32(5)))
        for _ in range(4):
            state = step(state).state
        key = jax.random.key(2)
        jax.random.normal(key)
        with pytest.raises(jax.errors.KeyReuseError):  # the checker does look
            jax.random.normal(key)
