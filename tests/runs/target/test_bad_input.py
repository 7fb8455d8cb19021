"""Wrong input gets an error that names the argument, what was expected, what came and what to do; nothing compiles."""

from __future__ import annotations

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import inference
import models

X = np.linspace(-1, 1, 12).reshape(6, 2)
Y = np.linspace(0, 1, 6)
MLP = models.mlp(hidden=(3,))


def _with(array, index, value):
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


def test_integer_targets_are_fine_for_regression():
    posterior = inference.run(MLP, X, np.arange(6), method="map", steps=5, progress=False)
    assert posterior.observed["y"].dtype == np.float32


def test_boolean_labels_are_fine():
    posterior = inference.run(models.logistic(), X, Y > 0.5, method="map", steps=5, progress=False)
    assert posterior.observed["y"].tolist() == [0, 0, 0, 1, 1, 1]


def test_prediction_at_other_inputs_than_in_the_run():
    posterior = inference.run(MLP, X, Y, method="map", steps=5, progress=False)
    with pytest.raises(ValueError, match=r"as many inputs per row as in run, got shape \(6, 3\)"):
        posterior.predict(np.zeros((6, 3)))
    with pytest.raises(ValueError, match=r"x must be finite, got NaN at row 0"):
        posterior.predict(_with(X, (0, 0), np.nan))
    with pytest.raises(ValueError, match=r"at most the 1 draws per chain"):
        posterior.predict(X, draws=2)
    with pytest.raises(ValueError, match=r"y must have shape \(6,\).*got \(5,\)"):
        posterior.predict(X).log_prob(Y[:5])


@pytest.mark.parametrize("method", list(inference.METHODS))
def test_start_of_infinite_density_names_the_site(method):
    def impossible(y):
        rate = numpyro.sample("rate", dist.Exponential(1.0))
        numpyro.sample("other", dist.Normal(0.0, 1.0))  # mclmc needs two unknowns
        numpyro.sample("y", dist.Normal(rate, 1e-30).expand((6,)).to_event(1), obs=y)

    with pytest.raises(ValueError, match=r"no initial point.*site 'y' \(log density -inf\)"):
        inference.run(impossible, Y + 1, method=method, progress=False)


def test_divergence_of_the_optimiser_names_step_and_rate():
    def cliff(y):
        w = numpyro.sample("w", dist.Normal(0, 1))
        numpyro.factor("cliff", jax.numpy.where(jax.numpy.abs(w) > 1.2, jax.numpy.nan, 10 * w))
        numpyro.sample("y", dist.Normal(w, 1).expand((6,)).to_event(1), obs=y)

    with pytest.raises(FloatingPointError, match=r"map: the loss became nan at step \d+ of 3000 with .*=0.5"):
        inference.run(cliff, Y, method="map", learning_rate=0.5, progress=False)
