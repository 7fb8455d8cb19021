"""HMC as an algorithm: its acceptance, the units of its lengths, its pilot, and hard starts."""

from __future__ import annotations

import math
import warnings

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import diagnostics
import inference
import models
from inference import mixing
from inference.mcmc.hmc import HMC
from inference.target.binding import bind

GENERATOR = np.random.default_rng(7)
X = GENERATOR.normal(size=(40, 3)).astype(np.float32)
Y = (np.sin(X[:, 0]) + 0.3 * GENERATOR.normal(size=40)).astype(np.float32)


def _normal_model(y=None):
    w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(w, 0.5), obs=y)  # posterior precision 1 + 4


@pytest.mark.parametrize(("step_size", "length"), [(0.5, 1.5), (0.8, 0.8), (0.85, 2.55)])
def test_acceptance_on_a_normal_target_is_the_known_one(step_size, length):
    # A trajectory is linear, z' = M z with det M = 1; in coordinates where the target is standard, M^T M has the
    # eigenvalues k and 1/k, and the mean acceptance is 2 P(H' < H) = (4 / pi) arctan(1 / sqrt(k)).
    precision = 5.0
    kick, drift = np.array([[1, 0], [-step_size * precision / 2, 1]]), np.array([[1, step_size], [0, 1]])
    scaling = np.diag([np.sqrt(precision), 1.0])
    trajectory = np.linalg.matrix_power(kick @ drift @ kick, round(length / step_size))
    k = np.linalg.eigvalsh(
        (scaling @ trajectory @ np.linalg.inv(scaling)).T @ (scaling @ trajectory @ np.linalg.inv(scaling))
    )[1]
    expected = 4 / np.pi * np.arctan(1 / np.sqrt(k))
    posterior = inference.run(
        _normal_model, np.float64(0.3), method="hmc", step_size=step_size, trajectory_length=length, draws=5000,
        jitter=0.0, seed=3, progress=False,
    )  # fmt: skip
    rate = posterior.statistics["acceptance_rate"][..., None].astype(np.float64)
    assert 0.2 < expected < 0.98
    assert abs(rate.mean() - expected) < 5 * mixing.mcse(rate)[0]
    accepted = posterior.statistics["accepted"].mean()
    assert abs(accepted - expected) < 5 * np.sqrt(0.25 / 5000)


def test_statistics_say_what_happened(conjugate):
    statistics = conjugate.run(method="hmc", chains=2, draws=50, seed=1).statistics
    assert set(statistics) == {
        "acceptance_rate", "accepted", "diverging", "energy", "energy_error", "energy_noise", "lp", "n_steps",
        "step_size", "trajectory_length",
    }  # fmt: skip
    assert statistics["energy"].dtype == statistics["lp"].dtype == np.float64
    np.testing.assert_allclose(
        statistics["acceptance_rate"], np.exp(-np.maximum(statistics["energy_error"], 0)), rtol=1e-5
    )
    assert (statistics["energy"] > -statistics["lp"]).all()  # by the kinetic energy


ALPHA = 0.8


@pytest.mark.parametrize(
    ("temperature", "tempering", "length"),
    [
        (1.0, "posterior", math.pi * ALPHA / 2),
        (0.25, "posterior", math.pi * ALPHA / 4),
        (0.25, "likelihood", math.pi * ALPHA / 2),
    ],
)
def test_the_default_length_is_a_quarter_of_the_priors_period(conjugate, temperature, tempering, length):
    posterior = conjugate.run(
        method="hmc", chains=1, draws=3, step_size=0.03, jitter=0.0, temperature=temperature, tempering=tempering
    )
    steps = math.ceil(length / 0.03)
    np.testing.assert_array_equal(posterior.statistics["n_steps"], steps)
    np.testing.assert_allclose(posterior.statistics["step_size"], length / steps, rtol=1e-6)
    number = conjugate.run(
        method="hmc", chains=1, draws=3, step_size=0.03, trajectory_length=length, jitter=0.0,
        temperature=temperature, tempering=tempering,
    )  # fmt: skip
    np.testing.assert_allclose(conjugate.stacked(number), conjugate.stacked(posterior), atol=1e-3)


