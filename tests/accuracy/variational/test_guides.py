"""Guides against known answers: correlated ones, mixtures, NumPyro's own; and the pieces of the free energy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro import handlers
from numpyro.infer.autoguide import AutoDelta

import inference
import models
from diagnostics import convergence
from inference.target.binding import bind
from inference.target.density import View
from inference.target.minibatches import Minibatch
from inference.variational.closed_forms import expected_log_prob
from inference.variational.svi import GUIDES, _blundell

Z = 5.0


def _moments(conjugate, seeds: int = 4, **options: object) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the guide over independent fits, side by side, with standard errors."""
    rows, columns = np.triu_indices(4)
    fits = []
    for seed in range(seeds):
        draws = conjugate.stacked(conjugate.run(method="svi", seed=seed, draws=4000, **options))[0]
        fits.append(np.concatenate([draws.mean(axis=0), np.cov(draws.T)[rows, columns]]))
    return np.mean(fits, axis=0), np.std(fits, axis=0, ddof=1) / np.sqrt(seeds)


@pytest.mark.parametrize(
    ("guide", "options", "temperature", "tempering"),
    [
        ("fullrank", {}, 1.0, "posterior"),
        ("fullrank", {}, 0.4, "posterior"),
        ("fullrank", {}, 2.5, "likelihood"),
        ("lowrank", {"rank": 4}, 2.5, "likelihood"),  # tempering is the objective's, the same for all guides
    ],
)
def test_a_correlated_guide_is_the_posterior_of_a_linear_model(conjugate, guide, options, temperature, tempering):
    mean, precision = conjugate.posterior(temperature, tempering)
    covariance = np.linalg.inv(precision)
    found, error = _moments(
        conjugate, guide=guide, steps=4000, particles=8, temperature=temperature, tempering=tempering, **options
    )
    deviation = np.sqrt(np.diag(covariance))
    rows, columns = np.triu_indices(4)
    scale = np.concatenate([deviation, deviation[rows] * deviation[columns]])
    floor = np.concatenate([np.full(4, 1.0), np.full(10, np.sqrt(2))]) * scale / np.sqrt(4 * 4000)  # of the draws alone
    z = (found - np.concatenate([mean, covariance[rows, columns]])) / np.maximum(error, floor)
    assert np.abs(z).max() < Z + 1, f"z-scores {np.round(z, 1)}"


@pytest.mark.parametrize("guide", list(GUIDES))
def test_every_guide_keeps_the_contract(guide, tmp_path, counted):
    model = models.mlp((4,), "tanh")
    x = np.random.default_rng(0).normal(size=(30, 2))
    run = dict(method="svi", guide=guide, steps=20, draws=6, batch_size=8, progress=False)
    first = inference.run(model, x, x[:, 0], **run)
    before = counted("lower"), counted("compile")
    again = inference.run(models.mlp((4,), "tanh"), x, x[:, 0], **run)
    assert (counted("lower"), counted("compile")) == before
    for name, values in first.draws.items():
        assert values.tobytes() == again.draws[name].tobytes()
        assert np.isfinite(values).all()
    assert first.shape == (1, 6)
    assert first.idata.sample_stats["lp"].dims == ("chain", "draw")
    assert first.idata.sample_stats["loss"].dims == ("chain", "step")
    assert first.predict(x).outputs.shape == (1, 6, 30, 1)
    first.save(tmp_path / "p.npz")
    loaded = inference.load(tmp_path / "p.npz")
    assert loaded.method == first.method
    assert all(np.array_equal(loaded.guide[name], values) for name, values in first.guide.items())


def _two_modes(y=None):
    w = numpyro.sample("w", dist.Normal(0.0, 2.0))
    numpyro.sample("y", dist.Normal(w**2, 0.5), obs=y)


def test_a_mixture_finds_both_modes_where_one_gaussian_finds_one():
    y, grid = np.array(2.0, np.float32), np.linspace(-6, 6, 20_001)
    density = np.exp(scipy.stats.norm(0, 2).logpdf(grid) + scipy.stats.norm(grid**2, 0.5).logpdf(2.0))
    density /= density.sum()
    run = dict(method="svi", particles=8, steps=4000, draws=20_000, progress=False)
    mixture = inference.run(_two_modes, y, guide="mixture", components=4, seed=1, **run)  # starts of both signs
    draws = mixture.draws["w"].ravel()
    assert (draws > 0).mean() == pytest.approx(0.5, abs=0.05)
    assert (draws**2).mean() == pytest.approx((density * grid**2).sum(), rel=0.05)
    one = inference.run(_two_modes, y, **run)
    assert (one.draws["w"] > 0).mean() in (0.0, 1.0)
    gap = one.curves["loss"][0, -400:].mean() - mixture.curves["loss"][0, -400:].mean()
    assert gap == pytest.approx(np.log(2), abs=0.1)  # what the second mode is worth
    assert mixture.guide["weights"].sum() == pytest.approx(1)


