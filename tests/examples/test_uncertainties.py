"""The study of three kinds of uncertainty, small: its closed forms, and the direction of all that it shows."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.stats
import typer
from typer.testing import CliRunner

from experiments import uncertainties, uncertainty_cases

pytestmark = pytest.mark.validation  # nine posteriors; the unit tests have its closed forms
SIZES, NOISES = (30, 120), (0.1, 0.2, 0.4)


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    return tmp_path_factory.mktemp("study") / "uncertainties.png"


@pytest.fixture(scope="module")
def study(figure):
    """What the command found with few draws of few data."""
    app = typer.Typer()
    app.command()(uncertainties.uncertainties)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"SIZES": SIZES, "SIZE": SIZES[0], "NOISES": NOISES}.items():
            patch.setattr(uncertainty_cases, name, value)
        patch.setattr(uncertainties, "_TRAINING_DIGITS", 120)
        done = CliRunner().invoke(app, ["--draws", "150", "--sets", "1", "--plot", str(figure), "--json"])
    assert done.exit_code == 0, done.output
    assert "slopes of log variance against log n" in done.output
    assert "outside is the positive class" in done.output
    return json.loads(done.output.splitlines()[-1])


@pytest.fixture(scope="module")
def levels(study):
    return {(each["architecture"], each["n"], each["noise"]): each for each in study["levels"]}


def test_a_line_has_its_exact_variances(levels):
    lines = [each for (name, *_), each in levels.items() if name == "line"]
    assert len(lines) == 4
    for each in lines:
        for part in ("aleatoric", "epistemic"):
            away = abs(each[part] - each[f"exact_{part}"])
            assert away < 5 * each[f"{part}_error"], (part, each)
            assert each[f"{part}_error"] < 0.25 * each[f"exact_{part}"]


def test_exact_variances_are_what_the_theory_of_the_line_says(levels):
    # About s^2, and p s^2 / n with p = 2 coefficients, once n is large.
    large = levels["line", SIZES[1], 0.2]
    assert large["exact_aleatoric"] == pytest.approx(0.04, rel=0.1)
    assert large["exact_epistemic"] == pytest.approx(2 * large["exact_aleatoric"] / SIZES[1], rel=0.02)
    slope = np.log(large["exact_epistemic"] / levels["line", SIZES[0], 0.2]["exact_epistemic"]) / np.log(4)
    assert slope == pytest.approx(-1, abs=0.1)


@pytest.mark.parametrize("architecture", ["line", "tanh"])
def test_noise_raises_both_parts_as_its_square(levels, architecture):
    low, high = (levels[architecture, SIZES[0], noise] for noise in (0.1, 0.4))
    assert 10 < high["aleatoric"] / low["aleatoric"] < 24
    assert 5 < high["epistemic"] / low["epistemic"] < 24  # a network has fewer coefficients in more noise


@pytest.mark.parametrize("architecture", ["line", "tanh"])
def test_data_lower_the_epistemic_part_and_leave_the_aleatoric_one(levels, architecture):
    few, many = (levels[architecture, n, 0.2] for n in SIZES)
    assert -1.3 < np.log(many["epistemic"] / few["epistemic"]) / np.log(4) < -0.6
    assert abs(np.log(many["aleatoric"] / few["aleatoric"])) < 0.5


def test_away_from_the_data_the_epistemic_part_grows(study):
    for name in ("line", "exact", "tanh"):
        assert (np.diff(study["away"][name]) > 0).all(), name
    assert study["away"]["tanh"][-1] > 10 * study["away"]["tanh"][0]
    np.testing.assert_allclose(study["away"]["line"], study["away"]["exact"], rtol=0.5)


def test_noisy_labels_are_aleatoric_and_far_away_is_epistemic(study):
    places = study["classes"]
    noisy, clean = places["noisy class"], [places["first class"], places["second class"]]
    assert noisy["aleatoric"] == pytest.approx(noisy["labels"], rel=0.2)
    assert noisy["aleatoric"] > 5 * max(each["aleatoric"] for each in clean)
    assert noisy["epistemic"] < 0.1 * noisy["aleatoric"]
    assert places["far away"]["epistemic"] > 3 * max(each["epistemic"] for each in (*clean, noisy))
    assert noisy["labels"] == pytest.approx(scipy.stats.entropy([0.2, 0.2, 0.6]))


def test_a_digit_that_was_held_out_is_noticed(study):
    assert list(study["digits"]["HMC"]) == ["epistemic", "total", "variation_ratio", "disagreement", "baseline"]
    assert list(study["digits"]["MAP"]) == ["baseline"]
    for value, lower, upper in (*study["digits"]["HMC"].values(), *study["digits"]["MAP"].values()):
        assert 0.5 < lower < value < upper < 1


def test_the_structure_is_what_is_not_known_away_from_the_data(study):
    assert sum(study["weights"].values()) == pytest.approx(1)
    inside, away = study["structure"]["averaged"]
    assert away > 5 * inside > 0
    scores = study["log_scores"]
    assert scores["stacked"] > max(scores[name] for name in study["weights"])
    assert scores["stacked"] > scores["averaged"] + 0.003  # 0.007 here; weights by -log p would have 0.001
    assert scores["averaged"] > np.mean([scores[name] for name in study["weights"]])  # by concavity


def test_the_figure_is_written(study, figure):
    assert figure.read_bytes().startswith(b"\x89PNG")
