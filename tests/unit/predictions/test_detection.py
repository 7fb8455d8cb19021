"""Detection of points outside, against scikit-learn, closed forms and hand-made cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

import models
from diagnostics.predictions import detection
from diagnostics.predictions.averaging import average
from diagnostics.predictions.detection import out_of_distribution
from inference.results.prediction import Prediction


def _normal(inside: int, outside: int, distance: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(size=inside), generator.normal(distance, 1, outside)


def _values(separation) -> np.ndarray:
    return np.array([each.value for each in (separation.auroc, separation.aupr_out, separation.aupr_in,
                                             separation.fpr95_out, separation.fpr95_in)])  # fmt: skip


def test_perfect_reversed_and_empty_scores():
    low, high = np.arange(10.0), np.arange(10.0, 15.0)
    perfect = out_of_distribution(low, high)["score"]
    assert _values(perfect).tolist() == [1, 1, 1, 0, 0]
    assert (perfect.auroc.lower, perfect.auroc.upper) == (1, 1)
    backwards = out_of_distribution(high, low)["score"]
    assert (backwards.auroc.value, backwards.fpr95_out.value, backwards.fpr95_in.value) == (0, 1, 1)
    nothing = out_of_distribution(np.zeros(10), np.zeros(5))["score"]
    np.testing.assert_allclose(_values(nothing), [0.5, 1 / 3, 2 / 3, 1, 1])


def test_fpr95_needs_nineteen_of_twenty():
    # One outside point may be missed of 20, none of 19: the threshold is the 19th highest outside score.
    inside, outside = np.array([0.0, 1.5, 2.5, 30.0]), np.arange(1.0, 21.0)
    assert out_of_distribution(inside, outside)["score"].fpr95_out.value == 2 / 4  # flagged from 2 on
    assert out_of_distribution(inside, outside[:-1])["score"].fpr95_out.value == 3 / 4  # from 1 on


def test_intervals_hold_the_known_auroc_as_often_as_they_say():
    # Of normals at a distance d it is Phi(d / sqrt 2). Percentile intervals of 100 + 100 points hold it in 0.89 of
    # cases instead of 0.9 (800 repetitions); 4 binomial errors of 200 repetitions are 0.085.
    distance, level, repetitions = 1.0, 0.9, 200
    truth = scipy.stats.norm.cdf(distance / np.sqrt(2))
    held, values, widths = 0, [], []
    for seed in range(repetitions):
        found = out_of_distribution(*_normal(100, 100, distance, seed), level=level, resamples=200, seed=seed)["score"]
        held += found.auroc.lower <= truth <= found.auroc.upper
        values.append(found.auroc.value)
        widths.append(found.auroc.upper - found.auroc.lower)
    error = np.sqrt(level * (1 - level) / repetitions)
    assert abs(held / repetitions - level) < 4 * error
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / np.sqrt(repetitions)
    expected = 2 * scipy.stats.norm.ppf((1 + level) / 2) * np.std(values)  # the error of `values` is 5 %
    assert np.mean(widths) == pytest.approx(expected, rel=0.2)


def test_intervals_depend_on_the_seed_and_not_on_how_many_resamples_are_worked_on_at_once(monkeypatch):
    scores = _normal(30, 20, 1.0, seed=5)
    whole, other = out_of_distribution(*scores, resamples=50), out_of_distribution(*scores, resamples=50, seed=1)
    assert whole["score"].auroc.lower != other["score"].auroc.lower
    monkeypatch.setattr(detection, "_BLOCK", 7 * 50)  # seven resamples
    assert out_of_distribution(*scores, resamples=50)["score"] == whole["score"]


def _labels(rows: int, spread: float, seed: int) -> Prediction:
    generator = np.random.default_rng(seed)
    outputs = 2 * generator.normal(size=(1, 1, rows, 3)) + spread * generator.normal(size=(2, 10, rows, 3))
    return Prediction.of(models.Categorical(3), outputs, {})


def test_every_score_of_labels_is_what_its_name_says():
    inside, outside = _labels(60, 0.3, 0), _labels(40, 2.0, 1)
    found = out_of_distribution(inside, outside, resamples=20)
    assert list(found.separations) == ["epistemic", "total", "variation_ratio", "disagreement", "baseline"]
    assert (found.inside, found.outside) == (60, 40)
    for name, of in {
        "epistemic": lambda prediction: prediction.epistemic,
        "total": lambda prediction: prediction.total,
        "baseline": lambda prediction: 1 - prediction.probs.max(axis=1),
    }.items():
        assert found[name] == out_of_distribution(of(inside), of(outside), resamples=20)["score"], name
    votes = [each.outputs.argmax(axis=-1).reshape(20, -1) for each in (inside, outside)]
    frequencies = [np.stack([(each == k).mean(axis=0) for k in range(3)]).max(axis=0) for each in votes]
    assert found["disagreement"] == out_of_distribution(*(1 - each for each in frequencies), resamples=20)["score"]
    assert found["epistemic"].auroc.value > 0.9
    assert abs(found["variation_ratio"].auroc.value - found["baseline"].auroc.value) < 0.1  # which it estimates
    only = out_of_distribution(inside, outside, "total", resamples=20)
    assert only.separations == {"total": found["total"]}


def test_a_regression_and_an_average_have_scores_too():
    near, far = (
        Prediction.of(models.Gaussian(scale=0.5), width * np.random.default_rng(6).normal(size=(1, 50, 30, 1)), {})
        for width in (0.1, 1.0)
    )
    found = out_of_distribution(near, far, resamples=20)
    assert list(found.separations) == ["epistemic", "total"]
    assert found["epistemic"].auroc.value == 1
    both = [average({"a": each, "b": each}) for each in (_labels(30, 0.3, 0), _labels(30, 2.0, 1))]
    assert list(out_of_distribution(*both, resamples=20).separations)[-1] == "baseline"


def test_the_orientation_is_stated():
    found = out_of_distribution(_labels(30, 0.3, 0), _labels(10, 2.0, 1), resamples=20)
    assert "outside is the positive class; a larger score means more outside" in found.orientation
    words = str(found)
    assert found.orientation in words
    assert "the share of points inside that are flagged when 95 % of those outside are" in words
    assert "baseline: 1 - the maximum probability" in words
    assert "30 points inside, 10 outside; 95% bootstrap intervals" in words
    assert "AUPR-out 0.250 and AUPR-in 0.750" in words
    row = next(line for line in words.splitlines() if line.startswith("epistemic"))
    assert row.split()[1] == f"{found['epistemic'].auroc.value:.3f}"
    assert "baseline" not in str(out_of_distribution(np.arange(3), np.arange(3), resamples=2))


def test_one_kind_of_points_alone_is_refused():
    scores, prediction = np.arange(5.0), _labels(5, 1.0, 0)
    for inside, outside in ((scores, None), (None, scores), (prediction, None)):
        with pytest.raises(ValueError, match="needs points inside and outside: on one kind alone there is nothing"):
            out_of_distribution(inside, outside)
    with pytest.raises(ValueError, match=r"outside must have at least 2 points, got 0: on one kind of points alone"):
        out_of_distribution(scores, [])
    with pytest.raises(ValueError, match=r"inside must have at least 2 points, got 1"):
        out_of_distribution([1.0], scores)


def test_what_does_not_go_together_is_refused():
    labels, scores = _labels(5, 1.0, 0), np.arange(5.0)
    regression = Prediction.of(models.Gaussian(scale=0.5), np.zeros((1, 2, 5, 1)), {})
    two = Prediction.of(models.Gaussian(scale=0.5, outputs=2), np.zeros((1, 2, 5, 2)), {})
    with pytest.raises(
        TypeError, match="predictions of one kind, or both arrays of scores, got Classification and nda"
    ):
        out_of_distribution(labels, scores)
    with pytest.raises(TypeError, match="got Classification and Regression"):
        out_of_distribution(labels, regression)
    other = Prediction.of(models.Gaussian(scale=0.6), np.zeros((1, 2, 5, 1)), {})
    restored = regression.rescaled(np.zeros(()), np.ones(()))
    mixtures = [average({"a": labels, "b": labels}, weights) for weights in (None, {"a": 0.1, "b": 0.9})]
    for pair in ((regression, other), (regression, restored), mixtures):
        with pytest.raises(ValueError, match="predictions of the same model in the same units"):
            out_of_distribution(*pair)
    with pytest.raises(ValueError, match=r"the variances of 2 targets are not one score; .*epistemic.sum\(axis=1\)"):
        out_of_distribution(two, two)


def test_wrong_options_are_refused():
    labels, scores = _labels(5, 1.0, 0), np.arange(5.0)
    with pytest.raises(ValueError, match=r"score must be one of 'epistemic', .*did you mean 'epistemic'"):
        out_of_distribution(labels, labels, "epistemics")
    with pytest.raises(ValueError, match="score chooses among those of a prediction, got 'total' with arrays"):
        out_of_distribution(scores, scores, "total")
    with pytest.raises(ValueError, match="level must be below 1, got 95"):
        out_of_distribution(scores, scores, level=95)
    with pytest.raises(ValueError, match="resamples must be at least 2, got 1"):
        out_of_distribution(scores, scores, resamples=1)
    with pytest.raises(ValueError, match="outside must be finite, got NaN at row 1"):
        out_of_distribution(scores, [0.0, np.nan])
    with pytest.raises(ValueError, match=r"inside must be one score per point, shape \(n,\), got \(5, 1\)"):
        out_of_distribution(scores[:, None], scores)


def _by_sklearn(inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    is_outside = np.repeat([0, 1], [len(inside), len(outside)])
    scores = np.concatenate([inside, outside])

    def rate(positive: np.ndarray, score: np.ndarray) -> float:
        false, true, _ = sklearn.metrics.roc_curve(positive, score, drop_intermediate=False)
        return false[np.argmax(true >= 0.95)]

    return np.array([
        sklearn.metrics.roc_auc_score(is_outside, scores),
        sklearn.metrics.average_precision_score(is_outside, scores),
        sklearn.metrics.average_precision_score(1 - is_outside, -scores),
        rate(is_outside, scores),
        rate(1 - is_outside, -scores),
    ])  # fmt: skip


@pytest.mark.parametrize("digits", [None, 1, 0], ids=["no ties", "some ties", "many ties"])
@pytest.mark.parametrize("sizes", [(200, 60), (33, 100), (20, 20), (7, 2)], ids=str)
def test_the_numbers_are_those_of_scikit_learn(sizes, digits):
    inside, outside = _normal(*sizes, 1.2, seed=sizes[0])
    if digits is not None:
        inside, outside = inside.round(digits), outside.round(digits)
    found = out_of_distribution(inside, outside, resamples=2)["score"]
    np.testing.assert_allclose(_values(found), _by_sklearn(inside, outside), rtol=1e-12)


def test_all_intervals_are_those_of_a_plain_bootstrap():
    # Of as many points, both sorted: drawing the same places of both would be seen.
    inside, outside = (np.sort(values.round(1)) for values in _normal(60, 60, 1.0, seed=3))
    found = out_of_distribution(inside, outside, level=0.8, resamples=2000)["score"]
    generator = np.random.default_rng(4)
    drawn = [_by_sklearn(generator.choice(inside, 60), generator.choice(outside, 60)) for _ in range(400)]
    plain = np.quantile(drawn, [0.1, 0.9], axis=0)
    density = scipy.stats.norm.pdf(scipy.stats.norm.ppf(0.9)) / np.std(drawn, axis=0)
    error = np.sqrt(0.1 * 0.9 * (1 / 400 + 1 / 2000)) / density  # of a quantile, from both numbers of resamples
    steps = np.array([0, 0, 0, 1 / 60, 1 / 60])  # in which FPR95 moves
    ours = np.array([(each.lower, each.upper) for each in vars(found).values()])
    for bound, other in zip(ours.T, plain, strict=True):
        assert (np.abs(bound - other) <= 4 * error + steps + 1e-12).all(), (bound, other)