def test_the_pieces_add_up_to_the_free_energy(conjugate):
    curves = conjugate.run(method="svi", steps=50).curves
    np.testing.assert_allclose(curves["loss"], curves["kl"] - curves["expected_log_likelihood"], rtol=1e-5)
    hot = conjugate.run(method="svi", steps=50, temperature=4.0, tempering="likelihood").curves
    np.testing.assert_allclose(hot["loss"], hot["kl"] - hot["expected_log_likelihood"] / 4, rtol=1e-5)
    stats = conjugate.run(method="svi", steps=50).idata.sample_stats
    assert {"loss", "kl", "expected_log_likelihood"} <= set(stats)


def test_the_divergence_is_in_closed_form_for_a_normal_prior_and_by_draws_for_a_mixture(conjugate):
    posterior = conjugate.run(method="svi", steps=20, learning_rate=1e-12)  # the guide stays where it began
    assert np.ptp(posterior.curves["kl"]) < 1e-3 * posterior.curves["kl"].mean()
    mean = np.concatenate([posterior.guide[f"output.{part}.mean"].ravel() for part in ("bias", "weight")])
    std = np.concatenate([posterior.guide[f"output.{part}.std"].ravel() for part in ("bias", "weight")])
    prior = conjugate.prior
    expected = np.sum(np.log(prior / std) + (std**2 + mean**2) / (2 * prior**2) - 0.5)
    np.testing.assert_allclose(posterior.curves["kl"][0, 0], expected, rtol=1e-5)
    mixed = models.linear(models.ScaleMixture(0.5, 1.0, 0.1), models.Gaussian(scale=0.5))
    spread = inference.run(mixed, conjugate.x, conjugate.y, method="svi", steps=20, learning_rate=1e-12, progress=False)
    assert np.ptp(spread.curves["kl"]) > 1e-2


def _drawn_scale(y=None):
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
    w = numpyro.sample("w", dist.Normal(0.0, scale).expand((2,)).to_event(1))
    numpyro.sample("y", dist.Normal(w.sum(), 1.0), obs=y)


@pytest.mark.parametrize("guide", ["lowrank", "fullrank", "mixture", "gaussian"])
def test_a_prior_whose_scale_is_drawn_is_averaged_over_both(guide):
    # Where weights and their scale are correlated under the guide, the weights' marginals are not enough: the terms of
    # the free energy must be those of draws of both from the guide.
    method = inference.SVI(guide=guide, particles=20_000)
    bound = bind(_drawn_scale, (np.float32(1.0),), 1.0, "posterior", None)
    parameters = method.objective().begin(
        bound.target, bound.data, {"scale": jnp.array(0.3), "w": jnp.array([0.5, -1.0])}, jax.random.key(0)
    )
    if guide in ("lowrank", "fullrank"):
        factor = jnp.tril(3.0 * jnp.ones((3, parameters.factor.shape[1])))
        parameters = parameters._replace(rho=jnp.zeros(3), factor=factor)

    @jax.jit
    def divergence(key):
        return method.objective().loss(bound.target, bound.data, Minibatch(None, 0, 1), parameters, key)[1]["kl"]

    def gap(key):
        drawn = method.guide.draw(bound.target, bound.data, parameters, key)
        terms = bound.target.terms(drawn.position, bound.data)
        return drawn.log_density - terms.log_prior - terms.log_jacobian

    gaps = np.asarray(jax.jit(jax.vmap(gap))(jax.random.split(jax.random.key(2), 20_000)), np.float64)
    assert abs(gaps.mean() - float(divergence(jax.random.key(1)))) < Z * np.sqrt(2) * gaps.std() / np.sqrt(20_000)


