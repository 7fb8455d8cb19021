"""Figures show what they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import data
import diagnostics
import inference
import models


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
    posterior = replace(posteriors["nuts"], model=model, draws=draws)
    traces = diagnostics.plots.traces(posterior, np.array([[0.0], [1.0]])).axes[0]
    assert traces.get_ylabel() in traces.get_title(loc="left")
    lines = traces.lines
    assert abs(lines[0].get_ydata().mean() - lines[1].get_ydata().mean()) > 4
    with pytest.raises(TypeError, match="draws a classification"):
        diagnostics.plots.reliability(prediction, test)


def test_figures_of_what_there_is_not(regression):
    posteriors, test = regression
    for draw, name, message in (
        (diagnostics.plots.energies, "svi", "svi does not have: its run recorded no energy"),
        (diagnostics.plots.temperatures, "nuts", "nuts does not have: its run recorded no kinetic_temperature"),
        (diagnostics.plots.losses, "nuts", "nuts does not have: its run recorded no loss"),
        (diagnostics.plots.ranks, "map", "this figure is of chains of at least 4 draws; map gave 1 x 1"),
        (diagnostics.plots.traces, "svi", "of the kind 'guide'"),
    ):
        with pytest.raises(ValueError, match=message):
            draw(posteriors[name])
    with pytest.raises(TypeError, match="band needs predictions by name"):
        diagnostics.plots.band(posteriors["svi"].predict(test), test.x)
    for function in (diagnostics.average, diagnostics.stacking_weights):
        with pytest.raises(TypeError, match="by name"):
            function([1, 2])


def test_band_for_one_input():
    train, test = data.load("gap").split()
    model = models.mlp((3,), "tanh")
    posterior = inference.run(model, train, method="svi", steps=100, draws=20, progress=False)
    figure = diagnostics.plots.band({"svi": posterior.predict(test)}, test.x, (train.x, train.y))
    assert figure.axes[0].get_legend_handles_labels()[1] == ["svi", "observed"]
