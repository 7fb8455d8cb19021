"""Every method against a known answer.

Tolerances come from Monte Carlo error: a sampler's mean must lie within 5 standard errors (computed by ArviZ from the
effective sample size) of the truth, a guide's within 5 standard errors over independent fits. Over the 60 or so
comparisons of this file, right code fails one with probability below 1e-4, for a fresh seed; the seeds are fixed.
"""

from __future__ import annotations

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.linalg
import scipy.stats

import inference
from inference import mixing

Z = 5.0


def check_moments(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """z-tests of every mean and every entry of the covariance."""
    centred = draws - mean
    i, j = np.triu_indices(len(mean))
    quantities = np.concatenate([centred, centred[..., i] * centred[..., j] - covariance[i, j]], axis=-1)
    z = quantities.mean(axis=(0, 1)) / mixing.mcse(quantities)
    assert np.abs(z).max() < Z, f"z-scores {np.round(z, 1)}"


@pytest.mark.parametrize(
    ("temperature", "tempering"), [(1.0, "posterior"), (0.4, "posterior"), (2.5, "posterior"), (2.5, "likelihood")]
)
def test_nuts_has_the_exact_moments(conjugate, temperature, tempering):
    # 28,000 nearly independent draws: a bias of 0.03 posterior standard deviations would show. The tempered densities
    # are the target's, by the same program: there 4,000 draws show one of 0.08, and a variance that is off by 12 %.
    long = temperature == 1
    posterior = conjugate.run(
        method="nuts", draws=7000 if long else 1000, warmup=500, seed=1, temperature=temperature, tempering=tempering
    )
    mean, precision = conjugate.posterior(temperature, tempering)
    draws = conjugate.stacked(posterior)
    assert mixing.ess(draws).min() > (20_000 if long else 2500)
    check_moments(draws, mean, np.linalg.inv(precision))


@pytest.mark.parametrize(
    ("temperature", "tempering", "options"),
    [
        (1.0, "posterior", {}),
        (0.4, "posterior", {}),
        (2.5, "posterior", {"target_acceptance": 0.6}),
        (2.5, "likelihood", {"jitter": 0.3}),
        (1.0, "posterior", {"mass": "diagonal", "tuning": 300}),
        (1.0, "posterior", {"precision": "float64", "chunk_size": 7, "trajectory_length": 0.25, "jitter": 0.5}),
    ],
)
def test_hmc_has_the_exact_moments(conjugate, temperature, tempering, options):
    # As many draws as it takes for a bias of 0.03 posterior standard deviations to show; of 0.13 in the other cases.
    long = not options and temperature == 1
    posterior = conjugate.run(
        method="hmc", draws=30_000 if long else 3000, seed=1, temperature=temperature, tempering=tempering, **options
    )
    mean, precision = conjugate.posterior(temperature, tempering)
    draws = conjugate.stacked(posterior)
    assert mixing.ess(draws).min() > (20_000 if long else 1500)
    check_moments(draws, mean, np.linalg.inv(precision))


@pytest.mark.parametrize("method", [dict(method="nuts", warmup=100), dict(method="mclmc", adjusted=True)])
def test_samplers_with_the_scales_of_a_pilot_have_the_exact_moments(conjugate, method):
    # 6,000 draws: a bias of 0.07 posterior standard deviations would show.
    posterior = conjugate.run(mass="tuned", draws=1500, seed=2, **method)
    mean, precision = conjugate.posterior()
    draws = conjugate.stacked(posterior)
    assert mixing.ess(draws).min() > 1500
    check_moments(draws, mean, np.linalg.inv(precision))


@pytest.mark.parametrize(
    ("temperature", "tempering", "options"),
    [
        (1.0, "posterior", {"step_size": 0.3, "trajectory_length": 0.4}),  # refuses a third
        (0.4, "posterior", {"mass": "diagonal"}),
        (2.5, "likelihood", {"target_acceptance": 0.6}),
    ],
)
def test_adjusted_mclmc_has_the_exact_moments(conjugate, temperature, tempering, options):
    # As many draws as it takes for a bias of 0.03 posterior standard deviations to show; of 0.13 in the other cases.
    long = temperature == 1
    posterior = conjugate.run(
        method="mclmc", adjusted=True, draws=15_000 if long else 1500, seed=1, temperature=temperature,
        tempering=tempering, **options,
    )  # fmt: skip
    mean, precision = conjugate.posterior(temperature, tempering)
    draws = conjugate.stacked(posterior)
    assert mixing.ess(draws).min() > (20_000 if long else 1500)
    check_moments(draws, mean, np.linalg.inv(precision))


def _squared_distance(conjugate, **options) -> np.ndarray:
    """(w - mean)^T precision (w - mean) of each draw, which is 4 on average, less 4."""
    mean, precision = conjugate.posterior()
    centred = conjugate.stacked(conjugate.run(method="mclmc", **options)) - mean
    return np.einsum("cdi,ij,cdj->cd", centred, precision, centred)[..., None] - 4


def test_the_bias_of_unadjusted_mclmc_falls_with_its_step(conjugate):
    # Nothing but the step size differs: the length of all paths is the same.
    options = dict(trajectory_length=0.5, warmup=200, seed=3)
    with pytest.warns(UserWarning, match="energy variance of"):
        large = _squared_distance(conjugate, step_size=0.3, draws=10_000, thin=3, **options)
    half = _squared_distance(conjugate, step_size=0.15, draws=10_000, thin=6, **options)
    small = _squared_distance(conjugate, step_size=0.05, draws=10_000, thin=18, **options)
    bias = [float(each.mean()) for each in (large, half, small)]
    error = [mixing.mcse(each)[0] for each in (large, half, small)]
    said = f"biases {bias}, errors {error}"
    assert abs(bias[0]) > 2 * Z * error[0], said
    assert abs(bias[0]) > 2 * abs(bias[1]) + Z * np.hypot(error[0], 2 * error[1]), said  # of second order: four times
    assert abs(bias[2]) < Z * error[2], said


@pytest.mark.parametrize(("temperature", "tempering"), [(1.0, "posterior"), (0.4, "posterior"), (2.5, "likelihood")])
@pytest.mark.parametrize("structure", ["full", "last_layer", "diagonal"])
def test_laplace_is_the_posterior_of_a_linear_model(conjugate, structure, temperature, tempering):
    posterior = conjugate.run(
        method="laplace", structure=structure, draws=20_000, temperature=temperature, tempering=tempering, seed=1
    )
    mean, precision = conjugate.posterior(temperature, tempering)
    covariance = np.diag(1 / np.diag(precision)) if structure == "diagonal" else np.linalg.inv(precision)
    check_moments(conjugate.stacked(posterior), mean, covariance)


@pytest.mark.parametrize(("temperature", "tempering"), [(1.0, "posterior"), (2.5, "likelihood")])
@pytest.mark.parametrize(("method", "friction"), [("sgld", 1.0), ("sghmc", 0.2)])
def test_langevin_has_the_moments_of_its_recursion(conjugate, method, friction, temperature, tempering):
    # Of all rows, with steps e: w and momentum are a linear recursion, whose stationary covariance is exact.
    e = 5e-4
    posterior = conjugate.run(
        method=method, step_size=e, draws=5000, thin=10, warmup=1000, seed=1, temperature=temperature,
        tempering=tempering, **({"friction": friction} if method == "sghmc" else {}),
    )  # fmt: skip
    mean, precision = conjugate.posterior(temperature, tempering)
    one, bend = np.eye(4), e * temperature * precision  # of T times the log density
    kick = np.block([[one - bend, (1 - friction) * one], [-bend, (1 - friction) * one]])
    noise = np.kron(np.ones((2, 2)), 2 * friction * e * temperature * one)
    covariance = scipy.linalg.solve_discrete_lyapunov(kick, noise)[:4, :4]
    check_moments(conjugate.stacked(posterior), mean, covariance)


@pytest.mark.parametrize("estimate", ["map", "mle"])
def test_members_of_an_ensemble_are_point_estimates(conjugate, estimate):
    posterior = conjugate.run(method="ensemble", chains=3, estimate=estimate)
    mean, precision = conjugate.posterior()
    expected = mean if estimate == "map" else np.linalg.lstsq(conjugate.design, conjugate.y, rcond=None)[0]
    tolerance = 1e-4 * np.sqrt(np.diag(np.linalg.inv(precision)))
    assert (np.abs(conjugate.stacked(posterior)[:, 0] - expected) < tolerance).all()
    assert len(np.unique(posterior.curves["loss"][:, 0])) == 3  # three starts, one optimum


@pytest.mark.parametrize("batch_size", [None, 20])
def test_bootstrapped_members_spread_as_resampled_least_squares(conjugate, batch_size):
    # The same bootstrap by NumPy: means and variances of the coefficients over resamples, each with its error.
    members = 200
    posterior = conjugate.run(
        method="ensemble", chains=members, estimate="mle", bootstrap=True, steps=2000, batch_size=batch_size, seed=2
    )
    ours = conjugate.stacked(posterior)[:, 0]
    generator, rows = np.random.default_rng(0), len(conjugate.y)
    chosen = generator.integers(0, rows, (20_000, rows))
    design, y = conjugate.design[chosen], conjugate.y[chosen]
    gram = np.einsum("bni,bnj->bij", design, design)
    theirs = np.linalg.solve(gram, np.einsum("bni,bn->bi", design, y)[..., None])[..., 0]
    z = (ours.mean(axis=0) - theirs.mean(axis=0)) / (theirs.std(axis=0) / np.sqrt(members))
    assert np.abs(z).max() < Z, f"means: z-scores {np.round(z, 1)}"
    spread = ((theirs - theirs.mean(axis=0)) ** 2).std(axis=0) / theirs.var(axis=0) / np.sqrt(members)
    z = (ours.var(axis=0) / theirs.var(axis=0) - 1) / spread
    assert np.abs(z).max() < Z, f"variances: z-scores {np.round(z, 1)}"


@pytest.mark.parametrize("batch_size", [None, 10])
def test_mle_is_least_squares(conjugate, batch_size):
    posterior = conjugate.run(method="mle", batch_size=batch_size, steps=6000)
    expected = np.linalg.lstsq(conjugate.design, conjugate.y, rcond=None)[0]
    _, precision = conjugate.posterior()
    # Full batch: float32 rounding. Minibatches: what a learning rate that decays to 0 leaves of their noise.
    tolerance = (1e-4 if batch_size is None else 0.1) * np.sqrt(np.diag(np.linalg.inv(precision)))
    assert (np.abs(conjugate.stacked(posterior)[0, 0] - expected) < tolerance).all()


@pytest.mark.parametrize(("temperature", "tempering"), [(1.0, "posterior"), (5.0, "likelihood")])
def test_map_is_ridge(conjugate, temperature, tempering):
    posterior = conjugate.run(method="map", temperature=temperature, tempering=tempering)
    mean, precision = conjugate.posterior(temperature, tempering)
    tolerance = 1e-4 * np.sqrt(np.diag(np.linalg.inv(precision)))  # float32 rounding
    assert (np.abs(conjugate.stacked(posterior)[0, 0] - mean) < tolerance).all()


def test_map_ignores_the_temperature_of_the_whole_posterior_and_says_so(conjugate):
    with pytest.warns(UserWarning, match="does not depend on its temperature"):
        hot = conjugate.run(method="map", temperature=5.0)
    cold = conjugate.run(method="map")
    np.testing.assert_allclose(conjugate.stacked(hot), conjugate.stacked(cold), atol=1e-4)


@pytest.mark.parametrize(
    ("temperature", "tempering", "batch_size"),
    [(1.0, "posterior", None), (0.4, "posterior", None), (2.5, "likelihood", None), (1.0, "posterior", 10)],
)
def test_mean_field_svi_has_the_mean_and_the_conditional_variances(conjugate, temperature, tempering, batch_size):
    mean, precision = conjugate.posterior(temperature, tempering)
    fits = []
    for seed in range(8):
        posterior = conjugate.run(
            method="svi", seed=seed, steps=4000, particles=4, draws=2000, temperature=temperature,
            tempering=tempering, batch_size=batch_size,
        )  # fmt: skip
        draws = conjugate.stacked(posterior)[0]
        fits.append(np.concatenate([draws.mean(axis=0), np.log(draws.var(axis=0))]))
    fits = np.asarray(fits)
    # Of the draws' own noise alone, the largest possible, in case all fits err alike: 1/sqrt(2000) and sqrt(2/2000).
    scale = 1 / np.sqrt(np.diag(precision))
    floor = np.concatenate([scale / np.sqrt(2000), np.full(4, np.sqrt(2 / 2000))])
    error = np.maximum(fits.std(axis=0, ddof=1), floor) / np.sqrt(len(fits))
    z = (fits.mean(axis=0) - np.concatenate([mean, -np.log(np.diag(precision))])) / error
    assert np.abs(z).max() < Z, f"z-scores {np.round(z, 1)}"


def test_draws_of_a_mean_field_guide_are_independent_over_sites(conjugate):
    draws = conjugate.stacked(conjugate.run(method="svi", steps=500, draws=20_000, seed=3))[0]
    correlation = np.corrcoef(draws.T)[np.triu_indices(4, 1)]
    assert np.abs(correlation).max() < Z / np.sqrt(20_000), f"correlations {np.round(correlation, 3)}"


def test_svi_free_energy_bounds_the_evidence(conjugate):
    # With a mean-field guide the free energy is -log p(y) + KL, and both are known here.
    _, precision = conjugate.posterior()
    gram = conjugate.design @ conjugate.design.T
    covariance = conjugate.noise**2 * np.eye(len(conjugate.y)) + conjugate.prior**2 * gram
    log_evidence = scipy.stats.multivariate_normal(np.zeros(len(conjugate.y)), covariance).logpdf(conjugate.y)
    divergence = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    posterior = conjugate.run(method="svi", steps=4000, particles=16, seed=2)
    tail = posterior.curves["loss"][0, -400:].astype(np.float64)  # the learning rate is all but 0 by then
    z = (tail.mean() - (divergence - log_evidence)) / (tail.std() / np.sqrt(len(tail)))
    assert abs(z) < Z, f"free energy {tail.mean()}, closed form {divergence - log_evidence}"


def _scale_model(y=None):
    sigma = numpyro.sample("sigma", dist.Gamma(2.0, 1.0))
    with numpyro.plate("rows", 6):
        numpyro.sample("y", dist.Normal(0.0, sigma), obs=y)


_SCALE_DATA = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 0.9])
_GRID = np.linspace(1e-4, 12, 200_001)


