"""The mushroom bandit: its rewards and regret against a hand count, and the mushrooms themselves."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.bandit import AGENTS, EAT, LEAVE, of_regrets, regrets, reward
from experiments.mushrooms import CATEGORIES, ROWS, made_up, mushrooms, one_hot, poisonous_by_rule


def test_rewards_are_those_of_the_paper():
    cases = [
        (EAT, False, False, 5.0), (EAT, False, True, 5.0), (EAT, True, True, 5.0), (EAT, True, False, -35.0),
        (LEAVE, False, False, 0.0), (LEAVE, True, False, 0.0), (LEAVE, True, True, 0.0),
    ]  # fmt: skip
    for action, poisonous, lucky, worth in cases:
        assert reward(*map(np.array, (action, poisonous, lucky))) == worth, (action, poisonous, lucky)


def test_regret_is_what_the_best_choice_would_have_been_worth_on_average():
    # By hand: eaten and edible 0, left and edible 5, left and poisonous 0, eaten and poisonous 15.
    actions = np.array([[EAT, LEAVE, LEAVE, EAT]])
    assert regrets(actions, np.array([[False, False, True, True]])).tolist() == [[0.0, 5.0, 0.0, 15.0]]
    mean = 0.5 * reward(EAT, np.array(True), np.array(False)) + 0.5 * reward(EAT, np.array(True), np.array(True))
    assert mean == -15.0


@pytest.mark.parametrize(
    ("of_others", "verdict"),
    [([300, 310, 305], "confirmed"), ([300, 100, 305], "undecided"), ([300, 40, 305], "contradicted")],
)
def test_bayes_must_regret_less_than_each_of_the_others(of_others, verdict):
    noise = np.random.default_rng(0).normal(0, 5, (4, 10))
    totals = dict(zip(AGENTS, [100, *of_others], strict=True))
    found = {name: total / 10 + each * [[1], [-1], [0.5], [2]] / 10 for (name, total), each in zip(
        totals.items(), noise[:, None], strict=True
    )}  # fmt: skip
    if verdict == "undecided":
        found["greedy"] = found["Bayes by Backprop"] + np.array([[1], [-1], [1], [-1.0]])
    finding = of_regrets(found, "made-up mushrooms")
    assert finding.verdict == verdict
    assert "made-up mushrooms" in finding.because
    assert len(finding.draw().axes[0].lines) == len(AGENTS)


def test_made_up_mushrooms_have_the_schema_of_the_set():
    x, poisonous = made_up()
    assert x.shape == (ROWS, 22) == (8124, len(CATEGORIES))
    counts = np.array(list(CATEGORIES.values()))
    assert counts.sum() == one_hot(x).shape[1] == 117
    assert (x.min(axis=0) >= 0).all()
    assert (x.max(axis=0) < counts).all()
    assert (one_hot(x).sum(axis=1) == 22).all()
    assert 0.3 < poisonous.mean() < 0.7
    np.testing.assert_array_equal(poisonous, poisonous_by_rule(x))
    odourless = x[:, list(CATEGORIES).index("odour")] == 0
    assert poisonous[odourless].any()  # so that odour alone does not tell
    np.testing.assert_array_equal(x, made_up()[0])


def test_the_set_itself_is_taken_from_the_cache_and_checked(monkeypatch, tmp_path):
    monkeypatch.setenv("TOUCHSTONE_DATA", str(tmp_path))
    assert "made-up mushrooms" in mushrooms()[2]
    x, poisonous = made_up(seed=3)
    np.savez(tmp_path / "mushroom.npz", x=x, y=poisonous.astype(int))
    found, deadly, which = mushrooms()
    assert which == "the UCI mushrooms"
    np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(deadly, poisonous)
    np.savez(tmp_path / "mushroom.npz", x=x + 1, y=poisonous.astype(int))
    with pytest.raises(ValueError, match="category beyond"):
        mushrooms()
    np.savez(tmp_path / "mushroom.npz", x=x[:10], y=poisonous[:10].astype(int))
    with pytest.raises(ValueError, match=r"shape \(8124, 22\)"):
        mushrooms()
