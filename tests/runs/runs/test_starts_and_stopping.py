"""Where chains start, and when they have drawn enough."""

from __future__ import annotations

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.signal

import inference
import models
from diagnostics import convergence
from inference import mixing
from inference.results.function_space import function_draws
from inference.runs.stopping import stop_of

GENERATOR = np.random.default_rng(5)
X = GENERATOR.normal(size=(60, 2)).astype(np.float32)
Y = (np.sin(2 * X[:, 0]) + 0.1 * GENERATOR.normal(size=60)).astype(np.float32)
NETWORK = models.mlp((8,), "tanh", likelihood=models.Gaussian(scale=0.2))
FIRST = {"method": "hmc", "draws": 1, "warmup": 0, "step_size": 1e-4, "trajectory_length": 1e-4, "progress": False}


def first(model=NETWORK, args=(X, Y), **options):
    """Draws that have hardly left their start."""
    return inference.run(model, *args, **FIRST, **options)


def test_chains_of_a_network_start_at_members_of_an_ensemble():
    posterior = first(chains=3)
    assert posterior.start == posterior.idata.posterior.attrs["start"] == "ensemble"
    weights = posterior.draws["hidden0.weight"][:, 0]
    assert np.abs(weights[0] - weights[1]).max() > 0.1
    residual = Y - posterior.predict(X).outputs[:, 0, :, 0]
    assert (residual.std(axis=1) < 0.5 * Y.std()).all()  # each is trained
    np.testing.assert_array_equal(weights[:1], first(chains=1).draws["hidden0.weight"][:, 0])  # in any company


def test_the_pilot_does_not_depend_on_the_number_of_chains():
    # Chains of this network start in different modes, so it matters where the pilot does.
    options = dict(method="hmc", draws=10, warmup=10, tuning=40, seed=3, progress=False)
    alone, three = (inference.run(NETWORK, X, Y, chains=chains, **options) for chains in (1, 3))
    np.testing.assert_array_equal(alone.statistics["step_size"], three.statistics["step_size"][:1])
    np.testing.assert_array_equal(alone.draws["hidden0.weight"], three.draws["hidden0.weight"][:1])


def test_chains_can_start_at_one_map_point():
    posterior = first(chains=3, start="map")
    weights = posterior.draws["hidden0.weight"][:, 0]
    np.testing.assert_allclose(weights, np.broadcast_to(weights[:1], weights.shape), atol=1e-3)
    assert posterior.start == "map"


def test_chains_can_start_at_the_prior():
    wide = models.mlp((50,), "tanh", models.Normal(3.0), models.Gaussian(scale=0.2))
    values = first(wide, chains=20, start="prior").draws["hidden0.weight"]
    assert abs(values.std() / 3.0 - 1) < 5 / np.sqrt(2 * values.size)
    narrow = first(wide, chains=20, start="random").draws["hidden0.weight"]
    assert narrow.std() == pytest.approx(1 / np.sqrt(2), rel=0.1)  # 1 / sqrt(inputs), whatever the prior


@pytest.mark.parametrize("start", ["random", "prior", "map"])
def test_starts_of_a_users_model(start):
    def model(y):
        w = numpyro.sample("w", dist.Normal(1.0, 1.0))
        flat = numpyro.sample("flat", dist.ImproperUniform(dist.constraints.positive, (), ()))
        numpyro.sample("y", dist.Normal(w, flat), obs=y)

    data = np.array([0.0, 1.0, 2.5])
    assert first(model, (data,), chains=2, start=start).start == start
    assert first(model, (data,), chains=2).start == "random"
    if start == "map":
        assert first(model, (data,), chains=2, start=start).draws["w"].mean() == pytest.approx(1.1, abs=0.15)


def test_a_deep_network_starts_where_its_data_are():
    # At random its outputs are in the thousands; each chain starts where they fit.
    model = models.mlp((50, 50, 50), "relu", models.Normal(1.0), models.Gaussian(scale=0.2))
    tiny = {**FIRST, "step_size": 1e-5, "trajectory_length": 1e-5}
    posterior = inference.run(model, X, Y, chains=2, **tiny)
    assert (np.abs(Y - posterior.predict(X).outputs[:, 0, :, 0]).max(axis=1) < 1).all()


