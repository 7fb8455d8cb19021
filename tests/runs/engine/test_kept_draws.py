"""What is kept of the draws: all, the last layer, or averages alone; the averages are those of all draws."""

from __future__ import annotations

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import data
import diagnostics
import inference
import models

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(60, 3)).astype(np.float32)
NEW = GENERATOR.normal(size=(7, 3)).astype(np.float32)
OPTIONS = dict(chains=3, draws=40, warmup=10, start="random", progress=False)
CASES = {
    "gaussian": (models.mlp((4,), "tanh"), np.sin(X[:, 0])),
    "two outputs": (models.linear(likelihood=models.Gaussian(outputs=2)), np.sin(X[:, :2])),
    "categorical": (
        models.mlp((4,), "tanh", likelihood=models.Categorical(3)), np.digitize(X[:, 0], [-0.5, 0.5]).astype(np.int32)
    ),
}  # fmt: skip
ROUNDING = dict(rtol=1e-6, atol=1e-9)  # outputs of one draw alone and among others differ by float32 rounding


@pytest.mark.parametrize(("model", "y"), CASES.values(), ids=CASES)
def test_averages_are_those_of_all_draws(model, y):
    options = dict(method="nuts", max_tree_depth=4, **OPTIONS)
    every = inference.run(model, X, y, predict_at=NEW, **options)
    none = inference.run(model, X, y, predict_at=NEW, keep="none", **options)
    prediction = every.predict(NEW)
    for averages in (every.averages, none.averages):
        assert averages.draws == 120
        for name in ("mean", "epistemic", "aleatoric", "total", "std"):
            np.testing.assert_allclose(getattr(averages, name), getattr(prediction, name), **ROUNDING, err_msg=name)
    assert not none.draws
    assert none.shape == every.shape
    for name in every.statistics:
        np.testing.assert_array_equal(every.statistics[name], none.statistics[name])


def test_a_refused_proposal_counts_again():
    # Many proposals are refused: an average over accepted ones alone would be another one.
    model = models.linear(likelihood=models.Gaussian(scale=0.5))
    options = dict(method="hmc", step_size=0.11, trajectory_length=0.2, **{**OPTIONS, "draws": 200})
    posterior = inference.run(model, X, np.sin(X[:, 0]), predict_at=NEW, **options)
    accepted = posterior.statistics["accepted"]
    assert 0.1 < accepted.mean() < 0.9
    prediction = posterior.predict(NEW)
    np.testing.assert_allclose(posterior.averages.mean, prediction.mean, **ROUNDING)
    only_accepted = prediction.outputs[..., 0][accepted].mean(axis=0)
    assert np.abs(only_accepted - prediction.mean).max() > 1e-3  # what it would be without repetition


def test_averages_go_back_to_the_datas_own_units():
    train, test = data.load("diabetes").split(seed=0)
    model = models.linear()
    posterior = inference.run(model, train, method="nuts", predict_at=test.x, max_tree_depth=4, **OPTIONS)
    averages, prediction = test.restore(posterior.averages), test.restore(posterior.predict(test))
    for name in ("mean", "epistemic", "aleatoric", "std"):
        np.testing.assert_allclose(getattr(averages, name), getattr(prediction, name), rtol=1e-5)


def test_the_last_layer_alone():
    model, y = CASES["gaussian"]
    options = dict(method="nuts", max_tree_depth=4, **OPTIONS)
    every = inference.run(model, X, y, **options)
    last = inference.run(model, X, y, keep="last_layer", **options)
    assert sorted(last.draws) == ["noise", "output.bias", "output.weight"]
    for name, values in last.draws.items():
        np.testing.assert_array_equal(values, every.draws[name])
    with pytest.raises(ValueError, match=r'kept some of them \(keep="last_layer"\); give run the inputs'):
        last.predict(NEW)


@pytest.mark.parametrize("keep", ["last_layer", "none"])
def test_convergence_is_judged_by_the_functions_that_were_kept(tmp_path, keep):
    model, y = CASES["gaussian"]
    options = dict(method="nuts", max_tree_depth=4, **OPTIONS)
    every = inference.run(model, X, y, **options)
    some = inference.run(model, X, y, keep=keep, directory=tmp_path / "a", **options)
    expected, judged = diagnostics.convergence(every), diagnostics.convergence(some)
    np.testing.assert_allclose(judged.functions.rhat, expected.functions.rhat, rtol=1e-3)
    assert (judged.weights is None) == (keep == "none")
    text = diagnostics.report(tmp_path / "a", (X, y), path=tmp_path / "r.html").read_text()
    assert "Convergence failed" in text
    some.save(tmp_path / "p.npz")
    loaded = inference.load(tmp_path / "p.npz")
    np.testing.assert_array_equal(loaded.functions, some.functions)


def test_until_works_without_draws():
    model = models.linear(likelihood=models.Gaussian(scale=0.5))
    options = {**OPTIONS, "draws": 800, "until": {"ess": 300}}
    every = inference.run(model, X, np.sin(X[:, 0]), method="nuts", **options)
    none = inference.run(model, X, np.sin(X[:, 0]), method="nuts", keep="none", **options)
    assert (every.ended, every.shape) == (none.ended, none.shape) == ("until", none.shape)


def test_averages_do_not_depend_on_pieces(tmp_path, at_pace):
    model, y = CASES["categorical"]
    options = dict(method="nuts", max_tree_depth=4, keep="none", predict_at=NEW, **OPTIONS)
    whole = inference.run(model, X, y, **options)
    at_pace(piece_seconds=1e-9)
    pieces = inference.run(model, X, y, directory=tmp_path / "a", **options)
    looked_at = inference.load(tmp_path / "a")
    for other in (pieces, looked_at):
        for one, two in zip(whole.averages.average, other.averages.average, strict=True):
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(whole.functions, other.functions)


def test_a_model_of_the_users_own_without_draws():
    def mine(y=None):
        w = numpyro.sample("w", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(w, 1).expand((3,)).to_event(1), obs=y)

    posterior = inference.run(mine, np.arange(3.0), method="nuts", keep="none", **OPTIONS)
    assert not posterior.draws
    assert "Convergence" in str(diagnostics.convergence(posterior))
    for options, message in (
        (dict(keep="last_layer"), "needs a network of models, whose layers are known"),
        (dict(predict_at=NEW), "predict_at averages the predictions of a sampler's draws of a network"),
        (dict(keep="none", until={"ess": 10}), "until needs draws to judge"),
        (dict(keep="some"), "nuts: keep must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            inference.run(mine, np.arange(3.0), method="nuts", **options, **OPTIONS)
    with pytest.raises(ValueError, match="predict_at averages"):
        inference.run(CASES["gaussian"][0], X, X[:, 0], method="map", predict_at=NEW)
    with pytest.raises(ValueError, match="save_every must be"):
        inference.run(CASES["gaussian"][0], X, X[:, 0], method="map", save_every=0)


def test_predictions_by_pages_are_those_of_all_draws_at_once(monkeypatch):
    from inference.results import network_outputs as outputs

    model, y = CASES["gaussian"]
    posterior = inference.run(model, X, y, method="nuts", max_tree_depth=4, **OPTIONS)
    at_once = posterior.predict(NEW).outputs
    monkeypatch.setattr(outputs, "_PAGE", 1000)  # bytes: a dozen draws
    np.testing.assert_allclose(posterior.predict(NEW).outputs, at_once, rtol=1e-5, atol=1e-6)
