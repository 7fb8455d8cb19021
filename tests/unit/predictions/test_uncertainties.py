"""The parts of an uncertainty, the measures for labels, and their figure, against hand-made cases."""

from __future__ import annotations

import numpy as np
import pytest

import models
from diagnostics.plots.predictions import uncertainty_split
from diagnostics.predictions.averaging import average
from diagnostics.predictions.uncertainties import uncertainty
from inference.results.prediction import Prediction

SURE = 1e4  # a logit that leaves no doubt


def _regression(rows: int = 7, **options) -> Prediction:
    likelihood = models.Gaussian(scale=0.3, **options)
    outputs = np.random.default_rng(0).normal(size=(2, 5, rows, likelihood.outputs))
    return Prediction.of(likelihood, outputs * np.linspace(0, 1, rows)[:, None], {})


def _labels(rows: int = 7, draws: int = 5) -> Prediction:
    return Prediction.of(models.Categorical(3), 2 * np.random.default_rng(1).normal(size=(2, draws, rows, 3)), {})


def _votes(*labels: int) -> Prediction:
    """One input, and for each draw the label of which it is sure."""
    return Prediction.of(models.Categorical(3), SURE * np.eye(3)[list(labels)].reshape(1, len(labels), 1, 3), {})


@pytest.mark.parametrize("prediction", [_regression(), _regression(outputs=2), _labels()], ids=["one", "two", "labels"])
def test_the_parts_are_those_of_the_prediction_and_their_shares_add_up(prediction):
    found = uncertainty(prediction)
    for part in ("total", "epistemic", "aleatoric"):
        np.testing.assert_array_equal(getattr(found, part), getattr(prediction, part))
    np.testing.assert_allclose(found.epistemic_share, prediction.epistemic / prediction.total)
    np.testing.assert_allclose(found.aleatoric_share, prediction.aleatoric / prediction.total)
    np.testing.assert_allclose(found.epistemic_share + found.aleatoric_share, 1)
    assert found.structure is None


def test_shares_where_there_is_no_uncertainty_are_not_numbers():
    found = uncertainty(_votes(1, 1))
    assert found.total.tolist() == [0.0]
    assert np.isnan(found.epistemic_share).all()
    assert np.isnan(found.aleatoric_share).all()


def test_units_and_words():
    prediction = _regression()
    found = uncertainty(prediction)
    assert found.unit == "in the units of y, squared"
    restored = uncertainty(prediction.rescaled(np.zeros(()), np.asarray(10.0)))
    assert restored.unit == "in the data's own units of y, squared"
    np.testing.assert_allclose(restored.total, 100 * found.total)
    share = prediction.epistemic.mean() / prediction.total.mean()
    assert f"epistemic ({share:.0%}) and 0.09 aleatoric ({1 - share:.0%})" in str(found)
    assert found.variation_ratio is found.disagreement is found.maximum_probability is None
    assert "nats" in str(uncertainty(_labels()))
    assert "disagreement" in str(uncertainty(_labels()))
    assert "0 epistemic and 0 aleatoric" in str(uncertainty(_votes(0)))


def test_votes_by_hand():
    found = uncertainty(_votes(0, 0, 0, 1, 1, 2))  # each draw is sure, so sampled labels are the most probable ones
    assert found.variation_ratio == pytest.approx([0.5])
    assert found.disagreement == pytest.approx([0.5])
    assert found.maximum_probability == pytest.approx([0.5])


