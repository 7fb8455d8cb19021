"""Small networks for images and tokens, run as perceptrons are: posteriors, guides with masks, reports, directories."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from numpyro import handlers

import diagnostics
import inference
import models
from inference.target.binding import bind
from inference.variational.dropout import Dropout

GENERATOR = np.random.default_rng(0)
IMAGES = GENERATOR.normal(size=(24, 8, 8, 1)).astype(np.float32)
TOKENS = GENERATOR.integers(0, 7, (24, 9))
BRIGHT = (IMAGES.mean(axis=(1, 2, 3)) > 0).astype(int)
LENET = models.lenet((2,), (3,), 3, "tanh", likelihood=models.Categorical(2))
RECURRENT = models.cnn_lstm(7, 3, 2, 3, 2, 3, "tanh", likelihood=models.Categorical(2))
HMC = dict(method="hmc", chains=2, draws=6, warmup=4, tuning=20, start="random", progress=False)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("run") / "a"


@pytest.fixture(scope="module")
def posterior(directory):
    return inference.run(LENET, IMAGES, BRIGHT, directory=directory, **HMC)


def test_hmc_on_images_moves_and_keeps_its_energy(posterior):
    assert posterior.draws["conv0.weight"].shape == (2, 6, 3, 3, 1, 2)
    assert posterior.statistics["acceptance_rate"].mean() > 0.5
    assert np.abs(posterior.statistics["energy_error"]).max() < 3
    assert np.ptp(posterior.draws["conv0.weight"], axis=1).min() > 0
    assert posterior.predict(IMAGES[:5]).mean.shape == (5, 2)


def test_a_directory_a_verdict_and_a_report_work_for_images(posterior, directory, tmp_path):
    loaded = inference.load(directory)
    assert loaded.model == LENET
    np.testing.assert_array_equal(loaded.draws["conv0.weight"], posterior.draws["conv0.weight"])
    functions = diagnostics.convergence(posterior).functions
    assert functions is not None
    diagnostics.report(posterior, (IMAGES, BRIGHT), path=tmp_path / "report.html")
    assert "LeNet" in (tmp_path / "report.html").read_text()


def test_blocks_of_images_sum_to_the_whole():
    target, data = bind(LENET, (IMAGES, BRIGHT), 1.0, "posterior", 24)[:2]
    blocked, _ = bind(LENET, (IMAGES, BRIGHT), 1.0, "posterior", 8)[:2]
    assert (target.block, blocked.block) == (0, 8)
    position, _ = target.start(jax.random.key(0), data)
    np.testing.assert_allclose(
        blocked.log_density(position, data), target.log_density(position, data), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(("rows", "block"), [(500, 20), (512, 16), (997, 16), (16, 0)])
def test_blocks_leave_no_rows_over_where_that_is_possible(rows, block):
    model = models.resnet20_frn(8, 1, likelihood=models.Categorical(2))
    x, y = np.zeros((rows, 4, 4, 1)), np.zeros(rows, int)
    target, _ = bind(model, (x, y), 1.0, "posterior")[:2]
    assert target.block == block


@pytest.mark.parametrize("model", [LENET, RECURRENT], ids=["images", "tokens"])
@pytest.mark.parametrize(
    "options",
    [dict(estimator="flipout"), dict(guide="dropout", rate=0.2), dict(guide="dropout", rate=0.2, per="weight")],
    ids=["flipout", "units", "weights"],
)
def test_guides_with_randomness_per_row(model, options):
    x = TOKENS if model is RECURRENT else IMAGES
    fit = inference.run(model, x, BRIGHT, method="svi", steps=30, draws=4, seed=0, progress=False, **options)
    assert all(np.isfinite(values).all() for values in fit.draws.values())
    if options.get("guide") == "dropout" and "per" not in options:  # a channel, or a word, is dropped as one
        dropped = fit.draws["embedding.weight" if model is RECURRENT else "hidden0.weight"] == 0
        assert (dropped.all(axis=-1) == dropped.any(axis=-1)).all()


@pytest.mark.parametrize("options", [dict(estimator="local"), dict(guide="dropout")], ids=["local", "dropout"])
def test_a_bias_that_is_made_of_other_sites_is_refused_too(options):
    model = models.mlp((3,), prior={"weight": 1.0, "bias": models.Hierarchical()}, likelihood=models.Categorical(2))
    with pytest.raises(ValueError, match="needs weights that are sites of their own; those of 'hidden0'"):
        inference.run(model, IMAGES[:, 0, :, 0], BRIGHT, method="svi", steps=5, progress=False, **options)


def test_local_reparameterisation_says_what_serves_instead():
    with pytest.raises(ValueError, match=r"'conv0' uses its own at many positions or times; use estimator=.flipout"):
        inference.run(LENET, IMAGES, BRIGHT, method="svi", estimator="local", steps=5, progress=False)


def test_a_word_is_dropped_in_all_its_places():
    """A word that a row's mask drops is dropped wherever it occurs."""
    guide = Dropout(rate=0.5)
    target, data = bind(RECURRENT, (np.tile(TOKENS[:1], (24, 1)), BRIGHT), 1.0, "posterior")[:2]
    position, _ = target.start(jax.random.key(0), data)
    parameters = guide.begin(target, data, position, jax.random.key(1))
    handler = guide.layers(parameters, jax.random.key(2))
    trace = handlers.trace(handler(handlers.substitute(RECURRENT.heads, data=position))).get_trace(data.arrays[0])
    values = np.asarray(trace["embedding"]["value"])
    table = np.asarray(parameters.matrices["embedding.weight"])
    for row, tokens in zip(values, np.asarray(data.arrays[0]), strict=True):
        for word in np.unique(tokens):
            kept = [bool(np.any(row[place])) for place in np.flatnonzero(tokens == word)]
            assert len(set(kept)) == 1
            if kept[0]:
                np.testing.assert_allclose(row[np.flatnonzero(tokens == word)[0]], table[word], rtol=1e-6)
    assert 0.2 < np.mean([np.any(values[i, 0]) for i in range(24)]) < 0.8  # rows differ in their masks


def test_words_through_rectifiers_and_a_maximum_have_a_gradient_inside_a_loop():
    """The compiler computes what is compared with the maximum twice, there: none may equal it."""
    model = models.cnn_lstm(12, 4, 3, 3, 2, 4, likelihood=models.Categorical(3))
    tokens = np.random.default_rng(0).integers(0, 12, size=(24, 16))
    found = inference.run(model, tokens, np.arange(24) % 3, method="map", steps=5, progress=False)
    assert np.isfinite(found.curves["loss"]).all()
