"""Comparison and report, on small posteriors of one network."""

from __future__ import annotations

import re

import numpy as np
import pytest

import data
import diagnostics
import inference
import models

MODEL = models.mlp((3,), "tanh", models.Normal(1.0, fan_in=True))


@pytest.fixture(scope="module")
def regression():
    train, test = data.load("diabetes").split(seed=0)
    run = {"progress": False, "seed": 1}
    posteriors = {
        "map": inference.run(MODEL, train, method="map", steps=500, **run),
        "svi": inference.run(MODEL, train, method="svi", steps=500, draws=100, **run),
        "nuts": inference.run(MODEL, train, method="nuts", draws=100, warmup=150, max_tree_depth=6, **run),
    }
    return posteriors, test


@pytest.fixture(scope="module")
def classification():
    train, test = data.load("moons").split(seed=0, test=0.3)
    model = models.mlp((3,), "tanh", likelihood=models.Bernoulli())
    options = {"progress": False, "method": "nuts", "chains": 2, "draws": 60, "warmup": 100, "max_tree_depth": 5}
    return {
        "a": inference.run(model, train, seed=1, **options),
        "b": inference.run(model, train, seed=2, **options),
    }, test


def test_compare_regression(regression):
    posteriors, test = regression
    comparison = diagnostics.compare(posteriors, test, reference="nuts")
    rows = {row["method"]: row for row in comparison.rows}
    assert set(rows) == set(posteriors)
    for name, row in rows.items():
        scores = diagnostics.scores(posteriors[name].predict(test), test)
        assert {key: row[key] for key in scores} == scores
        assert row["gradients"] == posteriors[name].cost.gradients
    assert "w1" not in rows["nuts"]
    # A point has no spread, so it is at least about as far as the mean distance of a standard normal from its centre.
    assert rows["map"]["w1"] > 0.6
    assert rows["map"]["w2"] >= rows["map"]["w1"]
    assert comparison.floor["w1"] < rows["svi"]["w1"]
    assert "between its own halves they are w1" in str(comparison)


def _independent(generator: np.random.Generator, chains: int = 4) -> inference.Posterior:
    """Independent standard normal weights of a linear model, as if a perfect sampler had drawn them."""
    return inference.Posterior(
        model=models.linear(likelihood=models.Gaussian(scale=1.0)),
        method=inference.NUTS(),
        seed=0,
        temperature=1.0,
        tempering="posterior",
        draws={
            "output.weight": generator.normal(size=(chains, 30, 2, 1)).astype(np.float32),
            "output.bias": generator.normal(size=(chains, 30, 1)).astype(np.float32),
        },
        statistics={},
        curves={},
        observed={},
        probes=np.zeros((1, 2), np.float32),
        deterministic=(),
        cost=inference.costs.Cost(1.0, 1.0, 1, 1),
    )


def test_a_perfect_method_lands_on_the_floor():
    generator = np.random.default_rng(0)
    test = generator.normal(size=(20, 2)), generator.normal(size=20)
    ratios = []
    for _ in range(200):
        reference, perfect = _independent(generator), _independent(generator)
        comparison = diagnostics.compare({"reference": reference, "perfect": perfect}, test, reference="reference")
        ratios.append(np.log(comparison.rows[1]["w1"] / comparison.floor["w1"]))
    z = np.mean(ratios) / (np.std(ratios) / np.sqrt(len(ratios)))
    assert abs(z) < 5, f"mean log ratio to the floor {np.mean(ratios):.3f}, z = {z:.1f}"


def test_the_reference_may_be_a_posterior_outside_the_table(regression):
    posteriors, test = regression
    inside = diagnostics.compare(posteriors, test, reference="nuts")
    outside = diagnostics.compare({"svi": posteriors["svi"]}, test, reference=posteriors["nuts"])
    assert outside.floor == inside.floor
    assert outside.rows[0]["w1"] == inside.rows[1]["w1"]
    assert "the reference" in str(outside)


