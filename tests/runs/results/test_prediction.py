"""Predictions against closed forms and against NumPyro's own densities."""

from __future__ import annotations

import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats

from tests.helpers.made_up_predictions import regression


@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"outputs": 3}])
def test_log_density_agrees_with_numpyro(options):
    prediction = regression(**options)
    y = np.random.default_rng(2).normal(size=prediction.mean.shape)
    several = prediction.likelihood.outputs > 1
    means = prediction.outputs if several else prediction.outputs[..., 0]
    per_draw = np.asarray(dist.Normal(means, prediction.noise).log_prob(y))
    per_draw = (per_draw.sum(axis=-1) if several else per_draw).reshape(10, 7)
    np.testing.assert_allclose(prediction.log_prob(y), np.log(np.exp(per_draw).mean(axis=0)), rtol=2e-5)
    np.testing.assert_allclose(prediction.log_prob_by_draw(y).reshape(10, 7), per_draw, rtol=2e-5)
    each = scipy.stats.norm(means, prediction.noise).cdf(y)
    np.testing.assert_allclose(prediction.cdf_by_draw(y), each)
    np.testing.assert_allclose(prediction.cdf(y), each.mean(axis=(0, 1)))
