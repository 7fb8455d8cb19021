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


def test_predict_may_look_at_the_values_too():
    group, y = np.array([0, 0, 1, 1]), np.array([0.0, 0.2, 5.0, 5.2])
    posterior = inference.run(_by_group, group, y, method="map", steps=20, progress=False)
    assert posterior.predict(np.array([1, 0, 1]))["y"].shape == (1, 1, 3)


_PRIOR = {"scale": 1.0}


def _reads_outside(y=None):
    w = numpyro.sample("w", dist.Normal(0, _PRIOR["scale"]))
    numpyro.deterministic("shifted", w + _PRIOR["scale"])
    with numpyro.plate("rows", 5):
        numpyro.sample("y", dist.Normal(w, 1.0), obs=y)


def test_a_model_that_has_changed_meets_no_old_program(monkeypatch):
    y = np.full(5, 5.0)
    for scale in (1.0, 0.01, 1.0):
        monkeypatch.setitem(_PRIOR, "scale", scale)
        posterior = inference.run(_reads_outside, y, method="map", progress=False)
        expected = 25 / (5 + 1 / scale**2)
        assert posterior.draws["w"].item() == pytest.approx(expected, abs=1e-3)
        assert posterior.predict()["shifted"].item() == pytest.approx(expected + scale, abs=1e-3)


def test_a_users_model_takes_a_split_and_other_containers():
    def line(x, y=None):
        w = numpyro.sample("w", dist.Normal(0, 1).expand((x.shape[1],)).to_event(1))
        with numpyro.plate("rows", len(x)):
            numpyro.sample("y", dist.Normal(jax.numpy.asarray(x) @ w, 1.0), obs=y)

    import pandas as pd

    ways = [(TRAIN,), (TRAIN.x, TRAIN.y), (pd.DataFrame(TRAIN.x), pd.Series(TRAIN.y))]
    draws = [inference.run(line, *way, method="map", steps=20, progress=False).draws["w"] for way in ways]
    for other in draws[1:]:
        np.testing.assert_array_equal(draws[0], other)


def test_observations_that_the_model_computes_are_recorded_and_checked():
    def logged(y):
        w = numpyro.sample("w", dist.Normal(0, 1))
        with numpyro.plate("rows", 3):
            numpyro.sample("log_y", dist.Normal(w, 1.0), obs=jax.numpy.log(y))

    posterior = inference.run(logged, np.array([1.0, 2.0, 3.0]), method="map", steps=5, progress=False)
    np.testing.assert_allclose(posterior.observed["log_y"], np.log([1.0, 2.0, 3.0]), rtol=1e-6)
    with pytest.raises(ValueError, match=r"observed at site 'log_y' must be finite, got infinity at row 1"):
        inference.run(logged, np.array([1.0, 0.0, 3.0]), method="map", steps=5, progress=False)


def test_masked_observations_may_be_missing():
    def masked(y, mask):
        w = numpyro.sample("w", dist.Normal(0, 10))
        filled = jax.numpy.where(mask, y, 0.0)
        numpyro.sample("y", dist.Normal(w, 1.0).expand((3,)).mask(mask).to_event(1), obs=filled)

    mask = np.array([True, False, True])
    posterior = inference.run(masked, np.array([1.0, np.nan, 3.0]), mask, method="map", progress=False)
    assert posterior.draws["w"].item() == pytest.approx(4 / 2.01, abs=1e-3)


def test_boolean_masks_as_indices():
    def chosen(y, mask):
        w = numpyro.sample("w", dist.Normal(0, 10))
        kept = y[mask]
        with numpyro.plate("rows", len(kept)):
            numpyro.sample("y", dist.Normal(w, 1.0), obs=kept)

    mask = np.array([True, False, True])
    posterior = inference.run(chosen, np.array([1.0, 9.0, 3.0]), mask, method="map", progress=False)
    assert posterior.draws["w"].item() == pytest.approx(4 / 2.01, abs=1e-3)


def test_runs_in_several_threads_of_the_user():
    from concurrent.futures import ThreadPoolExecutor

    alone = [_map(TRAIN, seed=seed, steps=31) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: _map(TRAIN, seed=seed, steps=31), range(4)))
    for first, second in zip(alone, together, strict=True):
        np.testing.assert_array_equal(first.draws["output.weight"], second.draws["output.weight"])


def test_samplers_and_predictions_in_several_threads_of_the_user():
    from concurrent.futures import ThreadPoolExecutor

    def run(units):
        model = models.mlp((units,), likelihood=models.Gaussian(scale=0.5))
        posterior = inference.run(
            model, TRAIN.x[:30], TRAIN.y[:30], method="hmc", chains=1, draws=120, warmup=0, step_size=0.02,
            trajectory_length=0.1, start="random", until={"ess": 1e6}, progress=False,
        )  # fmt: skip
        return posterior.predict(TEST.x[:units]).mean

    with ThreadPoolExecutor(3) as pool:
        means = list(pool.map(run, (2, 3, 4)))
    assert [len(mean) for mean in means] == [2, 3, 4]


def test_a_key_of_another_generator_is_refused():
    with pytest.raises(ValueError, match="threefry2x32, got rbg"):
        _map(TRAIN, seed=jax.random.key(0, impl="rbg"))