def test_nuts_starts_alike():
    nuts = inference.run(NETWORK, X, Y, method="nuts", chains=2, draws=1, warmup=0, step_size=1e-5, max_tree_depth=1,
                         progress=False)  # fmt: skip
    assert nuts.start == "ensemble"
    np.testing.assert_allclose(nuts.draws["hidden0.weight"], first(chains=2).draws["hidden0.weight"], atol=2e-3)


LINEAR = models.linear(likelihood=models.Gaussian(scale=0.5))


def test_until_stops_when_there_is_enough():
    options = dict(method="hmc", chains=4, warmup=20, seed=1, progress=False)
    posterior = inference.run(LINEAR, X, Y, draws=5000, until={"ess": 400, "rhat": 1.02}, **options)
    assert posterior.ended == posterior.idata.posterior.attrs["ended"] == "until"
    assert not posterior.partial
    draws = posterior.shape[1]
    assert draws in (100, 150, 200, 300, 400, 600, 800, 1200, 1600)
    functions = function_draws(posterior)
    assert min(mixing.ess(functions, kind).min() for kind in ("bulk", "tail")) >= 400
    assert mixing.rhat(functions).max() <= 1.02
    assert convergence(posterior, ess=400, rhat=1.02).passed
    whole = inference.run(LINEAR, X, Y, draws=draws, **options)
    np.testing.assert_array_equal(whole.draws["output.weight"], posterior.draws["output.weight"])


def test_until_uses_up_the_draws_where_it_is_not_reached():
    posterior = inference.run(
        LINEAR, X, Y, method="nuts", chains=2, draws=150, warmup=50, until={"ess": 1e6}, progress=False
    )
    assert posterior.shape == (2, 150)
    assert posterior.ended == "draws"


def test_until_looks_at_the_end_too():
    options = dict(method="hmc", chains=2, warmup=5, progress=False)
    assert inference.run(LINEAR, X, Y, draws=60, until={"ess": 5}, **options).ended == "until"
    assert inference.run(LINEAR, X, Y, draws=3, until={"ess": 1}, **options).ended == "draws"


def test_until_of_a_users_model_looks_at_its_sites():
    def model(y):
        w = numpyro.sample("w", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(w, 1), obs=y)

    posterior = inference.run(model, np.zeros(3), chains=1, draws=4000, until={"rhat": 1.1}, progress=False)
    assert posterior.ended == "until"
    assert posterior.shape == (1, 150)  # the first 100 are worth fewer than 50


def test_frozen_chains_are_never_enough():
    with pytest.warns(UserWarning, match="accepted less"):
        posterior = inference.run(
            LINEAR, X, Y, method="hmc", step_size=2.0, trajectory_length=20.0, draws=200, warmup=0, chains=2,
            until={"ess": 10}, progress=False, start="random",
        )  # fmt: skip
    assert posterior.ended == "draws"


def test_conditions_survive_a_file(tmp_path):
    posterior = first(chains=1, until={"rhat": 1.01, "ess": 400})
    posterior.save(tmp_path / "p.npz")
    assert inference.load(tmp_path / "p.npz").method == posterior.method


def test_chains_too_short_for_r_hat_are_not_enough(conjugate):
    """Four chains of slow draws that are worth a dozen: below 50 no R-hat is small enough by itself."""
    noise = np.random.default_rng(0).normal(size=(4, 300, 4))
    slow = scipy.signal.lfilter([0.2], [1, -0.9], noise, axis=1)[:, 200:]
    mean, _ = conjugate.posterior()
    for until, met in (({"rhat": 5.0}, False), ({"rhat": 5.0, "ess": 1}, True)):
        draws = conjugate.of(mean + slow).draws
        stop = stop_of(inference.NUTS(until=until), conjugate.model, conjugate.x[:1])
        assert stop.met(draws, {}) is met