def _scale_density(temperature: float, tempering: str) -> np.ndarray:
    likelihood = scipy.stats.norm(0, _GRID[:, None]).logpdf(_SCALE_DATA).sum(axis=1)
    prior = scipy.stats.gamma(2.0).logpdf(_GRID)
    return likelihood / temperature + (prior / temperature if tempering == "posterior" else prior)


@pytest.mark.parametrize("method", ["nuts", "hmc"])
@pytest.mark.parametrize(("temperature", "tempering"), [(1.0, "posterior"), (3.0, "posterior"), (3.0, "likelihood")])
def test_transformed_site_against_quadrature(method, temperature, tempering):
    # Without the Jacobian, or with a tempered one, the draws would follow another density.
    posterior = inference.run(
        _scale_model, _SCALE_DATA, method=method, draws=5000, seed=5, temperature=temperature, tempering=tempering,
        progress=False, target_acceptance=0.9,
    )  # fmt: skip
    density = np.exp(_scale_density(temperature, tempering))
    density /= density.sum()
    mean = _GRID @ density
    variance = (_GRID - mean) ** 2 @ density
    check_moments(posterior.draws["sigma"][..., None].astype(float), np.array([mean]), np.array([[variance]]))


def _location_scale_model(y=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    sigma = numpyro.sample("sigma", dist.Gamma(2.0, 1.0))
    with numpyro.plate("rows", 6):
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y)


