"""Scales from draws and gradients, against what is known of normal targets; and lengths from how far draws move."""

from __future__ import annotations

import numpy as np
import pytest

from inference.mcmc.hmc_pilot import best_length
from inference.mcmc.shared_scales import Moments, shared_scales

GENERATOR = np.random.default_rng(3)


def _moments(draws: np.ndarray, precision: np.ndarray) -> Moments:
    gradients = -draws @ precision
    squares = ({"w": ((each - each.mean(axis=0)) ** 2).sum(axis=0)} for each in (draws, gradients))
    return Moments(*(({"w": np.zeros(draws.shape[1])}, each) for each in squares))


def test_a_scale_is_between_the_marginal_and_the_conditional_deviation():
    covariance = np.array([[4.0, 1.9], [1.9, 1.0]])
    precision = np.linalg.inv(covariance)
    moments = [_moments(GENERATOR.multivariate_normal([0, 0], covariance, 4000), precision) for _ in range(2)]
    found = shared_scales(moments, {"w": (2,)}, {"w": np.ones(2)})["w"]
    exact = (np.diag(covariance) / np.diag(precision)) ** 0.25
    np.testing.assert_allclose(found, exact, rtol=5 / np.sqrt(8 * 8000))


def test_exchanged_coordinates_share_a_scale_and_chains_have_their_own_means():
    # Two chains in two modes, in which the units have traded places: the spread within each is the same.
    draws = 0.3 * GENERATOR.normal(size=(500, 4))
    moments = [_moments(draws + 5, np.eye(4) / 0.09), _moments(draws[:, ::-1] - 5, np.eye(4) / 0.09)]
    found = shared_scales(moments, {"w": (1,)}, {"w": np.ones(4)})["w"]
    assert len(np.unique(found)) == 1
    # The gradients of this fabricated target are far from 0 in each chain, around a mean that is the chain's own.
    assert found[0] == pytest.approx(0.3, rel=5 / np.sqrt(8 * 4000))


def test_a_coordinate_without_draws_keeps_the_priors_scale():
    nothing = Moments(*(({"w": np.zeros(3)}, {"w": np.zeros(3)}) for _ in range(2)))
    found = shared_scales([nothing], {"w": (3,)}, {"w": np.array([0.5, 1.0, 2.0])})["w"]
    np.testing.assert_allclose(found, [0.5, 1.0, 2.0])


LENGTHS = 2.0 ** (np.arange(-4, 4) / 2)


def _turned(frequency: float, draws: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Four chains with a function that lengths turn by `frequency`, as exact HMC turns a normal direction.

    Four more functions are independent from draw to draw.
    """
    functions = GENERATOR.normal(size=(4, draws, 5))
    lengths = np.tile(LENGTHS, (4, draws // len(LENGTHS)))
    for t in range(1, draws):
        turned = np.cos(frequency * lengths[0, t] * GENERATOR.uniform(0.8, 1.2, 4))  # with jitter
        functions[:, t, 0] = turned * functions[:, t - 1, 0] + np.sqrt(1 - turned**2) * functions[:, t, 0]
    return lengths, np.ceil(lengths / 0.01), functions


@pytest.mark.parametrize("frequency", [4.0, 2.0, 1.0, 0.7])
def test_the_best_length_is_about_a_quarter_of_the_slowest_period(frequency):
    # With r = cos(f t) a function is worth (1 - r) / (1 + r), its square (1 - r^2) / (1 + r^2): the worse of the two is
    # highest per step near f t = pi / 2.
    length, place = best_length(*_turned(frequency))
    assert LENGTHS[place] == length
    assert 0.7 < length / (np.pi / 2 / frequency) < 1.5


def test_a_length_that_is_too_short_is_left_for_the_longest():
    length, place = best_length(*_turned(0.1))
    assert place == len(LENGTHS) - 1
    assert length == LENGTHS[-1]


def test_a_function_that_is_mirrored_does_not_count_as_moved():
    length, _ = best_length(*_turned(np.pi / LENGTHS[-2]))
    assert length < 0.8 * LENGTHS[-2]  # there the function is its own mirror image: far away, but not its square
