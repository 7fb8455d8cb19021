"""The studies of Izmailov et al. 2021: their rules on made-up numbers, which can come out each way, and their parts."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import models
from data import Scaler, Split
from experiments import approximations, bayesian_average, covariate_shift, hmc_settings, hmc_step_sizes, prior_choice
from experiments.catalogue import studies
from experiments.references import TASKS, together
from experiments.tempering import augmented, tempered
from experiments.tempering import verdict as tempering_verdict


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["confirmed", "confirmed"], "confirmed"),
        (["confirmed", "undecided"], "undecided"),
        (["confirmed", "undecided", "contradicted"], "contradicted"),
    ],
)
def test_several_verdicts_make_one(verdicts, expected):
    assert together(verdicts) == expected


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ({"a": (0.3, 0.1), "b": (0.5, 0.1)}, "confirmed"),
        ({"a": (0.3, 0.1), "b": (0.1, 0.1)}, "undecided"),
        ({"a": (0.3, 0.1), "b": (-0.3, 0.1)}, "contradicted"),
    ],
)
def test_the_average_must_win_everywhere(gains, expected):
    assert bayesian_average.verdict(gains) == expected


def test_one_long_chain_is_as_good_within_the_margin():
    def verdict(mean, error):
        return hmc_settings.chains_verdict({"a": (0.0, 0.001), "b": (mean, error)})

    assert [verdict(0.005, 0.001), verdict(-0.01, 0.004), verdict(-0.03, 0.004), verdict(0.03, 0.004)] == [
        "confirmed", "undecided", "contradicted", "contradicted",
    ]  # fmt: skip


def test_equal_compute_counts_every_warm_up():
    assert [hmc_settings.equal_draws(50, 150, count) for count in (1, 2, 3)] == [150, 50, 16]
    with pytest.raises(ValueError, match="4 chains with a warm-up of 50 can't share 200"):
        hmc_settings.equal_draws(50, 150, 4)


@pytest.mark.parametrize(
    ("gain", "augmenting", "expected"),
    [
        ((-0.1, 0.01), False, "confirmed"),
        ((0.01, 0.01), False, "undecided"),
        ((0.1, 0.01), False, "contradicted"),
        ((0.1, 0.01), True, "confirmed"),
        ((0.01, 0.01), True, "undecided"),
        ((-0.1, 0.01), True, "contradicted"),
    ],
)
def test_a_colder_posterior_gains_with_augmentation_and_not_without(gain, augmenting, expected):
    other = (-gain[0], gain[1])  # the claim that is not asked about says the opposite
    assert tempering_verdict(*((other, gain) if augmenting else (gain, other)), augmenting) == expected


def test_augmented_images_are_shifted_and_background_comes_in():
    image = np.arange(1.0, 10.0).reshape(1, 3, 3)
    scaler = Scaler(np.zeros(()), np.ones(()), np.zeros(()), np.ones(()))
    split = Split(image, np.array([7]), scaler, "made up", 10, (3, 3))
    found = augmented(split, ((0, 0), (1, 0), (0, -1)))
    np.testing.assert_array_equal(found.y, [7, 7, 7])
    np.testing.assert_array_equal(found.x[0], image[0])
    np.testing.assert_array_equal(found.x[1], [[0, 0, 0], [1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(found.x[2], [[2, 3, 0], [5, 6, 0], [8, 9, 0]])
    np.testing.assert_array_equal(augmented(split.flat(), ((1, 0),)).x[0], found.x[1].ravel())


def test_a_temperature_widens_the_prior_by_its_root():
    model, options = tempered(models.mlp((3,), "silu", models.Normal(0.1)), 5, 0.25)
    assert model.prior == models.Normal(0.05)
    assert options == dict(temperature=1.25, tempering="likelihood")


def test_a_prior_scale_is_judged_where_hmc_is_worst():
    best, noise = np.array([0.5, 0.5, 0.5]), np.array([0.01, -0.01, 0.0])
    for worst, expected in ((0.3, "confirmed"), (0.0, "undecided"), (-0.3, "contradicted")):
        word, gain = prior_choice.scale_verdict(np.stack([best, worst + noise], axis=1))
        assert word == expected
        assert gain[0] == pytest.approx(worst)


def test_families_must_differ_by_less_than_what_hmc_gains():
    point, noise = np.full(3, -1.0), np.array([0.02, -0.02, 0.0])
    for other, expected in ((-0.6, "confirmed"), (-1.0, "undecided"), (-1.4, "contradicted")):
        scores = np.stack([-0.5 + noise, np.full(3, other)], axis=1)
        assert prior_choice.family_verdict(scores, point)[0] == expected


@pytest.mark.parametrize(
    ("spread", "gain", "expected"),
    [
        ((1.0, 0.01), (0.1, 0.01), "confirmed"),
        ((1.02, 0.02), (0.1, 0.01), "undecided"),
        ((0.8, 0.01), (0.1, 0.01), "contradicted"),
        ((1.0, 0.01), (-0.1, 0.01), "contradicted"),
    ],
)
def test_the_mechanism_has_two_parts(spread, gain, expected):
    assert covariate_shift.mechanism_verdict(spread, gain) == expected


@pytest.mark.parametrize(
    ("sghmc", "expected"),
    [([0.1, 0.11, 0.1], "confirmed"), ([0.1, 0.2, 0.15], "undecided"), ([0.3, 0.31, 0.3], "contradicted")],
)
def test_vi_must_be_the_farthest(sghmc, expected):
    near = [0.1, 0.12, 0.11]
    distances = {"mean-field VI": [0.15, 0.15, 0.16], "SGLD": near, "SGHMC": sghmc, "deep ensemble": near}
    assert approximations.verdict(distances)[0] == expected


@pytest.mark.parametrize(
    ("higher", "steeper", "expected"),
    [
        ((0.3, 0.1), (1.0, 0.1), "confirmed"),
        ((0.3, 0.1), (0.1, 0.1), "undecided"),
        ((0.3, 0.1), (-1.0, 0.1), "contradicted"),
    ],
)
def test_smoothness_has_two_parts(higher, steeper, expected):
    assert hmc_step_sizes.smoothness_verdict(higher, steeper) == expected


def test_the_slope_is_the_power():
    steps = np.array([1.0, 0.5, 0.25])
    assert hmc_step_sizes.slope(steps, 3 * steps**1.5) == pytest.approx(1.5)


def test_smooth_acceptances_are_those_of_errors_that_go_with_the_fourth_power():
    """Against the mean of min(1, exp(-d)) over normal errors d of mean m and variance 2 m."""
    noise = np.random.default_rng(0).normal(size=1_000_000)

    def acceptance(m):
        return np.minimum(1, np.exp(-(m + np.sqrt(2 * m) * noise))).mean()

    first = acceptance(0.01)
    found = hmc_step_sizes.smooth_acceptances(first)
    assert found[0] == pytest.approx(first)
    assert found[1] == pytest.approx(acceptance(0.01 * 5**4), abs=3e-3)


@pytest.mark.parametrize("each", list(studies()), ids=lambda each: each.name)
def test_both_sizes_are_settings_of_the_study_and_needs_are_known(each):
    import data

    for quick in (False, True):
        inspect.signature(each.run).bind(None, **each.settings(quick))  # raises TypeError for one that it has not
    assert set(each.needs) <= set(data.names())
    assert set(each.settings(quick=True).get("tasks", ())) <= set(TASKS)
