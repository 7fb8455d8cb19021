"""What notebooks show of records: escaped, cut to size, and never an error, whatever the record holds."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import diagnostics
import inference
import models
from diagnostics.checks.calibrations import ClassCalibration, Coverage, TargetCalibration
from diagnostics.checks.class_bins import Bins, Brier
from diagnostics.checks.leave_one_out import LeaveOneOut
from diagnostics.checks.posterior_predictive import PredictiveCheck
from diagnostics.convergences.spaces import Mixing
from diagnostics.predictions.detection import Detection, Estimate, Separation
from inference.display.cards import card
from inference.display.tables import Table
from inference.results.prediction import Prediction
from inference.results.scores import Scores
from inference.results.table_predictions import Rows
from tests.helpers.made_up_predictions import outputs, regression

HOSTILE = "<script>alert('taken')</script>"
NAN = np.nan


class _Reader(HTMLParser):
    """What a browser would make of a card: the tags, in their order, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data if self.open and self.open[-1] != "style" else ""


def _sweep(**change):
    shape = (2, 2)
    zeros = np.zeros(shape)
    facts = dict(rhat=zeros + NAN, unmixed=zeros.astype(bool), divergences=zeros.astype(int), seconds=zeros)
    return inference.Sweep(
        name="prior", values=(1.0, 2.0), labels=("1", HOSTILE), seeds=(0, 1), scores={"log_score": zeros + NAN},
        failures={(HOSTILE, 0): HOSTILE}, reference=0, gradients=zeros.astype(int), **{**facts, **change},
    )  # fmt: skip


def _convergence(chains):
    draws = np.random.default_rng(0).normal(size=(chains, 100, 3))
    weights = Mixing(draws, ("a", "b", "c"), 3)
    return diagnostics.Convergence("Fine.", True, (), "chains", weights=weights, thresholds={"rhat": 1.01, "ess": 400})


def _class_calibration():
    nothing = np.zeros(0)
    bins = Bins(nothing.astype(int), nothing, nothing, nothing, nothing)
    return ClassCalibration(NAN, NAN, NAN, 1, bins, NAN, NAN, NAN, Brier(NAN, NAN, NAN, NAN, NAN))


@pytest.fixture(scope="module")
def records(conjugate):
    """Records of every kind, odd ones among them: no draws, one chain, numbers that are not numbers, hostile names."""
    posterior = conjugate.exact(chains=1, draws=5)
    draws = np.full((1, 5, 3), NAN)
    unknown = Estimate(NAN, NAN, NAN)
    pit = np.full(3, NAN)
    return {
        "posterior": posterior,
        "hostile posterior": replace(
            posterior, draws={HOSTILE: np.full((1, 5), NAN)}, notes=(HOSTILE,), stopped={2: HOSTILE}, ended=HOSTILE
        ),
        "no draws": replace(posterior, draws={}, statistics={}),
        "no draws yet": replace(posterior, draws={"w": np.zeros((4, 0))}, ended="unfinished", temperature=0.5),
        "regression": regression(),
        "several outputs": regression(outputs=3),
        "one draw": Prediction.of(models.Gaussian(scale=0.5), outputs()[:1, :1], {}),
        "not a number": Prediction.of(models.Gaussian(scale=0.5), outputs() * NAN, {}),
        "no variance": Prediction.of(models.StudentTNoise(df=1.5, scale=0.5), outputs(), {}),
        "classes": Prediction.of(models.Categorical(3), outputs(3), {}),
        "classes that are no numbers": Prediction.of(models.Categorical(3), outputs(3) * NAN, {}),
        "no rows": regression().at(slice(0)),
        "prediction without draws": Prediction.of(models.Gaussian(scale=0.5), outputs()[:, :0], {}),
        "convergence": _convergence(chains=2),
        "one chain": _convergence(chains=1),
        "too few": diagnostics.convergence(conjugate.exact(chains=1, draws=2)),
        "hostile convergence": diagnostics.Convergence(
            HOSTILE, None, (HOSTILE,), "chains", (HOSTILE,), (HOSTILE,), weights=Mixing(draws[..., :0], (), 0)
        ),
        "comparison": diagnostics.Comparison(
            ({"method": HOSTILE, "rmse": NAN, "rmse_error": NAN, "seconds": NAN, "gradients": 0},), None, {}, {}
        ),
        "empty comparison": diagnostics.Comparison((), HOSTILE, {}, {}, HOSTILE),
        "sweep": _sweep(),
        "scores": Scores(rmse=0.1, log_score=NAN, **{HOSTILE: 1.0}),
        "calibration": TargetCalibration(NAN, NAN, NAN, 3, pit, Coverage.of(pit)),
        "calibration of classes": _class_calibration(),
        "leave one out": LeaveOneOut(NAN, NAN, NAN, pit, pit, 0.7, "made", None, HOSTILE),
        "predictive check": PredictiveCheck({HOSTILE: NAN}, {HOSTILE: draws[..., 0]}, {HOSTILE: NAN}, {HOSTILE: NAN}),
        "no replicates": PredictiveCheck({"max": 1.0}, {"max": np.zeros((1, 0))}, {"max": NAN}, {"max": NAN}),
        "prior check": diagnostics.PriorCheck(pit, draws, pit, {}, np.zeros((3, 5, 3)), None, HOSTILE),
        "uncertainty": diagnostics.Uncertainty(pit, pit, pit, HOSTILE),
        "detection": Detection({HOSTILE: Separation(*[unknown] * 5)}, 2, 2, 0.95),
        "average": diagnostics.average({HOSTILE: regression(), "other": regression()}),
    }


