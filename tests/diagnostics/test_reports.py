"""The report: what it says, that it is self-contained, and that it escapes what it shows."""

from __future__ import annotations

import re

import numpy as np
import pytest

import data
import diagnostics
import inference


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
