"""Detection of points outside, against scikit-learn, closed forms and hand-made cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from diagnostics.predictions.detection import out_of_distribution


def _normal(inside: int, outside: int, distance: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(size=inside), generator.normal(distance, 1, outside)


def _values(separation) -> np.ndarray:
    return np.array([each.value for each in (separation.auroc, separation.aupr_out, separation.aupr_in,
                                             separation.fpr95_out, separation.fpr95_in)])  # fmt: skip


def _by_sklearn(inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    is_outside = np.repeat([0, 1], [len(inside), len(outside)])
    scores = np.concatenate([inside, outside])

    def rate(positive: np.ndarray, score: np.ndarray) -> float:
        false, true, _ = sklearn.metrics.roc_curve(positive, score, drop_intermediate=False)
        return false[np.argmax(true >= 0.95)]

    return np.array([
        sklearn.metrics.roc_auc_score(is_outside, scores),
        sklearn.metrics.average_precision_score(is_outside, scores),
        sklearn.metrics.average_precision_score(1 - is_outside, -scores),
        rate(is_outside, scores),
        rate(1 - is_outside, -scores),
    ])  # fmt: skip


@pytest.mark.parametrize("digits", [None, 1, 0], ids=["no ties", "some ties", "many ties"])
@pytest.mark.parametrize("sizes", [(200, 60), (33, 100), (20, 20), (7, 2)], ids=str)
def test_the_numbers_are_those_of_scikit_learn(sizes, digits):
    inside, outside = _normal(*sizes, 1.2, seed=sizes[0])
    if digits is not None:
        inside, outside = inside.round(digits), outside.round(digits)
    found = out_of_distribution(inside, outside, resamples=2)["score"]
    np.testing.assert_allclose(_values(found), _by_sklearn(inside, outside), rtol=1e-12)


def test_all_intervals_are_those_of_a_plain_bootstrap():
    # Of as many points, both sorted: drawing the same places of both would be seen.
    inside, outside = (np.sort(values.round(1)) for values in _normal(60, 60, 1.0, seed=3))
    found = out_of_distribution(inside, outside, level=0.8, resamples=2000)["score"]
    generator = np.random.default_rng(4)
    drawn = [_by_sklearn(generator.choice(inside, 60), generator.choice(outside, 60)) for _ in range(400)]
    plain = np.quantile(drawn, [0.1, 0.9], axis=0)
    density = scipy.stats.norm.pdf(scipy.stats.norm.ppf(0.9)) / np.std(drawn, axis=0)
    error = np.sqrt(0.1 * 0.9 * (1 / 400 + 1 / 2000)) / density  # of a quantile, from both numbers of resamples
    steps = np.array([0, 0, 0, 1 / 60, 1 / 60])  # in which FPR95 moves
    ours = np.array([(each.lower, each.upper) for each in vars(found).values()])
    for bound, other in zip(ours.T, plain, strict=True):
        assert (np.abs(bound - other) <= 4 * error + steps + 1e-12).all(), (bound, other)
