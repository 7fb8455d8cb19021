"""Sweeps: their scores are those of single runs, their errors NumPy's, and their curves the exact tempered ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import data
import inference
import inference.sweeps.sweeping
import models

TRAIN, TEST = data.load("diabetes").split(seed=0)
NETWORK = models.linear(models.Normal(1.0, fan_in=True))
QUICK = dict(method="map", steps=5, tempering="likelihood", progress=False)


@pytest.fixture(scope="module")
def scales() -> inference.Sweep:
    return inference.sweep(NETWORK, TRAIN, TEST, prior_scale=[0.5, 1.0], seeds=[3, 5, 8], **QUICK)


def test_errors_and_paired_differences_are_numpys(scales):
    values = scales.scores["rmse"]
    assert values.shape == (2, 3)
    np.testing.assert_allclose(scales.mean("rmse"), values.mean(axis=1))
    np.testing.assert_allclose(scales.standard_error("rmse"), values.std(axis=1, ddof=1) / np.sqrt(3))
    assert scales.reference == 1  # the network's own prior
    found = scales.difference("rmse")
    gap = values[0] - values[1]
    np.testing.assert_allclose(found.mean, [gap.mean(), 0])
    np.testing.assert_allclose(found.standard_error, [gap.std(ddof=1) / np.sqrt(3), 0])
    p_value = scipy.stats.ttest_rel(values[0], values[1]).pvalue  # one difference: nothing to divide
    assert found.distinguishable.tolist() == [p_value < 0.05, False]
    other = scales.difference("rmse", reference=0.5)
    np.testing.assert_allclose(other.mean, [0, -gap.mean()])
    with pytest.raises(ValueError, match=r"reference must be one of 0\.5, 1, got 7"):
        scales.difference("rmse", reference=7)


def test_the_table_has_means_differences_and_a_conclusion(scales):
    text = str(scales)
    assert "mean ± standard error over 3 seeds" in text
    assert "paired differences to prior_scale 1" in text
    best = scales.labels[int(scales.mean("log_score").argmax())]
    assert f"log_score: prior_scale {best} is best" in text
    assert scales.best("rmse") == scales.values[int(scales.mean("rmse").argmin())]
    assert scales.best("coverage") == scales.values[int(np.abs(scales.mean("coverage") - 0.9).argmin())]
    with pytest.raises(ValueError, match="did you mean 'log_score'"):
        scales.mean("logscore")
