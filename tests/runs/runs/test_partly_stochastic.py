"""Networks of which only a part is inferred: exact for that part, and the rest is stored once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from flax import nnx

import diagnostics
import inference
import models
from inference import mixing
from inference.runs import partly_stochastic
from inference.sweeps import variations
from tests.helpers.small_run import crash_after, same

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 2)).astype(np.float32)
Y = (np.sin(2 * X[:, 0]) + 0.3 * GENERATOR.normal(size=60)).astype(np.float32)
MODEL = models.mlp((4,), "tanh", models.Normal(1.0), models.Gaussian(scale=0.3))
WEIGHTS = {"hidden0.weight": GENERATOR.normal(size=(2, 4)), "hidden0.bias": GENERATOR.normal(size=4)}
SHORT = dict(method="nuts", chains=2, draws=10, warmup=10, max_tree_depth=3, start="random", progress=False)


@pytest.mark.parametrize("method", ["hmc", "laplace"])
def test_the_last_layer_has_the_closed_form_of_its_features(method):
    options = {"hmc": dict(draws=2500), "laplace": dict(draws=8000, linearised=False)}[method]
    posterior = inference.run(
        MODEL, X, Y, method=method, stochastic="output", weights=WEIGHTS, seed=1, progress=False, **options
    )
    assert set(posterior.draws) == {"output.weight", "output.bias"}
    features = np.tanh(X @ WEIGHTS["hidden0.weight"] + WEIGHTS["hidden0.bias"])
    design = np.column_stack([np.ones(60), features])
    precision = design.T @ design / 0.09 + np.eye(5)
    mean = np.linalg.solve(precision, design.T @ Y / 0.09)
    draws = np.concatenate([posterior.draws["output.bias"], posterior.draws["output.weight"][..., 0]], axis=-1)
    draws = draws.astype(np.float64)
    assert (np.abs(draws.mean(axis=(0, 1)) - mean) < 5 * mixing.mcse(draws)).all()
    square = np.square(draws - mean)
    assert (np.abs(square.mean(axis=(0, 1)) - np.diag(np.linalg.inv(precision))) < 5 * mixing.mcse(square)).all()
    expected = np.column_stack([np.ones(3), np.tanh(X[:3] @ WEIGHTS["hidden0.weight"] + WEIGHTS["hidden0.bias"])])
    predicted = posterior.predict(X[:3]).outputs[..., 0].reshape(-1, 3)
    np.testing.assert_allclose(predicted, draws.reshape(-1, 5) @ expected.T, rtol=1e-3, atol=1e-3)


def test_what_is_not_stochastic_is_fitted_first():
    point = inference.run(MODEL, X, Y, method="map", seed=4, progress=False)
    posterior = inference.run(MODEL, X, Y, stochastic=["output.weight", "hidden0.bias"], seed=4, **SHORT)
    fixed = posterior.model.prior.weights.arrays
    assert set(fixed) == {"hidden0.weight", "output.bias"}
    for name, value in fixed.items():
        np.testing.assert_array_equal(value, point.draws[name][0, 0])
    assert posterior.cost.gradients > point.cost.gradients  # which counts
    given = inference.run(MODEL, X, Y, stochastic=["output.weight", "hidden0.bias"], weights=point, seed=4, **SHORT)
    assert same(posterior, given)


METHODS = {
    "map": dict(steps=20),
    "ensemble": dict(steps=20, chains=2),
    "laplace": dict(steps=20, draws=5, structure="diagonal"),
    "svi": dict(steps=20, draws=5),
    "dropout": dict(method="svi", guide="dropout", rate=0.2, steps=20, draws=40),
    "local": dict(method="svi", estimator="local", steps=20, draws=5),
    "sgld": dict(chains=1, draws=4, warmup=40, thin=2, batch_size=20),
    "mclmc": dict(chains=1, draws=4, warmup=60, thin=2),
    "hmc": dict(chains=1, draws=4, warmup=4, tuning=12),
}


@pytest.mark.filterwarnings("ignore::inference.TouchstoneWarning")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_a_part(method):
    options = {"method": method, **METHODS[method]}
    posterior = inference.run(MODEL, X, Y, stochastic="output", weights=WEIGHTS, progress=False, **options)
    assert set(posterior.draws) == {"output.weight", "output.bias"}
    assert np.isfinite(posterior.predict(X).mean).all()
    if method == "dropout":
        assert (posterior.draws["output.weight"] == 0).any()


def test_files_directories_and_reports_know_the_fixed_weights(tmp_path):
    options = dict(SHORT, stochastic="output", weights=WEIGHTS)
    plain = inference.run(MODEL, X, Y, **options)
    with crash_after(3):
        inference.run(MODEL, X, Y, directory=tmp_path / "a", save_every=1e-9, **options)
    resumed = inference.resume(tmp_path / "a", progress=False)
    assert same(plain, resumed)
    resumed.save(tmp_path / "p.npz")
    loaded = inference.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(loaded.predict(X).mean, plain.predict(X).mean)
    assert loaded.model == plain.model
    diagnostics.report(loaded, (X, Y), path=tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "hidden0.weight" in page
    assert "fixed" in page
    judged = diagnostics.convergence(loaded)
    assert judged.aligned is None
    assert {name.partition("[")[0] for name in judged.weights.names} == {"output.weight", "output.bias"}


def test_a_directory_that_is_taken_is_refused_before_the_fit(tmp_path, monkeypatch):
    def fit(*_):
        raise AssertionError("fitted first")

    monkeypatch.setattr(partly_stochastic, "execute", fit)
    (tmp_path / "letter.txt").write_text("")
    with pytest.raises(ValueError, match=r"is not empty \(letter.txt\)"):
        inference.run(MODEL, X, Y, directory=tmp_path, stochastic="output", **SHORT)
    inference.run(MODEL, X, Y, directory=tmp_path / "a", method="map", steps=2, progress=False)
    with pytest.raises(ValueError, match="holds a run; go on with it by"):
        inference.run(MODEL, X, Y, directory=tmp_path / "a", stochastic="output", **SHORT)


def test_what_is_lost_against_the_whole_posterior_is_measured():
    whole = inference.run(MODEL, X, Y, **SHORT)
    part = inference.run(MODEL, X, Y, stochastic="output", **SHORT)
    compared = diagnostics.compare({"whole": whole, "output": part}, (X, Y), reference="whole")
    assert compared.summary  # says how far the part is from the whole
    assert part.predict(X).epistemic.mean() < whole.predict(X).epistemic.mean()


def test_under_a_hierarchical_prior_only_the_scales_of_the_part_are_sampled():
    model = models.mlp((4,), "tanh", models.Hierarchical(), models.Gaussian(scale=0.3))
    posterior = inference.run(model, X, Y, stochastic="output", **SHORT)
    latent = set(posterior.draws) - set(posterior.deterministic)
    assert latent == {"output.scale", "output.weight.standard", "output.bias.standard"}


def test_a_lifted_network_and_its_own_weights(tmp_path):
    class Net(nnx.Module):
        def __init__(self):
            rngs = nnx.Rngs(0)
            self.hidden, self.output = nnx.Linear(2, 3, rngs=rngs), nnx.Linear(3, 1, rngs=rngs)

        def __call__(self, x):
            return self.output(nnx.tanh(self.hidden(x)))

    module = Net()
    model = models.from_flax(module, likelihood=models.Gaussian(scale=0.3))
    begun = {**SHORT, "start": module}
    posterior = inference.run(model, X, Y, stochastic="output", weights=module, **begun)
    np.testing.assert_array_equal(posterior.model.prior.weights.arrays["hidden.weight"], module.hidden.kernel[...])
    assert set(posterior.draws) == {"output.weight", "output.bias"}
    posterior.save(tmp_path / "p.npz")
    loaded = inference.load(tmp_path / "p.npz", model)  # the network itself: what is fixed is in the file
    np.testing.assert_array_equal(loaded.predict(X).mean, posterior.predict(X).mean)
    with crash_after(3):
        inference.run(model, X, Y, directory=tmp_path / "a", save_every=1e-9, stochastic="output", **SHORT)
    assert set(inference.resume(tmp_path / "a", model, progress=False).draws) == {"output.weight", "output.bias"}


def test_a_sweep_over_priors_leaves_fixed_what_is_fixed():
    last = inference.run(MODEL, X, Y, method="map", steps=3, stochastic="output", weights=WEIGHTS, progress=False)
    cases = variations._priors(last.model, [models.Normal(0.5), models.Normal(2.0)], 1.0)
    for case, scale in zip(cases, (0.5, 2.0), strict=True):
        assert case.model.prior == models.PartlyFixed(models.Normal(scale), last.model.prior.weights)


def test_ctrl_c_in_the_fit_that_comes_first_ends_the_run(monkeypatch):
    from inference.runs import partly_stochastic

    monkeypatch.setattr(partly_stochastic, "execute", lambda *args: SimpleNamespace(partial=True))
    with pytest.raises(KeyboardInterrupt, match="before the weights that are to be fixed were fitted"):
        inference.run(MODEL, X, Y, stochastic="output", **SHORT)


def test_an_array_that_changes_later_changes_nothing():
    mine = {name: value.copy() for name, value in WEIGHTS.items()}
    posterior = inference.run(MODEL, X, Y, stochastic="output", weights=mine, **SHORT)
    mine["hidden0.bias"][:] = 0.0
    assert (posterior.model.prior.weights.arrays["hidden0.bias"] != 0).all()


DAMAGED = [
    {"record": "Network", "prior": {"record": "PartlyFixed", "prior": 1, "weights": 3}},
    {"record": "PartlyFixed"},
    {"record": []},
    {"record": "Network", "prior": {"record": "PartlyFixed"}},
]


@pytest.mark.parametrize("recipe", DAMAGED)
@pytest.mark.parametrize("model", [None, MODEL])
def test_damaged_recipes_are_value_errors(recipe, model):
    with pytest.raises(ValueError, match=r"damaged|is not the one in"):
        models.restored_model(recipe, model, "here")


@pytest.mark.parametrize("weights", [3, {"a": 1}, {"a": ["<f4", [2], "!"]}, {"a": ["|O", [1], ""]}])
def test_damaged_weights_are_refused(weights):
    with pytest.raises(ValueError, match="fixed weights can't be read"):
        models.from_recipe({"weights": weights})


def test_all_of_it_is_the_network_itself():
    assert inference.run(MODEL, X, Y, stochastic=["weight", "bias"], weights={}, **SHORT).model == MODEL


def _schools(y=None):
    """Not a network."""


BAD = {
    "no such layer": (dict(stochastic="hidden1"), "stochastic names 'hidden1', which this network does not have"),
    "nothing": (dict(stochastic=[]), "must name a layer, a kind or a site"),
    "weights alone": (dict(weights=WEIGHTS), "say which are, stochastic='output'"),
    "too few": (dict(stochastic="output", weights={}), "weights has no values of 'hidden0.weight'"),
    "another shape": (
        dict(stochastic="output", weights=WEIGHTS | {"hidden0.bias": np.zeros(3)}),
        r"'hidden0\.bias' with shape \(3,\), it must be \(4,\)",
    ),
    "not finite": (dict(stochastic="output", weights=WEIGHTS | {"hidden0.bias": np.full(4, np.inf)}), "not finite"),
    "a number": (dict(stochastic="output", weights=3), "weights must be a mapping from sites to arrays"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    options, message = BAD[case]
    with pytest.raises((TypeError, ValueError), match=message):
        inference.run(MODEL, X, Y, **SHORT, **options)


def test_several_draws_are_not_one_set_of_weights():
    members = inference.run(MODEL, X, Y, method="ensemble", chains=2, steps=3, progress=False)
    with pytest.raises(ValueError, match="this posterior has 2 x 1 draws"):
        inference.run(MODEL, X, Y, stochastic="output", weights=members, **SHORT)


def test_a_model_of_ones_own_has_no_layers():
    with pytest.raises(TypeError, match="stochastic needs a network of models"):
        inference.run(_schools, Y, stochastic="output", progress=False)