def test_wasserstein_distance_is_that_of_scipy():
    import scipy.stats

    from diagnostics.comparison import _distance

    prediction = inference.prediction.Prediction.of(models.Gaussian(scale=1.0), np.zeros((1, 1, 1, 1), np.float32), {})
    generator = np.random.default_rng(0)
    a, b = generator.normal(size=(100, 2)), generator.normal(1, 2, size=(50, 2))
    expected = np.mean([scipy.stats.wasserstein_distance(a[:, j], b[:, j]) / b[:, j].std() for j in range(2)])
    assert _distance(prediction, a, b)["w1"] == pytest.approx(expected)
    shifted = _distance(prediction, b + 3 * b.std(axis=0), b)
    assert shifted["w1"] == pytest.approx(3)
    assert shifted["w2"] == pytest.approx(3)


def test_compare_classification(classification):
    posteriors, test = classification
    comparison = diagnostics.compare(posteriors, test, reference="a")
    assert {"accuracy", "brier", "ece", "total_variation", "agreement"} <= set(comparison.columns)
    row = comparison.rows[1]
    assert 0 <= row["total_variation"] < 0.3
    assert row["agreement"] > 0.7


def test_compare_without_reference_and_with_arrays(regression):
    posteriors, test = regression
    comparison = diagnostics.compare(posteriors, (test.x, test.y))
    assert comparison.floor == {}
    assert comparison.rows[0]["rmse"] < 2  # in the units of y as given, standardised


def test_a_reference_needs_several_draws(regression):
    posteriors, test = regression
    with pytest.raises(ValueError, match=r"reference must have several draws.*map has one"):
        diagnostics.compare(posteriors, test, reference="map")


def test_many_chains_are_halved_in_a_bounded_number_of_ways(monkeypatch):
    from diagnostics import comparison

    generator = np.random.default_rng(0)
    counted = []
    original = comparison._distance
    monkeypatch.setattr(comparison, "_distance", lambda *args: counted.append(1) or original(*args))
    test = generator.normal(size=(3, 2)), generator.normal(size=3)
    many = _independent(generator, chains=16)
    diagnostics.compare({"many": many, "few": _independent(generator)}, test, reference="many")
    assert len(counted) == 3 * 70


def test_other_models_can_not_be_compared():
    posterior = inference.Posterior(**{**_independent(np.random.default_rng(0)).__dict__, "model": lambda x: None})
    with pytest.raises(TypeError, match=r"compare needs posteriors of networks of models, 'mine' is of another"):
        diagnostics.compare({"mine": posterior}, (np.zeros((2, 2)), np.zeros(2)))
    with pytest.raises(TypeError, match="prediction"):
        diagnostics.scores({"y": np.zeros(3)}, np.zeros(3))


def test_pairs_work_where_splits_do(regression):
    posteriors, test = regression
    prediction = posteriors["svi"].predict((test.x, test.y))
    np.testing.assert_array_equal(prediction.outputs, posteriors["svi"].predict(test).outputs)
    assert diagnostics.scores(prediction, (test.x, test.y)) == diagnostics.scores(prediction, test.y)


def test_figures_show_what_they_say(regression):
    posteriors, test = regression
    prediction = posteriors["nuts"].predict(test)
    lower, upper = test.restore(prediction).interval(0.9)
    inside = ((lower <= test.y_original) & (test.y_original <= upper)).sum()
    axes = diagnostics.plots.observed_and_predicted(prediction, test).axes[0]
    handles, labels = axes.get_legend_handles_labels()
    shown = {label: len(handle[0].get_xdata()) for handle, label in zip(handles, labels, strict=True)}
    assert shown["inside"] == inside
    assert sum(shown.values()) == len(test)
    draws = {"output.weight": np.zeros((2, 50, 1, 1)), "output.bias": np.random.default_rng(0).normal(size=(2, 50, 1))}
    draws["output.weight"][1] = 5.0  # the chains agree at x = 0 and disagree at x = 1
    model = models.linear(likelihood=models.Gaussian(scale=1.0))
    posterior = inference.Posterior(
        **{**_independent(np.random.default_rng(0)).__dict__, "model": model, "draws": draws}
    )
    lines = diagnostics.plots.traces(posterior, np.array([[0.0], [1.0]])).axes[0].lines
    assert abs(lines[0].get_ydata().mean() - lines[1].get_ydata().mean()) > 4
    with pytest.raises(TypeError, match="draws a classification"):
        diagnostics.plots.reliability(prediction, test)