def test_every_card_is_sound_and_escaped(records):
    for name, record in records.items():
        page = record._repr_html_()
        reader = _Reader(page)
        assert reader.tags[:3] == ["style", "div", "strong"], name
        assert set(reader.tags) <= {"style", "div", "strong", "p", "ul", "li", "table", "caption", "thead", "tbody",
                                    "tr", "th", "td"}, name  # fmt: skip
        assert len(page) < 20_000, name
        text = repr(record)
        assert text, name
        assert len(text) < 2_000, (name, text)


@pytest.mark.parametrize("name", ["hostile posterior", "hostile convergence", "comparison", "empty comparison", "sweep",
                                  "scores", "leave one out", "predictive check", "prior check", "uncertainty",
                                  "detection", "average"])  # fmt: skip
def test_hostile_names_are_shown_as_they_are(name, records):
    assert HOSTILE in _Reader(records[name]._repr_html_()).text


def test_cards_say_what_there_is(records):
    def text(name):
        return _Reader(records[name]._repr_html_()).text

    assert "output.weight" in text("posterior")
    assert "5 draws" in text("posterior")
    assert "3 x 1" in text("posterior")
    assert "not finished" in text("no draws yet")
    assert "Temperature 0.5" in text("no draws yet")
    assert "nan ± nan" in text("hostile posterior")
    assert "Regression at 7 inputs by 2 x 5 draws" in text("regression")
    assert "6, output 1" in text("several outputs")
    assert "aleatoric" not in text("no variance").replace("aleatoric and sample", "")
    assert "Uncertainty in nats" in text("classes")
    assert "worst R-hat of weights" in text("convergence")
    assert "the higher the better" in text("scores")
    assert repr(records["scores"]).startswith("rmse 0.1, log_score nan")


def test_a_long_table_is_cut_and_says_so():
    rows = [(f"site{i}", "1") for i in range(45)]
    text = _Reader(card("Sites", Table("all", ("site", "values"), rows))).text
    assert "site19" in text
    assert "site20" not in text
    assert "and 25 more" in text


def test_a_prediction_computes_the_rows_it_shows_and_no_others(monkeypatch):
    large = Prediction.of(models.Gaussian(scale=0.5), np.zeros((1, 2, 5000, 1), np.float32), {})
    seen = []
    monkeypatch.setattr(models.Gaussian, "mean", lambda self, outputs: seen.append(outputs.shape) or outputs[..., 0])
    assert "the first 8 rows, 4,992 more are left out" in large._repr_html_()
    assert set(seen) == {(1, 2, 8, 1)}


def test_the_rows_of_a_table_have_its_names_and_those_of_its_classes():
    logits = np.array([[-5.0], [5.0], [5.0]])[None, None]
    rows = Rows(index=["house a", "house b", HOSTILE], classes=("cheap", "dear"))
    text = _Reader(replace(Prediction.of(models.Bernoulli(), logits, {}), rows=rows)._repr_html_()).text
    assert (
        text.index("house a") < text.index("cheap") < text.index("house b") < text.index("dear") < text.index(HOSTILE)
    )
    several = replace(Prediction.of(models.Gaussian(scale=1.0, outputs=2), np.zeros((1, 1, 3, 2)), {}), rows=rows)
    assert "house a, output 1" in _Reader(several._repr_html_()).text


def test_a_mark_is_good_news_or_bad():
    assert '"touchstone passed"' in card("x", passed=True)
    assert '"touchstone failed"' in card("x", passed=False)
    assert '"touchstone"' in card("x")