def test_a_step_that_divides_the_length_is_not_shortened():
    posterior = inference.run(
        _normal_model, np.float64(0.3), method="hmc", chains=1, draws=3, step_size=0.1, trajectory_length=1.0,
        jitter=0.0, progress=False,
    )  # fmt: skip
    assert (posterior.statistics["n_steps"] == 10).all()


def _settings(model, *args, **options):
    target, data = bind(model, args, 1.0, "posterior")[:2]
    return HMC(**options).settings(target, data)


def test_coordinates_are_whitened_by_the_prior():
    model = models.mlp((5,), prior={"default": models.Normal(2.0), "output": models.Normal(0.5)})
    settings = _settings(model, X, Y)
    # 20 hidden coordinates of scale 2, 6 of scale 0.5 and the noise: the median is 2.
    np.testing.assert_allclose(settings.lengths, math.pi, rtol=1e-6)
    np.testing.assert_allclose(settings.scale["hidden0.weight"], 1.0)
    np.testing.assert_allclose(settings.scale["output.weight"], 0.25)
    assert settings.scale["noise"] == pytest.approx(math.pi / (2 * math.sqrt(2)) / 2, rel=0.03)  # of log |z|


def test_a_users_model_is_whitened_by_draws_from_its_prior():
    def model(y):
        wide = numpyro.sample("wide", dist.Normal(0.0, 30.0))
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 0.5))
        heavy = numpyro.sample("heavy", dist.Cauchy(0.0, 1.0))
        flat = numpyro.sample("flat", dist.ImproperUniform(dist.constraints.real, (), ()))
        numpyro.sample("y", dist.Normal(wide + heavy + flat, scale), obs=y)

    settings = _settings(model, np.zeros(3))
    unit = settings.unit
    assert settings.scale["wide"] * unit == pytest.approx(30, rel=0.1)
    assert settings.scale["scale"] * unit == pytest.approx(0.5, rel=0.1)
    assert settings.scale["heavy"] * unit == pytest.approx(2 / 1.349, rel=0.1)  # its quartiles are at -1 and 1
    assert settings.scale["flat"] == 1
    assert unit == pytest.approx(2 / 1.349, rel=0.1)  # the median


def test_a_flat_prior_needs_a_length(conjugate):
    flat = models.linear(models.Flat(), models.Gaussian(scale=0.5))
    with pytest.raises(ValueError, match="give trajectory_length a number"):
        inference.run(flat, conjugate.x, conjugate.y, method=HMC.paper(), progress=False)
    inference.run(flat, conjugate.x, conjugate.y, method="hmc", trajectory_length=0.3, draws=10, progress=False)


def test_a_pilot_finds_lengths_and_scales_under_a_flat_prior(conjugate):
    flat = models.linear(models.Flat(), models.Gaussian(scale=0.5))
    posterior = inference.run(flat, conjugate.x, conjugate.y, method="hmc", draws=600, seed=1, progress=False)
    exact = np.linalg.lstsq(conjugate.design, conjugate.y.astype(np.float64), rcond=None)[0]
    deviations = 0.5 * np.sqrt(np.diag(np.linalg.inv(conjugate.design.T @ conjugate.design)))
    draws = conjugate.stacked(posterior)
    assert mixing.ess(draws).min() > 400
    assert (np.abs(draws.mean(axis=(0, 1)) - exact) < 5 * mixing.mcse(draws)).all()
    np.testing.assert_allclose(draws.std(axis=(0, 1)), deviations, rtol=5 / np.sqrt(2 * 400))
    assert posterior.statistics["n_steps"].mean() < 20