def test_layers_whose_weights_are_made_of_other_sites_are_refused_where_it_matters(conjugate):
    model = models.linear(models.Hierarchical(), models.Gaussian(scale=0.5))
    for options in ({"estimator": "local"}, {"guide": "dropout"}):
        with pytest.raises(ValueError, match=r"those of 'output' are made of others"):
            inference.run(model, conjugate.x, conjugate.y, method="svi", **options)
    posterior = inference.run(model, conjugate.x, conjugate.y, method="svi", steps=5, draws=7, progress=False)
    with pytest.raises(ValueError, match=r"the weights 'output\.weight' are products of other sites, as under a hier"):
        inference.prune(posterior, 0.5)
    centre, guide = inference.centre(posterior), posterior.guide
    product = centre.draws["output.scale"][0, 0] * guide["output.weight.standard.mean"]
    np.testing.assert_allclose(centre.draws["output.weight"][0, 0], product, rtol=1e-6)
    assert centre.predict(conjugate.x).outputs.shape == (1, 1, 40, 1)


def test_the_centre_has_the_precision_of_the_run(conjugate):
    posterior = conjugate.run(method="svi", steps=5, draws=2, precision="float64")
    centre = inference.centre(posterior)
    assert centre.draws["output.weight"].dtype == np.float64
    np.testing.assert_array_equal(centre.draws["output.weight"][0, 0], posterior.guide["output.weight.mean"])


def _scaled(y=None):
    with handlers.scale(scale=jnp.array([1.0, 0.5, 3.0])), numpyro.plate("three", 3):
        w = numpyro.sample("w", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(w.sum(), 1.0), obs=y)


def test_a_scale_for_each_value_is_that_of_the_draws():
    posterior = inference.run(_scaled, np.float32(0.0), method="svi", steps=5, draws=5, progress=False)
    assert np.isfinite(posterior.curves["loss"]).all()
    bound = bind(_scaled, (np.float32(0.0),), 1.0, "posterior", None)
    position = {"w": jnp.array([1.0, 2.0, 3.0])}
    seen = bound.target.terms(position, bound.data, View(lambda name, prior: jnp.zeros(())))
    np.testing.assert_allclose(seen.log_prior, bound.target.terms(position, bound.data).log_prior)


@pytest.mark.parametrize("prior", [dist.Normal(0.3, 1.4), dist.Laplace(-0.2, 0.7)])
def test_expected_log_priors_are_those_of_draws(prior):
    mean, std = jnp.array([0.5, -2.0, 0.0]), jnp.array([0.1, 1.0, 2.0])
    draws = mean + std * jax.random.normal(jax.random.key(0), (100_000, 3))
    values = np.asarray(prior.log_prob(draws).sum(axis=1), np.float64)
    closed = expected_log_prob(mean, std, prior.expand((3,)).to_event(1))
    assert abs(values.mean() - float(closed)) < Z * values.std() / np.sqrt(100_000)


def test_blundells_weights_sum_to_one_epoch_and_do_not_overflow():
    for count in (1, 2, 5, 469):
        weights = [float(_blundell(Minibatch(None, jnp.int32(i), count))) / count for i in range(count)]
        assert sum(weights) == pytest.approx(1, abs=1e-5)
        exact = [2.0 ** (count - i) / (2.0**count - 1) for i in range(1, count + 1)]
        np.testing.assert_allclose(weights, exact, rtol=1e-5, atol=1e-37)


def test_blundells_weights_are_those_of_the_whole_divergence(conjugate):
    method = inference.SVI(batch_size=10, kl_weights="blundell")
    bound = bind(conjugate.model, (conjugate.x, conjugate.y), 1.0, "posterior")
    position = {"output.bias": jnp.ones(1), "output.weight": jnp.ones((3, 1))}
    parameters = method.objective().begin(bound.target, bound.data, position, jax.random.key(0))
    for place in range(4):
        batch = Minibatch(jnp.arange(10), jnp.int32(place), 4)
        loss, pieces = method.objective().loss(bound.target, bound.data, batch, parameters, jax.random.key(1))
        expected = _blundell(batch) * pieces["kl"] - pieces["expected_log_likelihood"]
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_blundells_weights_find_the_same_guide(conjugate):
    mean, precision = conjugate.posterior()
    fits = []
    for seed in range(6):
        run = conjugate.run(method="svi", batch_size=10, kl_weights="blundell", steps=8000, particles=4, seed=seed)
        fits.append(np.concatenate([run.guide["output.bias.mean"], run.guide["output.weight.mean"][:, 0]]))
    error = np.maximum(np.std(fits, axis=0, ddof=1), 0.01 / np.sqrt(np.diag(precision))) / np.sqrt(len(fits))
    assert (np.abs(np.mean(fits, axis=0) - mean) / error).max() < Z + 1


