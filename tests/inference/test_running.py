"""Ways to call `run` that mean the same."""

from __future__ import annotations

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import data
import inference
import models

MODEL = models.mlp(hidden=(3,))
TRAIN, TEST = data.load("diabetes").split(seed=0)


def _map(*args, **options):
    return inference.run(MODEL, *args, progress=False, **{"method": "map", "steps": 20, **options})


@pytest.mark.parametrize(
    "other",
    [
        lambda: _map(TRAIN),
        lambda: _map((TRAIN.x, TRAIN.y)),
        lambda: _map(TRAIN.x.astype(np.float64), TRAIN.y.tolist()),
        lambda: _map(jax.numpy.asarray(TRAIN.x), jax.numpy.asarray(TRAIN.y)),
        lambda: inference.run(MODEL, TRAIN, method=inference.MAP(steps=20), progress=False),
        lambda: _map(TRAIN, seed=jax.random.key(0)),
        lambda: _map(TRAIN, seed=np.int64(0)),
    ],
)
def test_the_same_run_in_other_words(other):
    expected, got = _map(TRAIN.x, TRAIN.y), other()
    for name in expected.draws:
        np.testing.assert_array_equal(expected.draws[name], got.draws[name])


def test_predict_takes_a_split_and_batches_of_rows():
    posterior = inference.run(MODEL, TRAIN, method="svi", steps=20, draws=7, progress=False)
    whole = posterior.predict(TEST.x).outputs
    np.testing.assert_array_equal(whole, posterior.predict(TEST).outputs)
    np.testing.assert_allclose(whole, posterior.predict(TEST, batch_size=10).outputs, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(whole[:, [0, 3, 6]], posterior.predict(TEST, draws=3).outputs)


def test_predictions_are_the_network_at_each_draw():
    posterior = inference.run(MODEL, TRAIN, method="svi", steps=20, draws=3, progress=False)
    outputs = posterior.predict(TEST).outputs
    for s in range(3):
        draw = {name: values[0, s].astype(np.float64) for name, values in posterior.draws.items()}
        hidden = np.maximum(TEST.x @ draw["hidden0.weight"] + draw["hidden0.bias"], 0)
        expected = hidden @ draw["output.weight"] + draw["output.bias"]
        np.testing.assert_allclose(outputs[0, s], expected, rtol=1e-4, atol=1e-5)


def _by_group(group, y=None):
    groups = len(np.unique(group))  # needs the values of its argument, as many users' models do
    with numpyro.plate("groups", groups):
        level = numpyro.sample("level", dist.Normal(0, 10))
    with numpyro.plate("rows", len(group)):
        numpyro.sample("y", dist.Normal(level[group], 1.0), obs=y)


def test_a_model_may_look_at_the_values_of_its_arguments():
    group = np.array([0, 0, 1, 1, 2, 2])
    y = np.array([0.0, 0.2, 5.0, 5.2, -3.0, -3.2])
    posterior = inference.run(_by_group, group, y, method="map", progress=False)
    # N(0, 10^2) prior, two unit-noise observations each
    np.testing.assert_allclose(posterior.draws["level"][0, 0], np.array([0.2, 10.2, -6.2]) / 2.01, atol=1e-3)


def test_options_stay_as_they_are_on_the_record():
    posterior = _map(TRAIN, learning_rate=0.02)
    assert posterior.method == inference.MAP(steps=20, learning_rate=0.02)
    assert posterior.method.options()["learning_rate"] == 0.02


def test_fixed_step_size_is_not_adapted(conjugate):
    posterior = conjugate.run(method="nuts", chains=1, draws=10, warmup=20, step_size=0.07)
    np.testing.assert_allclose(posterior.statistics["step_size"], 0.07, rtol=1e-6)


def test_statistics_of_nuts_have_the_names_of_arviz(conjugate):
    statistics = conjugate.run(method="nuts", chains=1, draws=30, warmup=50, max_tree_depth=3).statistics
    assert set(statistics) == {
        "acceptance_rate", "diverging", "energy", "lp", "n_steps", "reached_max_treedepth", "step_size", "tree_depth"
    }  # fmt: skip
    assert statistics["diverging"].dtype == bool
    assert (statistics["n_steps"] <= 2 ** statistics["tree_depth"] - 1).all()
    assert (statistics["n_steps"] >= 2 ** (statistics["tree_depth"] - 1)).all()
    assert statistics["tree_depth"].max() <= 3
    np.testing.assert_array_equal(statistics["reached_max_treedepth"], statistics["tree_depth"] == 3)


def test_minibatches_use_every_row_once_an_epoch():
    method = inference.MAP(batch_size=3)
    data_ = inference.target.Data((np.arange(10.0)[:, None], np.zeros(10)), np.float32(1))
    state = method.init(None, data_, {"w": jax.numpy.zeros(1)}, jax.random.key(0))
    epochs = []
    for _ in range(3):
        rows = []
        for _ in range(3):  # 10 rows make three batches of 3
            key = jax.random.fold_in(state.key, state.iteration)
            order, batch = method._batch(state, key)
            state = state._replace(order=order, iteration=state.iteration + 1)
            rows += batch.tolist()
        assert len(set(rows)) == 9
        epochs.append(tuple(rows))
    assert len(set(epochs)) == 3