def test_sampled_and_most_probable_labels_differ_where_draws_are_unsure_but_agree():
    draws, rows = 400, 50
    logits = np.log([0.6, 0.3, 0.1]) * np.ones((4, draws // 4, rows, 3))
    found = uncertainty(Prediction.of(models.Categorical(3), logits, {}))
    assert (found.disagreement == 0).all()
    np.testing.assert_allclose(found.maximum_probability, 0.6)
    error = np.sqrt(0.6 * 0.4 / draws)
    assert (np.abs(found.variation_ratio - 0.4) < 5 * error).all()
    assert found.variation_ratio.std() == pytest.approx(error, rel=5 / np.sqrt(2 * rows))  # labels are sampled
    assert abs(found.variation_ratio.mean() - 0.4) < 5 * error / np.sqrt(rows)


def test_the_seed_is_that_of_the_labels():
    prediction = _labels()
    first, again, other = (uncertainty(prediction, seed).variation_ratio for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_point_estimate_has_no_epistemic_part_and_no_disagreement():
    found = uncertainty(Prediction.of(models.Bernoulli(), np.array([0.3, -2.0]).reshape(1, 1, 2, 1), {}))
    assert found.epistemic.tolist() == found.disagreement.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(found.maximum_probability, [1 / (1 + np.exp(-0.3)), 1 / (1 + np.exp(-2.0))])


def test_an_average_counts_by_weight_and_not_by_draws():
    mixture = average({"a": _votes(0), "b": _votes(1, 1, 1, 2)}, {"a": 0.4, "b": 0.6})
    found = uncertainty(mixture)  # label 0 has 0.4, label 1 has 0.6 * 3/4, label 2 the rest
    for measure in (found.variation_ratio, found.disagreement, 1 - found.maximum_probability):
        assert measure == pytest.approx([0.55])
    np.testing.assert_array_equal(found.structure, mixture.structure)
    assert "is about the structure" in str(found)


def test_what_is_no_prediction_is_refused():
    with pytest.raises(TypeError, match="prediction must be what predict gives for a network, or an average of such"):
        uncertainty(np.zeros(3))
    with pytest.raises(ValueError, match="has no variance"):
        uncertainty(Prediction.of(models.StudentTNoise(df=2.0, scale=1.0), np.zeros((1, 1, 2, 1)), {}))


def _tops(figure) -> list[np.ndarray]:
    """The upper edge of each part, from the lowest one up."""
    return [patch.get_data().values for patch in figure.axes[0].patches]


@pytest.mark.parametrize("prediction", [_regression(), _regression(outputs=2), _labels()], ids=["one", "two", "labels"])
def test_the_figure_stacks_the_parts_in_the_order_of_their_sum(prediction):
    figure = uncertainty_split(prediction, title="Where it is unsure")
    order = np.argsort(prediction.total, axis=None)
    lower, upper = _tops(figure)
    np.testing.assert_allclose(lower, prediction.epistemic.ravel()[order])
    np.testing.assert_allclose(upper, prediction.total.ravel()[order])
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "Where it is unsure"
    assert axes.get_ylabel() == ("entropy (nats)" if prediction.likelihood.classes else "variance")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "aleatoric",
        "epistemic",
    ]  # as they are stacked


def test_a_figure_of_many_inputs_keeps_their_means():
    prediction = _regression(rows=1203)
    lower, upper = _tops(uncertainty_split(prediction))
    assert len(upper) == 500
    widths = np.diff(uncertainty_split(prediction).axes[0].patches[0].get_data().edges)
    assert widths.sum() == 1203
    assert widths @ upper == pytest.approx(prediction.total.sum())
    assert widths @ lower == pytest.approx(prediction.epistemic.sum())
    assert (np.diff(upper) >= 0).all()


def test_the_figure_of_an_average_shows_the_structure():
    mixture = average({"a": _labels(), "b": _votes_like(_labels())})
    structure, epistemic, total = _tops(uncertainty_split(mixture))
    order = np.argsort(mixture.total)
    np.testing.assert_allclose(structure, mixture.structure[order])
    np.testing.assert_allclose(epistemic, mixture.epistemic[order])
    np.testing.assert_allclose(total, mixture.total[order])


def _votes_like(prediction: Prediction) -> Prediction:
    return Prediction.of(prediction.likelihood, -prediction.outputs, {})