@pytest.mark.parametrize(("temperature", "tempering"), [(3.0, "posterior"), (3.0, "likelihood")])
def test_adjusted_mclmc_with_a_transformed_site_against_quadrature(temperature, tempering):
    posterior = inference.run(
        _location_scale_model, _SCALE_DATA, method="mclmc", adjusted=True, draws=8000, seed=5, temperature=temperature,
        tempering=tempering, progress=False, target_acceptance=0.95,
    )  # fmt: skip
    mu, log_sigma = np.meshgrid(np.linspace(-16, 16, 401), np.linspace(-6, 4, 501), indexing="ij")
    sigma = np.exp(log_sigma)
    likelihood = sum(scipy.stats.norm(mu, sigma).logpdf(value) for value in _SCALE_DATA)
    prior = scipy.stats.norm(0, 2).logpdf(mu) + scipy.stats.gamma(2.0).logpdf(sigma)
    prior = prior / temperature if tempering == "posterior" else prior
    density = np.exp(likelihood / temperature + prior + log_sigma)  # on the grid of the logarithm
    density /= density.sum()
    # The scale has a heavy tail; these functions of it do not.
    for function in (lambda m, s: np.tanh(m), lambda m, s: np.log1p(s), lambda m, s: np.exp(-(s + m * m))):
        draws = function(posterior.draws["mu"], posterior.draws["sigma"])[..., None].astype(float)
        truth = (function(mu, sigma) * density).sum()
        z = (draws.mean() - truth) / mixing.mcse(draws)[0]
        assert abs(z) < Z, f"{draws.mean()} against {truth}, z = {z:.1f}"