def test_factors_are_not_predicted():
    def model(y=None):
        w = numpyro.sample("w", dist.Normal(0, 1))
        numpyro.factor("bonus", -(w**2))
        numpyro.sample("y", dist.Normal(w, 1).expand((3,)).to_event(1), obs=y)

    posterior = inference.run(model, np.zeros(3), method="map", steps=5, progress=False)
    assert set(posterior.predict()) == {"y"}


def test_lp_is_the_log_density_of_each_draw(conjugate):
    import scipy.stats

    for method, options in {
        "nuts": {"chains": 2, "draws": 20, "warmup": 50},
        "hmc": {"chains": 2, "draws": 20},
        "mclmc": {"chains": 2, "draws": 20, "warmup": 100},
        "svi": {"steps": 50, "draws": 20},
        "map": {"steps": 50},
        "mle": {"steps": 50},
    }.items():
        posterior = conjugate.run(method=method, **options)
        draws = conjugate.stacked(posterior)
        likelihood = scipy.stats.norm(draws @ conjugate.design.T, conjugate.noise).logpdf(conjugate.y).sum(axis=-1)
        prior = 0.0 if method == "mle" else scipy.stats.norm(0, conjugate.prior).logpdf(draws).sum(axis=-1)
        np.testing.assert_allclose(posterior.statistics["lp"], likelihood + prior, rtol=1e-4)


def test_energy_is_potential_and_kinetic(conjugate):
    from inference import mixing

    statistics = conjugate.run(method="nuts", draws=2000, warmup=300).statistics
    kinetic = (statistics["energy"] + statistics["lp"]).astype(np.float64)
    # Half the sum of four squared standard normals: mean 2
    z = (kinetic.mean() - 2) / mixing.mcse(kinetic[..., None])[0]
    assert (kinetic > -1e-3).all()
    assert abs(z) < 5
    assert 0.75 < statistics["acceptance_rate"].mean() < 0.97


def test_more_particles_make_a_steadier_loss(conjugate):
    spread = [conjugate.run(method="svi", steps=2000, particles=k).curves["loss"][0, -500:].std() for k in (1, 25)]
    assert 3.5 < spread[0] / spread[1] < 7  # the square root of 25, as the draws are independent of each other


def test_replicates_of_a_users_model_are_independent_over_draws():
    posterior = inference.run(_reads_outside, np.full(5, 5.0), method="svi", steps=200, draws=4000, progress=False)
    noise = posterior.predict()["y"][0] - posterior.draws["w"][0][:, None]
    assert noise.std() == pytest.approx(1, rel=5 / np.sqrt(2 * noise.size))
    assert abs(np.corrcoef(noise[:-1, 0], noise[1:, 0])[0, 1]) < 5 / np.sqrt(4000)


def test_networks_start_at_the_scale_of_their_layers():
    from inference.target.binding import bind

    model = models.mlp((40, 40), prior=models.Normal(100.0))
    bound = bind(model, (np.ones((5, 30)), np.ones(5)), 1.0, "posterior")
    position, found = jax.jit(bound.target.start)(jax.random.key(0), bound.data)
    assert found
    for site, fan_in in (("hidden0.weight", 30), ("hidden1.weight", 40), ("hidden1.bias", 40)):
        values = np.asarray(position[site])
        assert values.std() == pytest.approx(1 / np.sqrt(fan_in), rel=5 / np.sqrt(2 * values.size))


def test_cost_adds_up(conjugate):
    import time

    began = time.perf_counter()
    posterior = conjugate.run(method="svi", start="random", steps=40, particles=3, batch_size=10)
    assert 0 < posterior.cost.seconds < time.perf_counter() - began
    assert posterior.cost.gradients == 40 * 3 * 10 / 40  # a quarter of the rows at a time


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
        "acceptance_rate", "diverging", "energy", "energy_noise", "lp", "n_steps", "reached_max_treedepth",
        "step_size", "tree_depth",
    }  # fmt: skip
    assert statistics["diverging"].dtype == bool
    assert (statistics["n_steps"] <= 2 ** statistics["tree_depth"] - 1).all()
    assert (statistics["n_steps"] >= 2 ** (statistics["tree_depth"] - 1)).all()
    assert statistics["tree_depth"].max() <= 3
    np.testing.assert_array_equal(statistics["reached_max_treedepth"], statistics["tree_depth"] == 3)


def test_minibatches_use_every_row_once_an_epoch():
    method = inference.MAP(batch_size=3)
    data_ = inference.target.density.Data((np.arange(10.0)[:, None], np.zeros(10)), np.float32(1))
    state = method.kernel().init(None, data_, {"w": jax.numpy.zeros(1)}, jax.random.key(0), None)
    epochs = []
    for _ in range(3):
        rows = []
        for _ in range(3):  # 10 rows make three batches of 3
            batch = method.kernel()._batch(state, state.key, data_)
            state = state._replace(iteration=state.iteration + 1)
            rows += batch.rows.tolist()
        assert len(set(rows)) == 9
        epochs.append(tuple(rows))
    assert len(set(epochs)) == 3
