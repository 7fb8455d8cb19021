"""The HMC experiment on UCI sets: its rule of decision, and its published figures."""

from __future__ import annotations

import numpy as np
import pytest

from data.uci import SETS
from experiments.hmc_uci import PUBLISHED, SplitScore, verdict


def _scores(log_likelihoods: list[float], passed: bool | None = True) -> list[SplitScore]:
    return [SplitScore(1.0, each, each, 1.0, 400.0, passed, 1.0) for each in log_likelihoods]


HMC = [-2.0, -2.2, -2.1, -1.9]


@pytest.mark.parametrize(
    ("away", "word"),
    [
        ([-0.1, -0.2, -0.1, -0.3], "confirmed: HMC has the highest log-likelihood; other comes next"),
        ([0.1, 0.12, 0.09, 0.11], "contradicted: other is 0.105 ± 0.006 higher"),
        ([0.5, -0.4, 0.3, -0.2], "undecided: other is 0.050 ± 0.210 higher"),
    ],
)
def test_the_rule_looks_at_paired_differences(away, word):
    worse = [each - 1 for each in HMC]
    found = {"hmc": _scores(HMC), "other": _scores(np.add(HMC, away).tolist()), "worse": _scores(worse)}
    assert word in verdict(found)


def test_the_rule_can_be_about_the_other_log_likelihood():
    better = [SplitScore(1.0, -3.0, each + 1, 1.0, 400.0, True, 1.0) for each in HMC]
    found = {"hmc": _scores(HMC), "other": better}
    assert verdict(found).startswith("confirmed")
    assert verdict(found, "log_likelihood_gaussian").startswith("contradicted")


def test_one_split_contradicts_nothing():
    assert verdict({"hmc": _scores([-2.0]), "other": _scores([-1.0])}).startswith("undecided")


def test_splits_to_doubt_are_named():
    hmc = [*_scores(HMC[:2]), *_scores(HMC[2:], passed=False)]
    assert "not converged on splits 2, 3" in verdict({"hmc": hmc, "other": _scores(HMC)})


def test_published_sets_are_known():
    assert {name for sets in PUBLISHED.values() for name in sets} <= set(SETS)