@pytest.mark.parametrize(("temperature", "tempering"), [(1.0, "posterior"), (3.0, "likelihood")])
def test_map_is_the_mode_of_the_site_itself(temperature, tempering):
    posterior = inference.run(
        _scale_model, _SCALE_DATA, method="map", temperature=temperature, tempering=tempering, progress=False
    )
    mode = _GRID[_scale_density(temperature, tempering).argmax()]
    assert abs(posterior.draws["sigma"].item() - mode) < 1e-3


def test_eight_schools_against_quadrature():
    """A hierarchical model that has nothing to do with networks: mu and tau after the schools are integrated out."""
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def model(sigma, y=None):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        tau = numpyro.sample("tau", dist.HalfCauchy(5))
        with numpyro.plate("schools", len(sigma)):
            z = numpyro.sample("z", dist.Normal(0, 1))
            theta = numpyro.deterministic("theta", mu + tau * z)
            numpyro.sample("y", dist.Normal(theta, sigma), obs=y)

    posterior = inference.run(model, sigma, y, draws=5000, warmup=1000, target_acceptance=0.95, seed=3, progress=False)
    assert posterior.draws["theta"].shape == (4, 5000, 8)
    assert posterior.statistics["diverging"].sum() == 0

    mu, log_tau = np.meshgrid(np.linspace(-25, 35, 601), np.linspace(-9, 7, 801), indexing="ij")
    tau = np.exp(log_tau)
    log_density = scipy.stats.norm(0, 5).logpdf(mu) + scipy.stats.halfcauchy(0, 5).logpdf(tau) + log_tau
    for value, scale in zip(y, sigma, strict=True):
        log_density += scipy.stats.norm(mu, np.hypot(tau, scale)).logpdf(value)
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    # The mean of tau has a heavy tail; bounded functions of it do not.
    quantities = {
        "mu": (posterior.draws["mu"], (mu * density).sum()),
        "mu^2": (posterior.draws["mu"] ** 2, (mu**2 * density).sum()),
        "tau < 2": (posterior.draws["tau"] < 2, density[tau < 2].sum()),
        "tau < 8": (posterior.draws["tau"] < 8, density[tau < 8].sum()),
        "log(1 + tau)": (np.log1p(posterior.draws["tau"]), (np.log1p(tau) * density).sum()),
    }
    for name, (draws, truth) in quantities.items():
        values = draws[..., None].astype(float)
        z = (values.mean() - truth) / mixing.mcse(values)[0]
        assert abs(z) < Z, f"{name}: {values.mean()} against {truth}, z = {z:.1f}"