def test_unknown_reference(regression):
    posteriors, test = regression
    with pytest.raises(ValueError, match=r"reference must be one of map, svi, nuts.*got 'hmc'"):
        diagnostics.compare(posteriors, test, reference="hmc")


def _text(path) -> str:
    return re.sub(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]+", "IMAGE", path.read_text())


def test_report_of_several(regression, tmp_path):
    posteriors, test = regression
    path = diagnostics.report(posteriors, test, path=tmp_path / "r.html", title="Three posteriors")
    page = _text(path)
    assert path.stat().st_size < 3_000_000
    assert "<h1>Three posteriors</h1>" in page
    assert page.index(diagnostics.convergence(posteriors["nuts"]).verdict.split("(")[0]) < page.index("<table")
    assert "Comparison on diabetes, test" in page
    assert "Distances are to nuts" in page
    assert page.count("IMAGE") == 2 + 2 + 3
    assert page.count("alt=") == page.count("<img")
    assert "hidden0.weight" in page
    assert "jax 0." in page


def test_report_has_nothing_from_outside(regression, tmp_path):
    posteriors, test = regression
    page = _text(diagnostics.report(posteriors, test, path=tmp_path / "r.html"))
    assert set(re.findall(r"(?:src|href|url|@import)\s*[=(]\s*[\"']?([^\"'\s>)]*)", page)) == {"IMAGE"}
    assert "<script" not in page
    assert "default-src 'none'" in page


def test_report_of_one_and_without_test_data(classification, tmp_path):
    posteriors, test = classification
    page = _text(diagnostics.report(posteriors["a"], test, path=tmp_path / "r.html"))
    assert "Scores on moons, test" in page
    page = _text(diagnostics.report(posteriors["a"], path=tmp_path / "r.html"))
    assert "Scores" not in page
    assert "Convergence failed" in page


def test_report_escapes_what_it_shows(classification, tmp_path):
    posteriors, test = classification
    hostile = "<script>alert(1)</script>"
    split = data.Split(test.x, test.y, test.scaler, hostile, test.classes)
    posterior = posteriors["a"]
    draws = {f"{hostile}{name}": values for name, values in posterior.draws.items()} | posterior.draws
    spoiled = inference.Posterior(**{**posterior.__dict__, "draws": draws})
    page = _text(diagnostics.report({hostile: spoiled}, split, path=tmp_path / "r.html", title=hostile))
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4


def test_report_of_a_users_own_model(tmp_path):
    import numpyro
    import numpyro.distributions as dist

    def mine(y=None):
        w = numpyro.sample("w", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(w, 1), obs=y)

    posterior = inference.run(mine, np.float32(0.5), method="nuts", chains=2, draws=50, warmup=50, progress=False)
    page = _text(diagnostics.report(posterior, path=tmp_path / "r.html"))
    assert "mine" in page


def test_report_of_nothing():
    with pytest.raises(ValueError, match="at least one posterior"):
        diagnostics.report({})


def test_band_for_one_input():
    train, test = data.load("gap").split()
    posterior = inference.run(MODEL, train, method="svi", steps=100, draws=20, progress=False)
    figure = diagnostics.plots.band({"svi": posterior.predict(test)}, test.x, (train.x, train.y))
    assert figure.axes[0].get_legend_handles_labels()[1] == ["svi", "observed"]
