"""Guides: what is too narrow, too wide, not fitted or collapsed is not certified, and a good fit is told from it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.stats

import inference
import models
from diagnostics import convergence
from diagnostics.convergences.guides import _importance

NETWORK = models.mlp((4,), "tanh")


def _guide(width: float, dimension: int, draws: int = 1000, seed: int = 0) -> inference.Posterior:
    """A normal guide, so many times as wide as its standard normal target in each dimension."""
    generator = np.random.default_rng(seed)
    u = width * generator.normal(size=(1, draws, dimension))
    statistics = {
        "lp": scipy.stats.norm.logpdf(u).sum(axis=-1),
        "guide_log_density": scipy.stats.norm.logpdf(u, scale=width).sum(axis=-1),
    }
    return _posterior({"u": u}, statistics, loss=generator.normal(size=1000))


def _posterior(draws, statistics, loss, model=None, y=(), method=None) -> inference.Posterior:
    return inference.Posterior(
        model=model or (lambda: None), method=method or inference.SVI(), seed=0, temperature=1.0, tempering="posterior",
        draws=draws, statistics=statistics, curves={"loss": loss[None], "gradient_noise": np.ones((1, len(loss)))},
        observed={"y": np.asarray(y)}, probes=np.zeros((1, 1), np.float32), deterministic=(),
        cost=inference.host.machine.Cost(1.0, 1.0, 1, 1),
    )  # fmt: skip


def test_an_exact_guide_is_close():
    judged = convergence(_guide(1.0, 10))
    assert judged.passed
    assert judged.importance == pytest.approx(1.0)
    assert "is close to the posterior" in judged.verdict
    assert judged.advice == ()


@pytest.mark.parametrize(("width", "dimension"), [(7.0, 1), (3.0, 2), (1.5, 10)])
def test_a_guide_that_is_too_wide_is_not_certified(width, dimension):
    judged = convergence(_guide(width, dimension))
    assert judged.pareto_k < 0.5  # which is blind to it
    share = (np.sqrt(2 * width**2 - 1) / width**2) ** dimension  # 1 / E_q[(p / q)^2]
    assert judged.importance == pytest.approx(share, rel=0.25)
    assert judged.passed is False
    assert "the draws as they are differ from the posterior" in judged.verdict
    assert any("use more steps" in step for step in judged.advice)


def test_the_threshold_of_k_hat_falls_with_the_number_of_draws():
    """A guide half as wide as the posterior in 10 directions passed in 28 % of runs with 100 draws."""
    passed = [convergence(_guide(0.5, 10, draws=100, seed=seed)).passed for seed in range(40)]
    assert not any(passed)
    few = convergence(_guide(1.0, 1, draws=99))
    assert few.passed is False
    assert "99 draws are too few to judge the importance weights; 100 are needed" in few.verdict


def test_weights_that_are_not_finite_certify_nothing():
    posterior = _guide(1.0, 1)
    posterior.statistics["lp"][0, 3] = -np.inf
    assert _importance(posterior) == (np.inf, 0.0)
    assert convergence(posterior).passed is False


def _fit(free_energy: float, y: np.ndarray, model: models.Network = NETWORK) -> inference.Posterior:
    """A guide of a network with this free energy, whose importance weights say nothing, as those of most networks."""
    generator = np.random.default_rng(1)
    statistics = {"lp": 30 * generator.normal(size=(1, 500)), "guide_log_density": np.zeros((1, 500))}
    loss = free_energy + generator.normal(size=1000)
    return _posterior({"output.bias": generator.normal(size=(1, 500, 1))}, statistics, loss, model, y)


def test_a_collapsed_fit_is_told_from_a_good_one():
    y = np.random.default_rng(0).normal(size=64)
    constant = -scipy.stats.norm.logpdf(y, y.mean(), y.std()).sum() + np.log(64)  # a mean and a scale, log(n) / 2 each
    good, collapsed = convergence(_fit(constant - 45, y)), convergence(_fit(constant + 9, y))
    assert good.passed is None
    assert "failed" not in str(good)
    assert "explains the data 45 nats better than a constant prediction" in good.verdict
    assert "can't be certified" in good.verdict
    assert good.pareto_k > 0.7
    assert collapsed.passed is False
    assert collapsed.constant_gap == pytest.approx(-9, abs=0.3)
    assert "predicting the same for every input" in collapsed.verdict
    assert any("start='map'" in step and "restarts=8" in step for step in collapsed.advice)
    at_map = dataclasses.replace(_fit(constant + 9, y), method=inference.SVI(start="map"))
    assert not any("start='map'" in step for step in convergence(at_map).advice)


def test_a_guide_on_its_way_is_told_how_far_it_has_come():
    y = np.random.default_rng(0).normal(size=64)
    posterior = _fit(30.0, y)
    posterior.curves["loss"][0] += np.linspace(100, 0, 1000)
    judged = convergence(posterior)
    assert judged.verdict.startswith("Convergence failed: the guide had not settled")
    assert "nats better than a constant" in judged.verdict
    assert "steps=45,000" in judged.advice[0]


@pytest.mark.parametrize(
    ("likelihood", "y", "expected"),
    [
        (models.Gaussian(), np.array([1.0, 2.0, 4.0]), None),
        (models.HeteroscedasticGaussian(), np.array([1.0, 2.0, 4.0]), None),
        (models.Gaussian(scale=0.5), np.array([1.0, 2.0, 4.0]), 0.5),
        (models.Gaussian(outputs=2), np.array([[1.0, 5.0], [2.0, 3.0], [4.0, 0.0]]), None),
    ],
)
def test_what_a_constant_is_worth_in_regression(likelihood, y, expected):
    columns = y.reshape(3, -1).T
    exact = sum(scipy.stats.norm.logpdf(c, c.mean(), expected or c.std()).sum() for c in columns)
    assert likelihood.constant_log_likelihood(y) == pytest.approx(exact)


def test_what_a_constant_is_worth_elsewhere():
    labels = np.array([0, 0, 1, 2, 2, 2])
    exact = 2 * np.log(2 / 6) + np.log(1 / 6) + 3 * np.log(3 / 6)
    assert models.Categorical(4).constant_log_likelihood(labels) == pytest.approx(exact)
    assert models.Bernoulli().constant_log_likelihood(labels[:3]) == pytest.approx(2 * np.log(2 / 3) + np.log(1 / 3))
    y = scipy.stats.t.rvs(4, size=500, random_state=0)
    found = models.StudentTNoise().constant_log_likelihood(y)
    assert found >= scipy.stats.t.logpdf(y, 4).sum()  # no worse than the truth, and not much better
    assert found == pytest.approx(scipy.stats.t.logpdf(y, 4).sum(), abs=5)
    assert models.StudentTNoise(scale=1.0).constant_log_likelihood(y) <= found + 1e-3


def test_a_mode_that_was_not_reached_fails_without_the_words_of_its_run():
    """As in a file that was saved before runs wrote them down."""
    posterior = _fit(30.0, np.random.default_rng(0).normal(size=64))
    posterior.statistics["newton_decrement"] = np.full((1, 500), 2.6)
    judged = convergence(dataclasses.replace(posterior, method=inference.Laplace(hyperparameters="given")))
    assert judged.passed is False
    assert "2.6 standard deviations from the mode" in judged.failures[0]


def test_weights_of_the_draws_outweigh_the_curve_of_the_loss():
    posterior = _guide(1.0, 10)
    posterior.curves["loss"][0] += np.linspace(100, 0, 1000)
    judged = convergence(posterior)
    assert judged.passed
    assert "the loss was still falling" in judged.cautions[0]


def test_a_guide_that_patience_stopped_is_told_so():
    y = np.random.default_rng(0).normal(size=64)
    posterior = dataclasses.replace(_fit(30.0, y), method=inference.SVI(patience=50))
    posterior.curves["loss"][0] += np.linspace(100, 0, 1000)
    assert "patience=50 after 1,000 steps" in convergence(posterior).advice[0]


def test_a_users_own_model_is_not_sent_to_compare():
    (said,) = [step for step in convergence(_guide(3.0, 2)).advice if "exact draws" in step]
    assert "method='nuts'" in said