def test_a_start_at_the_map_begins_there(conjugate):
    first = conjugate.run(method="svi", steps=1, learning_rate=1e-12, start="map")
    mean, precision = conjugate.posterior()
    found = np.concatenate([first.guide["output.bias.mean"], first.guide["output.weight.mean"][:, 0]])
    assert (np.abs(found - mean) < 0.02 / np.sqrt(np.diag(precision))).all()
    assert first.start == "map"


def test_a_singular_guide_is_called_so_and_gets_no_number(conjugate):
    for options in ({"guide": "dropout", "rate": 0.1}, {"guide": AutoDelta(conjugate.model)}):
        judged = convergence(conjugate.run(method="svi", steps=2000, draws=50, **options))
        assert np.isnan(judged.pareto_k)
        assert not judged.passed  # nothing says that it is near the posterior
        assert "singular guide" in str(judged) or "had not settled" in str(judged)
        assert "k-hat nan" not in str(judged)


def test_pruning_takes_the_weights_with_the_lowest_signal(conjugate):
    model = models.mlp((8,), "tanh", likelihood=models.Gaussian(scale=0.5))
    run = dict(method="svi", steps=1000, draws=20, progress=False)
    posterior = inference.run(model, conjugate.x, conjugate.y, **run)
    ratios = inference.signal_to_noise(posterior)
    assert {name: ratio.shape for name, ratio in ratios.items()} == {"hidden0.weight": (3, 8), "output.weight": (8, 1)}
    every = np.concatenate([ratio.ravel() for ratio in ratios.values()])
    pruned = inference.prune(posterior, 0.75)
    gone = np.concatenate([(pruned.draws[name] == 0).all(axis=(0, 1)).ravel() for name in ratios])
    assert gone.sum() == 24
    assert every[gone].max() <= every[~gone].min()
    np.testing.assert_array_equal(pruned.draws["hidden0.bias"], posterior.draws["hidden0.bias"])
    np.testing.assert_array_equal(
        inference.prune(posterior, 0.0).draws["output.weight"], posterior.draws["output.weight"]
    )
    assert np.ptp(inference.prune(posterior, 1.0).predict(conjugate.x).outputs[0, 0]) == 0
    again = inference.prune(pruned, 0.75)  # what is gone comes first, and nothing else goes
    np.testing.assert_array_equal(again.draws["hidden0.weight"], pruned.draws["hidden0.weight"])
    assert np.isfinite(inference.signal_to_noise(pruned)["hidden0.weight"]).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        inference.prune(posterior, 1.5)
    with pytest.raises(ValueError, match="signal-to-noise ratio is that of one normal per weight"):
        inference.prune(inference.run(model, conjugate.x, conjugate.y, guide="dropout", **run), 0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guide": "gaussian", "components": 3}, r"components is an option of guide='mixture'"),
        ({"estimator": "locl"}, r"did you mean 'local'"),
        ({"kl_weights": "blundell"}, r"deals out to minibatches; give batch_size"),
        ({"schedule": "cosin"}, r"did you mean 'cosine'"),
        ({"clip": 0.0}, r"clip must be a finite number above 0"),
        ({"patience": 0}, r"patience must be at least 1"),
        ({"start": "ensemble"}, r"start must be one of 'map', 'random', 'prior'"),
        ({"restarts": 0}, r"restarts must be at least 1"),
        ({"estimator": "local", "chunk_size": 10}, r"chunk_size=10 would do nothing here, .* by batch_size"),
        ({"guide": "dropout", "chunk_size": 10}, r"chunk_size=10 would do nothing here"),
    ],
)
def test_wrong_options_say_what_is_right(conjugate, options, message):
    with pytest.raises(ValueError, match=message):
        conjugate.run(method="svi", **options)


def test_the_first_scale_is_that_of_the_first_guide(conjugate):
    run = conjugate.run(method="svi", first_scale=0.002, steps=1, learning_rate=1e-9, draws=1)
    deviations = [values for name, values in run.guide.items() if name.endswith(".std")]
    np.testing.assert_allclose(np.concatenate([each.ravel() for each in deviations]), 0.002, rtol=1e-4)
    with pytest.raises(ValueError, match="first_scale must be"):
        conjugate.run(method="svi", first_scale=0.0)
