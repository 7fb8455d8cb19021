"""The rules of the studies on tables, dropout, Bayes by Backprop and uncertainty, on made-up numbers, each way."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.ndimage import rotate

from data import Dataset
from experiments import (
    backprop_study,
    backprop_uci,
    catalogue,
    dropout_depth,
    dropout_digit,
    dropout_extrapolation,
    hmc_uci_study,
    twenty_rows,
    uncertainty_share,
    uncertainty_use,
)
from experiments.deciding import dots, on_all, pooled
from experiments.hmc_uci import SplitScore
from models.priors import Site
from models.rules import as_prior

WORDS = ["confirmed", "undecided", "contradicted"]
NOISE = np.random.default_rng(0).normal(size=(8, 6))
EACH_WAY = [(3.0, "confirmed"), (0.0, "undecided"), (-3.0, "contradicted")]  # by the shift, in deviations of the noise


def test_one_effect_contradicts_a_claim_about_all_of_them():
    assert on_all([(3.0, 1.0), (2.5, 1.0)]) == "confirmed"
    assert on_all([(3.0, 1.0), (1.5, 1.0)]) == "undecided"
    assert on_all([(3.0, 1.0), (1.5, 1.0), (-2.5, 1.0)]) == "contradicted"
    assert on_all([(3.0, float("nan"))]) == "undecided"


def test_pooled_effects_are_those_of_independent_means():
    assert pooled([(1.0, 3.0), (3.0, 4.0)]) == (2.0, 2.5)


def test_dots_have_two_standard_errors_and_a_cross_where_something_was_published():
    figure = dots({"boston": {"hmc": (-2.0, 0.1), "svi": (-3.0, float("nan"))}}, {"boston": {"hmc": -2.1}}, "nats")
    (panel,) = figure.axes
    assert [label.get_text() for label in panel.get_yticklabels()] == ["hmc", "svi"]
    bars = [segment for each in panel.collections for segment in each.get_segments()]
    np.testing.assert_allclose(bars[0][:, 0], [-2.2, -1.8])
    assert sum(line.get_marker() == "x" for line in panel.lines) == 1


@pytest.mark.parametrize(("others", "word"), [((-3.0, -3.1), "confirmed"), ((-3.0, -1.0), "contradicted")])
def test_hmc_must_be_the_best_on_every_set(others, word):
    def scores(mean: float) -> list[SplitScore]:
        return [SplitScore(1.0, mean + 0.01 * each, mean + 0.01 * each, 1.0, 500.0, True, 1.0) for each in NOISE[0]]

    both = zip(("boston", "yacht"), others, strict=True)
    found = {name: {"hmc": scores(-2.0), "svi": scores(other)} for name, other in both}
    for noise in ("inferred", "heteroscedastic"):
        finding = hmc_uci_study.of_sets(found, noise)
        assert finding.verdict == word
        assert finding.because.startswith("Boston: confirmed")
        assert set(finding.values["yacht"]["hmc"]) > {"rmse", "rhat"}
        assert len(finding.draw().axes) == 2


@pytest.mark.parametrize(("shift", "word"), EACH_WAY)
def test_depth_pays_if_the_log_likelihood_rises_on_average_over_sets(shift, word):
    error, score = NOISE[:2]
    sets = {
        name: np.array([[error, score], [error, score + noise + shift]])
        for name, noise in (("boston", NOISE[2]), ("naval", NOISE[3]))
    }
    assert dropout_depth.of_depths(sets).verdict == word


@pytest.mark.parametrize(("shift", "word"), EACH_WAY)
def test_passes_scatter_if_the_epistemic_part_of_turned_digits_is_larger(shift, word):
    epistemic = np.tile(NOISE[0], (12, 1)) + 0.1 * np.sin(np.outer(np.arange(12), np.arange(6)))
    epistemic[5:] += shift + NOISE[1]
    samples = np.full((4, 12, 10), 0.1)
    mean = np.full((12, 6, 10), 0.1)
    finding = dropout_digit.of_angles(epistemic, mean, np.full((12, 6), 0.9), samples, 0.01)
    assert finding.verdict == word
    assert isinstance(finding.draw(), Figure)


def test_digits_are_turned_each_by_each_angle():
    images = np.abs(NOISE[:2, :, None] * NOISE[2, None, :6])
    found = dropout_digit.turned(images, (0, 90))
    np.testing.assert_allclose(found[0], images)
    np.testing.assert_allclose(found[1, 1], rotate(images[1], 90, order=1), atol=1e-6)


@pytest.mark.parametrize(("shift", "word"), EACH_WAY)
def test_relu_must_grow_more_than_tanh(shift, word):
    grid = np.linspace(-1.9, 3.4, 54)[:, None]
    spreads = np.ones((6, 2, 2, 54))
    spreads[:, 0, 0, -1] = np.exp(shift + NOISE[0])
    assert dropout_extrapolation.of_spreads(spreads, grid, Figure).verdict == word


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_kernel_is_the_prior_covariance_of_the_network(activation):
    generator = np.random.default_rng(0)
    times = np.array([[-1.0], [0.3], [2.0]])
    w, b, v, c = 3.0 * generator.normal(size=(4, 400_000))
    phi = {"relu": lambda z: np.maximum(z, 0), "tanh": np.tanh}[activation](times * w + b)
    values = phi * v * 2.0 / 3.0 + c  # one unit: the covariance is the same at any width
    products = values[:, None] * values[None]
    error = products.std(axis=-1) / np.sqrt(products.shape[-1])
    away = products.mean(axis=-1) - dropout_extrapolation.kernel(activation, times, times)
    assert (np.abs(away) < 4 * error).all(), away / error


def test_the_networks_have_the_prior_of_the_kernel():
    prior = as_prior(dropout_extrapolation.PRIOR)
    sites = {("output", "weight", 256): 2 / 16, ("output", "bias", 256): 3, ("hidden0", "weight", 1): 3}
    sites |= {("hidden0", "bias", 1): 3}
    assert [prior.scale_of(Site(*site)) for site in sites] == pytest.approx(list(sites.values()))


def test_the_process_goes_through_exact_data():
    time, values = dropout_extrapolation.series(30, 0)
    mean, covariance = dropout_extrapolation.process("tanh", time, values, time)
    assert np.abs(mean - values).std() < 0.1
    assert (np.diag(covariance) < 0.1**2).all()
    assert np.diag(dropout_extrapolation.process("tanh", time, values, np.array([[9.0]]))[1])[0] > 0.3


@pytest.mark.parametrize(
    ("counts", "word"), [((90, 90, 10), WORDS[0]), ((90, 12, 10), WORDS[1]), ((10, 90, 60), WORDS[2])]
)
def test_the_mixture_must_be_wrong_less_often_than_both_others(counts, word):
    missed = {
        name: np.arange(1000) < count for name, count in zip(("point", "gaussian", "mixture"), counts, strict=True)
    }
    finding = backprop_study.of_errors(missed, 400)
    assert finding.verdict == word
    assert "1.36" in str(finding.tables[0])


@pytest.mark.parametrize(("more", "word"), [(5, WORDS[0]), (20, WORDS[1]), (90, WORDS[2])])
def test_pruning_is_free_if_the_error_rises_by_less_than_its_margin(more, word):
    missed = {share: np.arange(10_000) < 150 + (more if share == 0.95 else 0) for share in (0.0, 0.5, 0.75, 0.95, 0.98)}
    finding = backprop_study.of_pruning(missed, 400, 478_410, Figure)
    assert finding.verdict == word
    assert "23,920" in str(finding.tables[0])  # 5 % of the weights


@pytest.mark.parametrize(("shift", "word"), EACH_WAY)
def test_published_log_likelihoods_are_met_on_every_set(shift, word):
    found = {
        name: np.stack([NOISE[i], NOISE[i] - NOISE[i].mean() + backprop_uci.PUBLISHED[name][0] + move])
        for i, (name, move) in enumerate({"boston": 3.0, "yacht": shift}.items())
    }
    assert backprop_uci.of_sets(found).verdict == word


@pytest.mark.parametrize(
    ("epistemic", "away", "word"), [(-1.0, 2.0, WORDS[0]), (0.0, 2.0, WORDS[1]), (-1.0, -2.0, WORDS[2])]
)
def test_dropout_decides_about_the_share_of_the_data(epistemic, away, word):
    rows = [100, 200, 400]
    each = np.ones((6, 3, 2, 2))
    each[:, :, 1, :] = np.array(rows, float)[:, None] ** (epistemic + 0.1 * NOISE[0][:, None, None])
    each[:, :, 1, 1] *= np.exp(away + 0.1 * NOISE[1])[:, None]
    finding = uncertainty_share.of_variances({"MC dropout": each, "HMC": each[:, :, ::-1]}, rows, failed=2)
    assert finding.verdict == word
    assert "2 of HMC's runs have not converged" in finding.because
    assert isinstance(finding.draw(), Figure)


def test_slopes_are_powers_of_the_rows():
    rows = [10, 20, 80]
    np.testing.assert_allclose(
        uncertainty_share.slopes(3 * np.array([[1, 1, 1], rows]) ** -1.0, rows), [0, -1], atol=1e-12
    )


def test_other_data_are_the_farthest_rows_and_none_is_trained_on():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(200, 3))
    dataset = Dataset("made up", x, generator.normal(size=200))
    train, rest, count = uncertainty_share.cut(dataset, 0.25, 1)
    far = np.square((x - x.mean(axis=0)) / x.std(axis=0)).sum(axis=1)
    assert (len(train), count, len(rest)) == (36, 36, 56)
    assert not set(train.rows) & set(rest.rows)
    assert far[rest.rows[count:]].min() >= far[np.concatenate([train.rows, rest.rows[:count]])].max()
    more = uncertainty_share.cut(dataset, 1.0, 1)
    np.testing.assert_array_equal(more[1].rows, rest.rows)
    assert set(train.rows) < set(more[0].rows)


@pytest.mark.parametrize(("shift", "word"), EACH_WAY)
def test_leaving_out_must_help_by_both_parts(shift, word):
    curves = np.ones((6, 3, 10)) * 5
    curves[:, :, 5] -= 3 + NOISE[0][:, None]
    curves[:, 1, 5] = 5 - shift - NOISE[1]
    finding = uncertainty_use.of_precision({"concrete, MC dropout": curves, "concrete, HMC": curves[:1]}, 1)
    assert finding.verdict == word
    assert "1 of HMC's runs" in finding.because


def test_the_most_certain_rows_are_kept():
    losses, uncertainty = np.arange(10.0), np.arange(10.0)
    kept = uncertainty_use.kept_errors(losses, uncertainty, root=False)
    assert kept[[0, 5, 9]].tolist() == [4.5, 2.0, 0.0]
    assert uncertainty_use.kept_errors(losses, -uncertainty, root=True)[5] == pytest.approx(np.sqrt(7.0))


def test_calibration_error_is_zero_for_uniform_numbers_and_a_twelfth_for_one():
    assert uncertainty_use.calibration_error((np.arange(1000) + 0.5) / 1000) < 1e-6
    assert uncertainty_use.calibration_error(np.full(100, 0.5)) == pytest.approx(1 / 12, rel=0.02)


def test_leaving_out_one_of_some_numbers_gives_the_error_of_their_mean():
    mean, error = uncertainty_use.jackknife(np.mean, list(NOISE[0]))
    assert mean == pytest.approx(NOISE[0].mean())
    assert error == pytest.approx(NOISE[0].std(ddof=1) / np.sqrt(6))


@pytest.mark.parametrize(("narrow", "wide", "word"), [("none", "both", WORDS[0]), ("both", "none", WORDS[2])])
def test_both_kinds_must_be_the_best_calibrated(narrow, wide, word):
    generator = np.random.default_rng(1)
    middle = {kind: [0.5 + 0.3 * (generator.random(200) - 0.5) for _ in range(6)] for kind in uncertainty_use.PUBLISHED}
    middle[wide] = [generator.random(200) for _ in range(6)]
    assert uncertainty_use.of_calibration({"boston": middle}).verdict == word


@pytest.mark.parametrize(("shift", "word"), EACH_WAY)
def test_a_full_covariance_must_correlate_better(shift, word):
    methods = [name for name in twenty_rows.METHODS if name != "HMC"]
    found = {name: dict.fromkeys(methods, NOISE[0]) for name in ("boston", "yacht")}
    for i, each in enumerate(found.values()):
        each["full covariance"] = NOISE[0] + NOISE[i + 1] + shift
    finding = twenty_rows.of_correlations(found, 3)
    assert finding.verdict == word
    assert "3 of the reference's runs have not converged" in finding.because
    assert "0.718" in str(finding.tables[0])


@pytest.mark.parametrize(("shift", "word"), EACH_WAY)
def test_choosing_by_hmc_must_lower_the_error(shift, word):
    random = 10 + NOISE[0]
    picks = [np.arange(i, i + 9) for i in range(6)]
    each = {"random": random, "active": random - shift - NOISE[1] + NOISE[1].mean(), "picks": picks}
    other = {**each, "picks": [np.arange(6, 15)] * 6}
    finding = twenty_rows.of_choices({"yacht": {"HMC": each, "Laplace": other}})
    assert finding.verdict == word
    assert "5.50 ± 0.76" in str(finding.tables[0])  # 3 to 8 rows in common, by hand


def test_rows_of_the_largest_variance_are_chosen_and_none_twice():
    dataset = Dataset("made up", np.arange(200.0)[:, None], np.arange(200.0))
    parts = [twenty_rows.pieces(200, seed) for seed in range(2)]
    assert [len(each) for each in parts[0]] == [20, 100, 80]

    class Largest:
        def predict(self, split):
            return type("Prediction", (), {"total": split.rows.astype(float)})

    sizes = []

    def fit(splits):
        sizes.append(len(splits[0]))
        return [Largest() for _ in splits]

    picks = twenty_rows.chosen(fit, dataset, parts, 3)
    assert sizes == [20, 23, 26]
    for pick, part in zip(picks, parts, strict=True):
        np.testing.assert_array_equal(pick, np.sort(part[2])[::-1][:9])


def test_every_name_of_the_catalogue_is_that_of_a_study():
    for study in catalogue.studies():
        assert all((study.title, study.question, study.rule, study.published, study.full)), study.name
    assert [study.name for study in catalogue.studies()] == catalogue.names()
