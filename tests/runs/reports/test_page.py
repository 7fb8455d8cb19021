"""The report: what it says, that it is self-contained, and that it escapes what it shows."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import data
import diagnostics
import inference
import models
from diagnostics.reports.extreme_cases import cases
from diagnostics.reports.model_table import layers
from diagnostics.reports.page import default_reference


def _text(path) -> str:
    return re.sub(r"data:image/(svg\+xml|png);base64,[A-Za-z0-9+/=]+", r"IMAGE-\1", path.read_text())


def _headings(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_report_of_several(regression, tmp_path):
    posteriors, test = regression
    path = diagnostics.report(posteriors, test, path=tmp_path / "r.html", title="Three posteriors")
    page = _text(path)
    assert path.stat().st_size < 3_000_000
    assert "<h1>Three posteriors</h1>" in page
    judged = diagnostics.convergence(posteriors["nuts"])
    assert page.index("nuts: not to be relied on yet") < page.index(judged.verdict) < page.index("<table")
    assert page.index("What to do next.") < page.index("Distances to nuts on the test data") < page.index("<table")
    assert judged.advice[0].split(":")[0] in page
    assert _headings(page) == [
        "Comparison on diabetes, test", "Data and model", "Cost", "map", "svi", "nuts", "How to reproduce",
    ]  # fmt: skip
    assert "scores minus those of nuts" in page.lower()
    assert "nuts to itself" in page
    for title in ("R-hat of weights", "Effective draws", "Trace of", "Ranks of", "Energy, and its change", "Loss"):
        assert f'alt="{title}' in page
    assert page.count("alt=") == page.count("<img")
    for cell in (
        "<td>hidden0.weight</td><td>10 x 3</td><td>30</td>",
        "Normal(0, 0.316)",
        "HalfNormal(1)",
        "<dd>398 of y",
    ):
        assert cell in page
    assert "jax 0." in page


def test_report_has_nothing_from_outside(regression, tmp_path):
    posteriors, test = regression
    page = _text(diagnostics.report(posteriors, test, path=tmp_path / "r.html"))
    assert set(re.findall(r"(?:src|href|url|@import)\s*[=(]\s*[\"']?([^\"'\s>)]*)", page)) == {"IMAGE-svg+xml"}
    assert "<script" not in page
    assert "default-src 'none'" in page


def test_report_of_one_and_without_test_data(classification, tmp_path):
    posteriors, test = classification
    page = _text(diagnostics.report(posteriors["a"], test, path=tmp_path / "r.html"))
    assert _headings(page) == ["Scores on moons, test", "Data and model", "Cost", "nuts", "How to reproduce"]
    assert "Predictions on moons, test" in page
    assert "scores minus" not in page.lower()
    assert "The least certain test cases" in page
    page = _text(diagnostics.report(posteriors["a"], path=tmp_path / "r.html"))
    assert _headings(page) == ["Data and model", "Cost", "nuts", "How to reproduce"]
    assert "Predictions" not in page
    assert "Convergence failed" in page


def test_one_input_is_shown_as_a_band(tmp_path):
    train, test = data.load("gap").split()
    posterior = inference.run(models.mlp((3,)), train, method="svi", steps=100, draws=30, progress=False)
    page = _text(diagnostics.report(posterior, test, path=tmp_path / "r.html"))
    assert "Mean and 90 % interval along the input" in page
    assert "Observed against predicted" not in page


def test_noise_without_a_variance_has_no_parts(tmp_path):
    train, test = data.load("gap").split()
    model = models.linear(likelihood=models.StudentTNoise(df=1.5))
    posterior = inference.run(model, train, method="svi", steps=50, draws=30, progress=False)
    page = _text(diagnostics.report(posterior, test, path=tmp_path / "r.html"))
    assert "Coverage of central intervals" in page
    assert "Uncertainty in parts" not in page
    assert "test cases" not in page


def test_images_are_shown_as_images(tmp_path):
    train, test = data.load("digits").split(seed=0)
    few = data.Split(train.x[:60], train.y[:60], train.scaler, "digits", 10, train.picture)
    model = models.logistic(classes=10)
    posterior = inference.run(model, few, method="svi", steps=50, draws=30, progress=False)
    page = _text(diagnostics.report(posterior, test, path=tmp_path / "r.html"))
    assert page.count("IMAGE-png") == 10


@pytest.mark.parametrize(("shape", "shown"), [((8, 8, 1), True), ((5, 4, 3), True), ((8, 8, 2), False), ((64,), False)])
def test_arrays_that_are_images_are_shown_as_images(classification, shape, shown):
    posteriors, test = classification
    prediction = posteriors["a"].predict(test)
    x = np.random.default_rng(0).normal(size=(len(test.y), *shape))
    most, least = cases(prediction, (x, test.y), 2)
    assert [case.image.startswith("data:image/png") for case in (*most, *least)] == [shown] * 4


def test_cases_are_the_most_and_the_least_certain(classification, regression):
    posteriors, test = classification
    prediction = posteriors["a"].predict(test)
    most, least = cases(prediction, test, 3)
    order = np.argsort(prediction.total, kind="stable")
    assert [case.row for case in most] == order[:3].tolist()
    assert [case.row for case in least] == order[::-1][:3].tolist()
    for case in (*most, *least):
        top = prediction.probs[case.row].argmax()
        assert case.predicted == f"class {top} with {prediction.probs[case.row, top]:.2f}"
        assert case.observed == f"class {test.y[case.row]}"
        assert case.right == (top == test.y[case.row])
        assert case.epistemic == pytest.approx(prediction.epistemic[case.row] / prediction.total[case.row])
    posteriors, test = regression
    restored = test.restore(posteriors["nuts"].predict(test))
    _, (case, *_) = cases(posteriors["nuts"].predict(test), test)
    assert case.row == restored.total.argmax()
    lower, upper = (bound[case.row] for bound in restored.interval(0.9))
    assert case.predicted == f"{restored.mean[case.row]:.3g} (90 %: {lower:.3g} to {upper:.3g})"
    assert case.right == (lower <= test.y_original[case.row] <= upper)
    assert cases(posteriors["map"].predict(test), test) == ((), ())  # one noise for all: none is more certain


def test_priors_are_spelled_with_their_numbers():
    model = models.mlp((2,), prior=models.Hierarchical(), likelihood=models.StudentTNoise(df=3.0))
    x, y = np.random.default_rng(0).normal(size=(2, 20))
    posterior = inference.run(model, x[:, None], y, method="svi", steps=5, draws=5, progress=False)
    found = {layer.name: layer for layer in layers(posterior)}
    assert list(found)[:3] == ["hidden0.scale", "hidden0.weight.standard", "hidden0.bias.standard"]
    assert found["hidden0.weight.standard"] == ("hidden0.weight.standard", "1 x 2", 2, "Normal(0, 1)")
    assert found["noise"] == ("noise", "scalar", 1, "HalfNormal(1)")
    flat = inference.run(models.linear(models.Flat()), x[:, None], y, method="map", steps=5, progress=False)
    assert layers(flat)[0].prior.startswith("ImproperUniform")


def test_report_of_a_run_that_is_under_way(tmp_path):
    train, test = data.load("gap").split()
    directory = tmp_path / "run"
    options = {"chains": 2, "warmup": 20, "max_tree_depth": 3, "progress": False}
    inference.run(models.linear(), train, method="nuts", draws=30, directory=directory, **options)
    page = _text(diagnostics.report(directory, test, path=tmp_path / "r.html"))
    assert "nuts: not to be relied on yet" in page
    unfinished = replace(inference.load(directory), ended="unfinished")
    page = _text(diagnostics.report({"mine": unfinished}, test, path=tmp_path / "r.html"))
    assert "(not finished)" in page


def test_a_report_of_draws_that_were_not_kept(tmp_path):
    train, test = data.load("gap").split()
    posterior = inference.run(
        models.linear(),
        train,
        method="nuts",
        draws=50,
        warmup=20,
        chains=2,
        keep="none",
        predict_at=test,
        progress=False,
    )
    page = _text(diagnostics.report(posterior, test, path=tmp_path / "r.html"))
    assert "Predictions" not in page
    assert "its draws were not kept" in page
    assert "R-hat of weights and of functions" in page


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


def test_each_architecture_is_described(regression, tmp_path):
    posteriors, test = regression
    train, _ = data.load("diabetes").split(seed=0)
    linear = inference.run(models.linear(), train, method="map", steps=5, progress=False)
    page = _text(diagnostics.report({"nuts": posteriors["nuts"], "line": linear}, test, path=tmp_path / "r.html"))
    assert "<strong>line</strong>: Perceptron(hidden=()" in page
    assert page.count("<td>output.weight</td>") >= 2


def test_the_reference_is_exact_chains_unless_it_is_named(regression, tmp_path):
    posteriors, test = regression
    biased = replace(posteriors["nuts"], method=inference.SGLD(draws=100))
    assert default_reference({"sgld": biased, **posteriors}) == "nuts"
    assert default_reference({"sgld": biased}) == "sgld"
    assert default_reference({"map": posteriors["map"]}) is None
    for given in (posteriors, posteriors["nuts"]):
        with pytest.raises(ValueError, match=r"reference must be one of .*nuts, got 'hmc'"):
            diagnostics.report(given, test, path=tmp_path / "r.html", reference="hmc")


@pytest.mark.parametrize(("given", "message"), [(42, "got int"), ([1], "got list")])
def test_what_can_not_be_reported(given, message):
    with pytest.raises(TypeError, match=message):
        diagnostics.report(given)


def test_a_full_disk_leaves_the_page_that_was_there(classification, tmp_path, monkeypatch):
    posteriors, _ = classification
    (tmp_path / "r.html").write_text("the last one")

    def full(path, text, **options):
        path.write_bytes(text[:100].encode())
        raise OSError(28, "no space left")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(OSError, match="no space left"):
        diagnostics.report(posteriors, path=tmp_path / "r.html")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"the last one"]


def test_report_of_nothing():
    with pytest.raises(ValueError, match="at least one posterior"):
        diagnostics.report({})
