"""What is made of a sweep's scores: the best value, and whether it stands out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import inference


def _made_up(scores, **change):
    shape = np.shape(scores)
    nothing = np.zeros(shape)
    counts, flags = nothing.astype(int), nothing.astype(bool)
    facts = dict(rhat=nothing + np.nan, unmixed=flags, divergences=counts, seconds=nothing, gradients=counts)
    values = tuple(10.0**i for i in range(shape[0]))
    return inference.Sweep(
        name="temperature", values=values, labels=tuple(f"{value:g}" for value in values), seeds=tuple(range(shape[1])),
        scores={"log_score": np.array(scores)}, failures={}, reference=0, **{**facts, **change},
    )  # fmt: skip


def test_what_is_distinguishable_is_decided_over_all_differences_at_once():
    seeds = np.array([0.0, 0.1, -0.1, 0.05])
    noise = np.array([0.01, -0.01, 0.02, -0.02])
    gap = 4 * noise.std(ddof=1) / 2  # t = 4 with 3 degrees of freedom: p = 0.028, too much for two differences
    alone = _made_up([seeds, seeds - gap + noise])
    both = _made_up([seeds, seeds - gap + noise, seeds - 1 + noise])
    assert alone.difference("log_score").distinguishable.tolist() == [False, True]
    assert both.difference("log_score").distinguishable.tolist() == [False, False, True]
    assert both.conclusion() == "log_score: temperature 1 is best; not distinguishable from it: 10."
    assert alone.conclusion() == "log_score: temperature 1 is best, and distinguishable from every other."
    better = _made_up([seeds, seeds + gap + noise])
    assert better.conclusion().startswith(
        "log_score: temperature 10 is best; its paired difference to temperature 1 is +"
    )
    assert not _made_up([[0.5, 0.5], [0.6, 0.6]]).difference("log_score").distinguishable.any()  # no error is known
    rows = np.array([[279, 278, 270], [278, 277, 269]]) / 284  # one row of 284 at every seed, up to rounding
    assert not _made_up(rows).difference("log_score").distinguishable.any()
    assert _made_up(np.full((2, 3), 278 / 284)).standard_error("log_score").tolist() == [0.0, 0.0]
    assert "one seed can't say" in _made_up([[0.5], [0.6]]).conclusion()


def test_divergences_and_infinite_scores_are_shown():
    found = _made_up(
        [[0.5, -np.inf], [0.6, 0.7]],
        divergences=np.array([[0, 3], [0, 0]]),
        rhat=np.array([[1.0, 1.2]] * 2),
        unmixed=np.array([[False, True]] * 2),
    )
    assert "3 divergent draws, in 1 of 4 runs" in str(found)
    assert "or few draws) in 2 of 4 runs, worst 1.2 at temperature 1" in str(found)
    assert "-inf" in found.table()
    assert found.best() == 10.0


def test_the_best_is_sought_over_the_seeds_that_all_values_have():
    # 10 is worse by 0.5 at each seed that both have; 1 has a bad seed more.
    found = _made_up([[-1.0, -9.0, -1.2], [-1.5, np.nan, -1.7], [np.nan] * 3])
    assert found.best() == 1.0
    assert found.conclusion().startswith("log_score: temperature 1 is best; not distinguishable from it: 10, 100")
    lines = found.table().splitlines()
    assert lines[0] == "mean ± standard error over 3 seeds, or as many as a row says"
    assert [line.split()[-1] for line in lines[1:5]] == ["seeds", "3", "2", "0"]
    assert "seeds" not in _made_up([[0.5, 0.6], [0.6, 0.7]]).table().splitlines()[1]
    apart = _made_up([[-1.0, np.nan], [np.nan, -2.0]])
    with pytest.raises(ValueError, match="no seed has a log_score of every temperature, so none is best"):
        apart.best()
    assert "no seed has a log_score of every temperature" in str(apart)
    one = _made_up([[-1.0, -2.0], [np.nan, -1.0]])
    assert one.conclusion() == "log_score: temperature 10 is best; one seed can't say whether that is more than chance."


def test_scores_that_are_all_nan_are_printed():
    nothing = _made_up(np.full((2, 2), np.nan))
    assert str(nothing).endswith("no run has a log_score.")
    with pytest.raises(ValueError, match="no run has a log_score"):
        nothing.best()


def test_without_a_reference_the_best_is_compared_with_all_others():
    seeds = np.array([0.0, 0.1, -0.1, 0.05])
    noise = np.array([0.01, -0.01, 0.02, -0.02])
    equal = _made_up([seeds, seeds + noise, seeds - 1 + noise])
    mean = equal.mean("log_score")
    assert mean[0] == pytest.approx(mean[1])
    unclear = replace(equal, reference=None).conclusion()
    assert unclear.startswith("log_score: temperature 1")
    assert "; not distinguishable from it: 1" in unclear
    assert not unclear.endswith("100.")
    clear = replace(_made_up([seeds, seeds - 1 + noise]), reference=None)
    assert clear.conclusion() == "log_score: temperature 1 is best, and distinguishable from every other."
    # t = 4.5 with 3 degrees of freedom, p = 0.0205: enough for two differences, too much for the three pairs.
    gap = 4.5 * noise.std(ddof=1) / 2
    three = _made_up([seeds, seeds - gap + noise, seeds - 1 + noise])
    assert "distinguishable from every other" in three.conclusion()
    assert replace(three, reference=None).conclusion().endswith("not distinguishable from it: 10.")
