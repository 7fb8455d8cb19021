"""Figures of plain numbers: means over repeats have their errors, and clouds all their draws."""

from __future__ import annotations

import numpy as np
import pytest

from diagnostics import plots


def test_lines_have_means_and_errors_over_repeats():
    x, repeats = np.array([1.0, 10.0, 100.0]), np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 9.0]])
    figure = plots.lines(x, {"one": x, "several": repeats}, {"theory": 2 * x}, xlabel="n", log="xy")
    axes = figure.axes[0]
    assert axes.get_legend_handles_labels()[1] == ["one", "several", "theory"]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), x)
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), [2.0, 3.0, 6.0])
    (bars,) = axes.collections
    lengths = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
    np.testing.assert_allclose(lengths, 4 * repeats.std(axis=0, ddof=1) / np.sqrt(2))
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_xlabel()) == ("log", "log", "n")
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "10", "100"]


def test_lines_that_do_not_fit():
    for values in (np.ones(3), np.ones((1, 2)), np.ones((2, 3))):
        with pytest.raises(ValueError, match=r"'a' must have shape \(2,\), or \(repeat, 2\)"):
            plots.lines([1.0, 2.0], {"a": values})
    with pytest.raises(ValueError, match="log must be"):
        plots.lines([1.0], {}, log="z")


def test_histograms_share_their_bins_and_few_numbers_are_lines():
    axes = plots.histograms({"draws": np.arange(100.0).reshape(4, 25), "modes": [120.0, 130.0]}, xlabel="lp").axes[0]
    filled, outline = axes.patches
    shares, edges, _ = outline.get_data()
    assert shares.sum() == pytest.approx(1.0)
    assert (edges[0], edges[-1]) == (0.0, 130.0)
    assert [line.get_xdata()[0] for line in axes.lines] == [120.0, 130.0]
    assert axes.get_legend_handles_labels()[1] == ["draws", "modes"]
    np.testing.assert_array_equal(filled.get_data().values, shares)
    with pytest.raises(ValueError, match="a must be finite"):
        plots.histograms({"a": [1.0, np.nan]})


def test_pairs_have_clouds_and_points():
    generator = np.random.default_rng(0)
    wide, narrow = generator.normal(size=(2, 4, 600)), 0.1 * generator.normal(size=(2, 50))
    axes = plots.pairs({"narrow": narrow, "wide": wide, "map": (1.0, 2.0)}, xlabel="slope").axes[0]
    few, many, point = axes.lines
    assert [len(line.get_xdata()) for line in axes.lines] == [50, 1000, 1]
    assert many.get_zorder() < few.get_zorder() < point.get_zorder()
    np.testing.assert_array_equal(few.get_ydata(), narrow[1])
    assert (point.get_xdata()[0], point.get_ydata()[0]) == (1.0, 2.0)
