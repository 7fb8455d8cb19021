"""Minibatches of a user's own model, by the plate that it subsamples."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import inference
from inference.sgmcmc.langevin_step import Centre, estimated_gradient
from inference.sgmcmc.step_sizes import Cycles, Settings
from inference.target.binding import bind
from tests.helpers.normal_target import NOISE, PRIOR, ROWS, NormalTarget

GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(6, 2)).astype(np.float32), GENERATOR.normal(size=6).astype(np.float32)


def _weights():
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand((2,)).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.sample("other", dist.Normal(w.sum(), 1.0), obs=0.3)  # what is outside is not scaled
    return w, scale


def _indexed(x, y=None):
    w, scale = _weights()
    with numpyro.plate("rows", len(x), subsample_size=2) as rows:
        numpyro.sample("y", dist.Normal(x[rows] @ w, scale), obs=None if y is None else y[rows])


def _taken(x, y=None):
    w, scale = _weights()
    with numpyro.plate("rows", len(x), subsample_size=2):
        mean = numpyro.subsample(x, event_dim=1) @ w
        numpyro.sample("y", dist.Normal(mean, scale), obs=None if y is None else numpyro.subsample(y, event_dim=0))


def _whole(x, y=None):
    w, scale = _weights()
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Normal(x @ w, scale), obs=y)


@pytest.mark.parametrize("model", [_indexed, _taken])
@pytest.mark.parametrize("size", [2, 3])  # that of the plate, and another
def test_estimates_are_unbiased_over_all_subsets(model, size):
    target, data = bind(model, (X, Y), 1.0, "posterior")[:2]
    plain, same = bind(_whole, (X, Y), 1.0, "posterior")[:2]
    data = jax.tree.map(jnp.asarray, data)
    position = {"scale": jnp.array(-0.3), "w": jnp.array([0.4, -1.2])}
    full = plain.terms(position, same)
    np.testing.assert_allclose(target.terms(position, data), full, rtol=1e-6)
    assert target.rows(data) == 6
    subsets = [jnp.array(rows) for rows in itertools.combinations(range(6), size)]
    vector = jnp.array([-0.3, 0.4, -1.2])

    @jax.jit
    def estimate(rows):
        gradient = estimated_gradient(target, data, vector, rows, Centre(vector, vector[:0]))[1]
        return jnp.stack(target.estimate(position, data, rows)), gradient

    estimates, gradients = (np.array(each) for each in zip(*(estimate(rows) for rows in subsets), strict=True))
    np.testing.assert_allclose(estimates.mean(axis=0), full, rtol=1e-5)
    assert np.ptp(estimates[:, 0]) > 0.1
    exact = jax.grad(lambda p: plain.log_density({"scale": p[0], "w": p[1:]}, same))(vector)
    np.testing.assert_allclose(gradients.mean(axis=0), exact, rtol=1e-4, atol=1e-5)


def _by_hand(x, y=None):
    bias = numpyro.sample("output.bias", dist.Normal(0.0, PRIOR).expand((1,)).to_event(1))
    weight = numpyro.sample("output.weight", dist.Normal(0.0, PRIOR).expand((2, 1)).to_event(2))
    with numpyro.plate("data", len(x), subsample_size=10) as rows:
        numpyro.sample("y", dist.Normal((x[rows] @ weight)[:, 0] + bias[0], NOISE), obs=y[rows])


def test_steps_are_those_of_the_same_network():
    normal, method = NormalTarget(), inference.SGHMC(batch_size=6, step_size=1e-3, control_variates=True)
    settings = Settings.of(Cycles(1, 10, 10), 1, np.ones(3, np.float32), 1e-3)
    ends = []
    for model in (normal.model, _by_hand):
        target, data = bind(model, (normal.x, normal.y), 2.0, "posterior")[:2]
        data = jax.tree.map(jnp.asarray, data)
        assert target.rows(data) == ROWS
        state = method.kernel().init(target, data, normal.start(), jax.random.key(3), settings)
        step = jax.jit(lambda state, target=target, data=data: method.kernel().step(target, data, state, jnp.int32(1)))
        for _ in range(20):
            state, (_, statistics), *_ = step(state)
        ends.append((state.position, statistics["lp"]))
    for found, expected in zip(*ends, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_run_predicts_all_rows():
    posterior = inference.run(
        _indexed,
        X,
        Y,
        method="sgld",
        batch_size=3,
        step_size=1e-4,
        draws=5,
        warmup=10,
        thin=2,
        chains=2,
        progress=False,
    )
    assert posterior.predict(X)["y"].shape == (2, 5, 6)
    assert posterior.predict(X[:4])["y"].shape == (2, 5, 4)


def _local(x, y=None):
    with numpyro.plate("rows", len(x), subsample_size=2) as rows:
        effect = numpyro.sample("effect", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(effect, 1.0), obs=y[rows])


def _two(x, y=None):
    _indexed(x, y)
    with numpyro.plate("others", 6, subsample_size=3) as rows:
        numpyro.sample("z", dist.Normal(0.0, 1.0), obs=y[rows])


@pytest.mark.parametrize(
    ("model", "batch", "message"),
    [
        (_local, 2, "the site 'effect' is inside the plate 'rows', so it has a value per row"),
        (_two, 2, "the model subsamples several plates, rows, others, and minibatches are of one"),
        (_indexed, 7, "batch_size must be at most the number of rows, 6, got 7"),
        (_whole, 2, r"subsamples a plate and takes its rows: with numpyro.plate\(name, size, subsample_size=2\)"),
    ],
)
def test_what_has_no_minibatches_is_refused(model, batch, message):
    with pytest.raises(ValueError, match=message):
        inference.run(model, X, Y, method="sgld", batch_size=batch, progress=False)