def test_jitter_spreads_the_lengths(conjugate):
    options = dict(method="hmc", chains=1, draws=400, step_size=0.01, trajectory_length=1.0)
    steps = conjugate.run(jitter=0.3, **options).statistics["n_steps"]
    assert 70 <= steps.min() < 75
    assert 126 < steps.max() <= 130
    assert (conjugate.run(jitter=0.0, **options).statistics["n_steps"] == 100).all()
    assert 80 <= conjugate.run(**options).statistics["n_steps"].min() < 85  # by default a fifth


def test_adaptation_reaches_its_target(conjugate):
    # On long trajectories, whose steps are hardly shortened to divide the length.
    for target in (0.6, 0.9):
        posterior = conjugate.run(method="hmc", target_acceptance=target, trajectory_length=6.0, draws=500, seed=4)
        assert abs(posterior.statistics["acceptance_rate"].mean() - target) < 0.1


def test_a_diagonal_mass_takes_few_steps_where_scales_differ():
    # Posterior standard deviations of 10 and 0.1: with the prior's scales a step must fit the narrow one. In
    # coordinates scaled by the posterior a quarter of the period is two or three steps, whatever the units.
    def model(y):
        w = numpyro.sample("w", dist.Normal(0.0, 10.0).expand((2,)).to_event(1))
        numpyro.sample("y", dist.Normal(w[1], 0.1), obs=y)

    options = dict(method="hmc", draws=300, chains=2, progress=False, seed=2)
    plain = inference.run(model, np.float64(0.5), trajectory_length="prior", **options)
    scaled = inference.run(model, np.float64(0.5), mass="diagonal", tuning=400, **options)
    assert plain.statistics["n_steps"].mean() > 40
    assert scaled.statistics["n_steps"].mean() < 6
    deviations = scaled.draws["w"].std(axis=(0, 1))
    assert deviations[0] == pytest.approx(10.0, rel=0.2)
    assert deviations[1] == pytest.approx(0.1, rel=0.2)


def test_a_chain_that_is_refused_gets_away_in_warm_up(conjugate):
    # Ten times the step that the posterior bears: only halved steps are accepted.
    stuck = dict(method="hmc", chains=2, draws=20, step_size=0.5, trajectory_length=2.0, start="random", seed=5)
    with pytest.warns(UserWarning, match=r"chains 0, 1 accepted less than 10% of the proposals: they are"):
        without = conjugate.run(warmup=0, **stuck)
    with pytest.warns(UserWarning, match="accepted"):
        after = conjugate.run(warmup=30, **stuck)
    moved = np.abs(conjugate.stacked(after)[0, 0] - conjugate.stacked(without)[0, 0]).max()
    assert moved > 0.1
    assert after.statistics["lp"][0, 0] > without.statistics["lp"][0, 0]


def test_fewer_rows_than_weights_and_unknown_noise():
    # Such a network can meet every target, where the likelihood has no bound in the noise: no start may end there.
    generator = np.random.default_rng(60)
    x = generator.normal(size=(60, 3)).astype(np.float32)
    y = (np.sin(2 * x[:, 0]) + 0.3 * generator.normal(size=60)).astype(np.float32)
    posterior = inference.run(models.mlp((50,)), x, y, method="hmc", draws=50, progress=False)
    assert (posterior.statistics["acceptance_rate"].mean(axis=1) > 0.5).all()
    assert posterior.statistics["n_steps"].max() < 2000


def test_a_cold_posterior_of_few_rows_is_found_in_bounded_time():
    generator = np.random.default_rng(8)
    x = generator.normal(size=(8, 3)).astype(np.float32)
    y = np.sin(2 * x[:, 0]).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", inference.TouchstoneWarning)  # targets without noise: energies are large there
        posterior = inference.run(
            models.mlp((20,), "tanh"), x, y, method="hmc", temperature=0.1, draws=2, warmup=2, chains=1, progress=False
        )
    assert posterior.cost.gradients < 500_000


