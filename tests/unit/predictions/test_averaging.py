"""Averages over architectures against pooled draws, hand-made cases and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import models
from diagnostics.predictions.averaging import average, stacking_weights
from inference.results.prediction import Prediction

FEW, MANY, ROWS = 50, 150, 6
WEIGHTS = {"few": FEW / (FEW + MANY), "many": MANY / (FEW + MANY)}


def _outputs(likelihood, draws: int, seed: int) -> np.ndarray:
    return seed + np.random.default_rng(seed).normal(size=(1, draws, ROWS, likelihood.heads))


def _noise(likelihood, draws: int, seed: int) -> dict[str, np.ndarray]:
    if likelihood.classes is not None:
        return {}
    shape = (1, draws) if likelihood.outputs == 1 else (1, draws, likelihood.outputs)
    return {"noise": np.random.default_rng(seed).uniform(0.2, 0.9, shape)}


def _two_and_pooled(likelihood) -> tuple[dict[str, Prediction], Prediction]:
    """Two predictions with unequal numbers of draws, and the one whose draws are all of theirs."""
    cases = {"few": (FEW, 0), "many": (MANY, 1)}
    outputs = {name: _outputs(likelihood, *case) for name, case in cases.items()}
    sites = {name: _noise(likelihood, *case) for name, case in cases.items()}
    parts = {name: Prediction.of(likelihood, outputs[name], sites[name]) for name in cases}
    joined = {site: np.concatenate([sites[name][site] for name in cases], axis=1) for site in sites["few"]}
    return parts, Prediction.of(likelihood, np.concatenate(list(outputs.values()), axis=1), joined)


LIKELIHOODS = [models.Gaussian(), models.Gaussian(outputs=2), models.Categorical(3), models.Bernoulli()]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
def test_weights_in_proportion_to_draws_give_the_pooled_prediction(likelihood):
    parts, pooled = _two_and_pooled(likelihood)
    mixture = average(parts, WEIGHTS)
    for what in ("mean", "epistemic", "aleatoric", "total", "std"):
        np.testing.assert_allclose(getattr(mixture, what), getattr(pooled, what), rtol=1e-12, err_msg=what)
    generator = np.random.default_rng(2)
    y = generator.normal(size=pooled.mean.shape) if likelihood.classes is None else generator.integers(0, 2, ROWS)
    np.testing.assert_allclose(mixture.log_prob(y), pooled.log_prob(y), rtol=1e-12)
    assert len(mixture) == ROWS
    if likelihood.classes is None:
        with pytest.raises(TypeError, match="a regression has no class probabilities; use mean"):
            _ = mixture.probs
    else:
        np.testing.assert_allclose(mixture.probs, pooled.probs, rtol=1e-12)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
def test_the_parts_add_up(likelihood):
    parts, _ = _two_and_pooled(likelihood)
    mixture = average(parts)
    assert mixture.weights == {"few": 0.5, "many": 0.5}
    np.testing.assert_allclose(mixture.within, (parts["few"].epistemic + parts["many"].epistemic) / 2)
    np.testing.assert_allclose(mixture.epistemic, mixture.within + mixture.structure)
    np.testing.assert_allclose(mixture.total, mixture.epistemic + mixture.aleatoric)
    assert (mixture.structure > 0).all()


def _certain(likelihood, outputs) -> Prediction:
    return Prediction.of(likelihood, np.asarray(outputs, float).reshape(1, 1, 1, -1), {})


def test_structure_of_two_points_by_hand():
    gaussian = models.Gaussian(scale=0.5)
    two = average({"a": _certain(gaussian, [0.0]), "b": _certain(gaussian, [2.0])}, {"a": 0.75, "b": 0.25})
    assert (two.within == 0).all()
    np.testing.assert_allclose(two.structure, 0.75 * 0.25 * 4)  # p (1 - p) times the squared distance
    np.testing.assert_allclose(two.aleatoric, 0.25)
    sure = average({"a": _certain(models.Bernoulli(), [-1e4]), "b": _certain(models.Bernoulli(), [1e4])})
    np.testing.assert_allclose(sure.structure, np.log(2))
    assert (sure.aleatoric == 0).all()


def test_alike_parts_have_no_structure_part():
    for likelihood, output in ((models.Gaussian(scale=0.5), [0.3]), (models.Categorical(3), [0.3, 0.1, -2.0])):
        same = average({"a": _certain(likelihood, output), "b": _certain(likelihood, output)})
        np.testing.assert_allclose(same.structure, 0, atol=1e-15)
        assert (same.structure >= 0).all()


def test_a_part_without_weight_has_no_say():
    gaussian = models.Gaussian(scale=0.01)
    there, far = _certain(gaussian, [0.0]), _certain(gaussian, [9.0])
    mixture = average({"far": far, "there": there}, {"far": 1.0, "there": 0.0})
    np.testing.assert_array_equal(mixture.log_prob(np.zeros(1)), far.log_prob(np.zeros(1)))  # not -inf
    assert mixture.structure.tolist() == [0.0]


def test_what_does_not_go_together_is_refused():
    gaussian, labels = models.Gaussian(scale=0.5), models.Categorical(3)
    one = _certain(gaussian, [0.0])
    restored = one.rescaled(np.zeros(()), np.ones(()))
    rows = Prediction.of(gaussian, np.zeros((1, 1, 2, 1)), {})
    student = _certain(models.StudentTNoise(scale=0.5), [0.0])
    for other, message in (
        (_certain(labels, [0.0] * 3), r"same kind of likelihood, 'a' has Gaussian and 'b' Categorical; run all"),
        (student, r"'a' has Gaussian and 'b' StudentTNoise"),
        (_certain(models.Gaussian(scale=0.5, outputs=2), [0.0] * 2), r"as many targets per row, 'a' has 1 and 'b' 2"),
        (rows, r"as many rows, 'a' has 1 and 'b' 2"),
        (restored, r"restore both 'a' and 'b', or neither"),
    ):
        with pytest.raises(ValueError, match=message):
            average({"a": one, "b": other})
    with pytest.raises(ValueError, match=r"as many classes, 'a' has 3 and 'b' 4"):
        average({"a": _certain(labels, [0.0] * 3), "b": _certain(models.Categorical(4), [0.0] * 4)})
    with pytest.raises(TypeError, match=r"'a' is ndarray"):
        average({"a": np.zeros(3)})
    with pytest.raises(ValueError, match=r"at least one prediction"):
        average({})


def test_weights_that_are_no_weights_are_refused():
    one = {name: _certain(models.Gaussian(scale=0.5), [0.0]) for name in ("a", "b")}
    with pytest.raises(ValueError, match=r"weights must have the names a, b, got a, c"):
        average(one, {"a": 0.5, "c": 0.5})
    with pytest.raises(ValueError, match=r"add up to 1, got 1.5; divide them by their sum"):
        average(one, {"a": 0.5, "b": 1.0})
    with pytest.raises(ValueError, match=r"that of 'a' must be a finite number, 0 or above, got -0.5"):
        average(one, {"a": -0.5, "b": 1.5})


def test_stacking_by_brute_force():
    y = 1.5 * np.random.default_rng(0).normal(size=80)
    normals = (0.8, 0.6), (-0.9, 0.5), (0.0, 3.0)
    logs = np.stack([-0.5 * (y - mean) ** 2 / scale**2 - np.log(scale) for mean, scale in normals])
    found = np.array(list(stacking_weights(dict(zip("abc", logs, strict=True))).values()))
    steps = 100
    grid = np.array([(i, j, steps - i - j) for i, j in itertools.product(range(steps + 1), repeat=2) if i + j <= steps])
    values = np.log(grid / steps @ np.exp(logs)).mean(axis=1)
    best = grid[values.argmax()] / steps
    assert (best > 0.05).all()  # a case inside the simplex
    np.testing.assert_allclose(found, best, atol=1.5 / steps)
    assert np.log(found @ np.exp(logs)).mean() >= values.max()
    assert found.sum() == pytest.approx(1, abs=1e-12)


def test_stacking_where_each_point_has_one_model_gives_the_shares_of_points():
    owner = np.array([0] * 3 + [1] * 7)
    logs = {"a": np.where(owner == 0, 0.0, -1e4), "b": np.where(owner == 1, 0.0, -1e4)}
    assert stacking_weights(logs) == pytest.approx({"a": 0.3, "b": 0.7}, abs=1e-6)


def test_stacking_gives_nothing_to_a_model_that_is_worse_everywhere():
    good = np.random.default_rng(1).normal(size=40)
    assert stacking_weights({"worse": good - 0.1, "good": good}) == pytest.approx({"worse": 0, "good": 1}, abs=1e-6)


def test_stacking_does_not_depend_on_what_all_share():
    generator = np.random.default_rng(2)
    logs, shift = generator.normal(size=(3, 50)), 1e3 * generator.normal(size=50)
    plain, shifted = (stacking_weights(dict(zip("abc", rows, strict=True))) for rows in (logs, logs + shift))
    assert plain == pytest.approx(shifted, abs=1e-6)


def _violation(logs: np.ndarray) -> float:
    """Of Karush and Kuhn-Tucker's conditions on the simplex: no derivative above 1, and 1 wherever there is weight."""
    weights = np.array(list(stacking_weights(dict(zip("abcde", logs, strict=False))).values()))
    ratios = np.exp(logs - logs.max(axis=0))
    slopes = (ratios / (weights @ ratios)).mean(axis=1)
    return max(float(slopes.max() - 1), float((weights * (1 - slopes)).max()))


@pytest.mark.parametrize("scale", [1e-6, 0.1, 1.0, 30.0, 1e4])
def test_stacking_satisfies_the_conditions_of_a_maximum(scale):
    generator = np.random.default_rng(3)
    for _ in range(20):
        assert _violation(scale * generator.normal(size=(5, 60)) + scale * generator.normal(size=(5, 1))) < 1e-5


@pytest.mark.parametrize(("seed", "count", "scale"), [(6, 2, 20.0), (101, 4, 40.0), (206, 4, 1000.0)])
def test_stacking_finds_its_way_where_quadratic_programming_alone_strays(seed, count, scale):
    generator = np.random.default_rng(seed)
    logs = scale * generator.normal(size=(count, 150)) + scale * generator.normal(size=(count, 1))
    assert _violation(logs) < 1e-5


def test_log_densities_that_are_none_are_refused():
    with pytest.raises(ValueError, match=r"shape \(n,\), the same points for all, got shapes \[\(2,\), \(3,\)\]"):
        stacking_weights({"a": np.zeros(2), "b": np.zeros(3)})
    with pytest.raises(ValueError, match=r"log_densities: 'a' must be finite, got infinity at row 1"):
        stacking_weights({"a": np.array([0.0, -np.inf])})
    with pytest.raises(ValueError, match=r"at least one array"):
        stacking_weights({})