@pytest.mark.parametrize("temperature", [1.0, 0.01])
def test_a_diagonal_mass_at_any_temperature(conjugate, temperature):
    posterior = conjugate.run(
        method="hmc", mass="diagonal", tuning=400, chains=2, draws=500, temperature=temperature, seed=1
    )
    assert mixing.ess(conjugate.stacked(posterior)).min() > 200
    assert 1 < posterior.statistics["n_steps"].mean() < 6


def test_given_steps_are_halved_in_warm_up_only(conjugate):
    posterior = conjugate.run(
        method="hmc", step_size=0.1, trajectory_length=0.7, jitter=0.0, chains=2, draws=100, warmup=20, seed=1
    )
    assert 0.1 < posterior.statistics["accepted"].mean() < 0.9
    assert len(np.unique(posterior.statistics["n_steps"])) == 1
    assert len(np.unique(posterior.statistics["step_size"])) == 1


def test_a_length_that_returns_to_where_it_began_is_spread_by_default():
    """A posterior standard deviation of a tenth of the prior's: the default length turns it by five times pi."""
    generator = np.random.default_rng(0)
    x = np.linalg.qr(generator.normal(size=(99, 4)) - 0.0)[0][:, :3]
    x = np.linalg.qr(x - x.mean(axis=0))[0] * np.sqrt(99)
    model = models.linear(likelihood=models.Gaussian(scale=1.0))
    options = dict(method="hmc", step_size=0.01, draws=250, progress=False)
    plain = inference.run(model, x, generator.normal(size=99), jitter=0.0, **options)
    spread = inference.run(model, x, generator.normal(size=99), **options)
    assert plain.draws["output.weight"].std(axis=(0, 1)).max() < 0.03
    deviations = spread.draws["output.weight"].std(axis=(0, 1)).ravel()
    assert mixing.ess(spread.draws["output.weight"][..., 0]).min() > 400
    np.testing.assert_allclose(deviations, 0.1, rtol=4 / np.sqrt(2 * 400))  # four standard errors of a deviation
    judged = diagnostics.convergence(plain)
    assert judged.passed is False
    assert any("jitter=0.2" in step for step in judged.advice)


def _two_wells(y=None):
    """A wide well on the left and a narrow one on the right, with a wall between them."""
    w = numpyro.sample("w", dist.ImproperUniform(dist.constraints.real_vector, (), event_shape=(2,)))
    left = 0.5 * jnp.sum((w + jnp.array([3.0, 0.0])) ** 2)
    right = 0.5 * jnp.sum(((w - jnp.array([3.0, 0.0])) / 0.02) ** 2)
    numpyro.factor("y", -jnp.where(w[0] < 0, left, right))


def test_each_chain_adapts_its_step_to_where_it_is():
    """The pilot is in the wide well, whose step is fifty times too long for the chains in the narrow one."""
    posterior = inference.run(
        _two_wells, method="hmc", chains=6, draws=100, warmup=150, trajectory_length=2.0, seed=2, progress=False
    )
    narrow = posterior.draws["w"][:, 0, 0] > 0
    assert not narrow[0]
    assert 0 < narrow.sum() < 6
    steps, accepted = posterior.statistics["step_size"][:, -1], posterior.statistics["acceptance_rate"].mean(axis=1)
    assert steps[narrow].max() < 0.2 * steps[~narrow].min()
    assert accepted.min() > 0.6
    assert (posterior.statistics["step_size"].max(axis=1) < 1.6 * posterior.statistics["step_size"].min(axis=1)).all()


def test_a_given_step_is_never_adapted(conjugate):
    posterior = conjugate.run(
        method="hmc", step_size=0.05, trajectory_length=0.5, jitter=0.0, chains=2, draws=20, warmup=30, seed=1
    )
    np.testing.assert_allclose(posterior.statistics["step_size"], 0.05, rtol=1e-6)
