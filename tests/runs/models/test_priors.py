"""Every prior: its density, its scale, and what it does inside a network."""

from __future__ import annotations

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro.infer import Predictive

import inference
import models
from models.priors import Site, unconstrained_scale
from tests.helpers.traces import traced

X = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
SITE = Site("hidden0", "weight", 4)


def test_scale_mixture_is_equation_7_of_blundell():
    prior = models.ScaleMixture(0.25, 1.0, np.exp(-6).item())
    w = np.array([-2.0, -0.01, 0.0, 0.001, 0.5], np.float32)
    expected = 0.25 * scipy.stats.norm(0, 1).pdf(w) + 0.75 * scipy.stats.norm(0, np.exp(-6)).pdf(w)
    np.testing.assert_allclose(jax.jit(lambda w: prior.distribution(SITE).log_prob(w))(w), np.log(expected), rtol=1e-5)
    assert prior.scale_of(SITE) == pytest.approx(np.sqrt(0.25 + 0.75 * np.exp(-12)))
    draw = jax.jit(lambda key: prior.distribution(SITE).sample(key, (100_000,)))
    square = np.asarray(draw(jax.random.key(0)), np.float64) ** 2
    assert abs(square.mean() - prior.scale_of(SITE) ** 2) < 5 * square.std() / np.sqrt(100_000)


def test_scale_mixture_in_a_network():
    model = models.mlp((4,), prior=models.ScaleMixture(0.5, 1.0, 0.1))
    trace = traced(model, X)
    assert trace["hidden0.weight"]["value"].shape == (3, 4)
    weight = trace["hidden0.weight"]["fn"]
    assert jax.eval_shape(weight.log_prob, np.zeros((3, 4), np.float32)).shape == ()


def test_flat_prior_gives_the_maximum_likelihood_as_map(conjugate):
    flat = models.linear(models.Flat(), models.Gaussian(scale=conjugate.noise))
    posterior = inference.run(flat, conjugate.x, conjugate.y, method="map", progress=False)
    expected = np.linalg.lstsq(conjugate.design, conjugate.y, rcond=None)[0]
    np.testing.assert_allclose(conjugate.stacked(posterior)[0, 0], expected, atol=1e-3)
    assert models.Flat().scale_of(SITE) == np.inf


def test_flat_prior_under_nuts_has_the_sampling_distribution_of_least_squares(conjugate):
    flat = models.linear(models.Flat(), models.Gaussian(scale=conjugate.noise))
    posterior = inference.run(flat, conjugate.x, conjugate.y, draws=3000, seed=2, progress=False)
    draws = conjugate.stacked(posterior)
    precision = conjugate.design.T @ conjugate.design / conjugate.noise**2
    expected = np.linalg.solve(precision, conjugate.design.T @ conjugate.y / conjugate.noise**2)
    from inference import mixing

    assert (np.abs(draws.mean(axis=(0, 1)) - expected) < 5 * mixing.mcse(draws)).all()
    ratio = draws.reshape(-1, 4).var(axis=0) * 1 / np.diag(np.linalg.inv(precision))
    assert (np.abs(ratio - 1) < 5 * np.sqrt(2 / mixing.ess(draws))).all()


def test_flat_biases_beside_normal_weights():
    model = models.mlp((4,), prior={"weight": 1.0, "bias": models.Flat()})
    posterior = inference.run(model, X, np.sin(X[:, 0]), method="svi", steps=20, draws=5, progress=False)
    assert posterior.draws["hidden0.bias"].shape == (1, 5, 4)
    assert np.isinf(jax.jit(model.prior_scales)(X)["hidden0.bias"]).all()


def test_hierarchical_prior_has_one_scale_per_layer_and_the_weights_themselves():
    model = models.mlp((4,), "tanh", models.Hierarchical(dist.HalfCauchy(1.0)), models.Gaussian(scale=0.5))
    trace = traced(model, X)
    kinds = {name: site["type"] for name, site in trace.items() if "." in name}
    assert kinds == {
        "hidden0.scale": "sample", "hidden0.weight.standard": "sample", "hidden0.weight": "deterministic",
        "hidden0.bias.standard": "sample", "hidden0.bias": "deterministic", "output.scale": "sample",
        "output.weight.standard": "sample", "output.weight": "deterministic", "output.bias.standard": "sample",
        "output.bias": "deterministic",
    }  # fmt: skip
    posterior = inference.run(model, X, X[:, 0], method="svi", steps=20, draws=5, progress=False)
    draws = posterior.draws
    np.testing.assert_allclose(
        draws["hidden0.weight"], draws["hidden0.scale"][..., None, None] * draws["hidden0.weight.standard"], rtol=1e-5
    )
    hidden = np.tanh(X @ draws["hidden0.weight"][0, 2] + draws["hidden0.bias"][0, 2])
    expected = hidden @ draws["output.weight"][0, 2] + draws["output.bias"][0, 2]
    np.testing.assert_allclose(posterior.predict(X).outputs[0, 2], expected, rtol=1e-4, atol=1e-5)


def test_hierarchical_posterior_of_a_linear_model_against_quadrature():
    # One scale s for one layer, known noise: given s the evidence is normal in closed form; integrate over s.
    generator = np.random.default_rng(3)
    x = generator.normal(size=(12, 2)).astype(np.float32)
    y = (x @ [1.5, -1.0] + 0.3 + 0.5 * generator.normal(size=12)).astype(np.float32)
    model = models.linear(models.Hierarchical(dist.HalfNormal(1.0)), models.Gaussian(scale=0.5))
    posterior = inference.run(model, x, y, draws=5000, target_acceptance=0.95, seed=1, progress=False)
    design = np.column_stack([x, np.ones(12)])
    grid = np.linspace(0.01, 6, 2000)
    log_evidence = [
        scipy.stats.multivariate_normal(np.zeros(12), 0.25 * np.eye(12) + s**2 * design @ design.T).logpdf(y)
        for s in grid
    ]
    weight = np.exp(np.array(log_evidence) - max(log_evidence)) * scipy.stats.halfnorm(0, 1).pdf(grid)
    weight /= weight.sum()
    from inference import mixing

    for values, truth in (
        (posterior.draws["output.scale"], grid @ weight),
        (posterior.draws["output.scale"] ** 2, grid**2 @ weight),
    ):
        z = (values.mean() - truth) / mixing.mcse(values[..., None].astype(float))[0]
        assert abs(z) < 5, f"{values.mean()} against {truth}, z = {z:.1f}"


def test_hierarchical_rules_by_kind_share_one_scale():
    shared = models.Hierarchical()
    model = models.mlp((4,), prior={"weight": shared, "bias": shared})
    trace = traced(model, X)
    assert sum(name.endswith(".scale") for name in trace) == 2
    only_weights = models.mlp((4,), prior={"weight": shared, "bias": 1.0})
    trace = traced(only_weights, X)
    assert trace["hidden0.bias"]["type"] == "sample"
    assert "hidden0.bias.standard" not in trace


def test_different_hierarchical_rules_in_one_layer():
    prior = {"weight": models.Hierarchical(fan_in=True), "bias": models.Hierarchical(dist.HalfCauchy(1.0))}
    model = models.mlp((4,), prior=prior)
    trace = traced(model, X)
    assert {name for name in trace if name.endswith("scale")} == {
        "hidden0.weight.scale", "hidden0.bias.scale", "output.weight.scale", "output.bias.scale"
    }  # fmt: skip
    assert inference.run(model, X, X[:, 0], method="map", steps=5, progress=False).shape == (1, 1)


def test_rules_do_not_depend_on_their_order_and_may_be_nested():
    one = models.mlp(prior={"weight": 1.0, "bias": np.float32(2.0)})
    assert one == models.mlp(prior={"bias": 2.0, "weight": 1.0})
    nested = models.mlp((4,), prior={"hidden0": {"weight": 1.0, "bias": 2.0}, "default": 3.0})
    assert nested == models.mlp((4,), prior={"hidden0.weight": 1.0, "hidden0.bias": 2.0, "default": 3.0})
    nested.validate(X)


def test_hierarchical_scale_without_a_second_moment():
    for prior in (dist.InverseGamma(1.0, 1.0), dist.HalfCauchy(2.0)):
        assert 0.5 < models.Hierarchical(prior).scale_of(SITE) < 5


def test_hierarchical_marginal_scale():
    prior = models.Hierarchical(dist.HalfNormal(2.0), fan_in=True)
    assert prior.scale_of(Site("hidden0", "weight", 4)) == pytest.approx(1.0, rel=1e-5)  # E s^2 = 4, divided by 4
    assert prior.scale_of(Site("hidden0", "bias", 4)) == pytest.approx(2.0, rel=1e-5)
    draws = Predictive(models.mlp((50,), prior=prior).outputs, num_samples=4000)(jax.random.key(0), X)
    square = np.asarray(draws["hidden0.bias"]) ** 2
    per_draw = square.mean(axis=1)
    assert abs(per_draw.mean() - 4.0) < 5 * per_draw.std() / np.sqrt(4000)


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        (dist.Normal(0.0, 0.3), 0.3),
        (dist.Laplace(0.0, 0.5), 0.5 * np.sqrt(2)),
        (dist.StudentT(2.0, 0.0, 0.7), 0.7),  # infinite variance: its scale
        (dist.Cauchy(0.0, 0.7), 0.7),
        (dist.HalfNormal(3.0), np.pi / (2 * np.sqrt(2))),  # the log of |z|
        (dist.LogNormal(1.0, 0.4), 0.4),
        (dist.Exponential(2.0), np.pi / np.sqrt(6)),
        (dist.HalfCauchy(5.0), np.pi / 2),
        (dist.Gamma(3.0, 2.0), np.sqrt(scipy.special.polygamma(1, 3.0))),
    ],
)
def test_scale_in_unconstrained_coordinates(distribution, expected):
    # 20,000 draws: a relative error of a few times 1/sqrt(2 * 20000), more for heavy tails of the logarithm
    assert jax.jit(lambda: unconstrained_scale(distribution))() == pytest.approx(expected, rel=0.03)


def test_every_site_of_a_network_knows_its_scale():
    model = models.mlp(
        (4,), prior={"default": models.Normal(2.0, fan_in=True), "output": models.ScaleMixture(0.5, 1.0, 0.1)}
    )
    scales = jax.jit(model.prior_scales)(X)
    assert set(scales) == {"hidden0.weight", "hidden0.bias", "output.weight", "output.bias", "noise"}
    np.testing.assert_allclose(scales["hidden0.weight"], np.full((3, 4), 2 / np.sqrt(3)), rtol=1e-6)
    np.testing.assert_allclose(scales["hidden0.bias"], 2.0)
    np.testing.assert_allclose(scales["output.weight"], np.full((4, 1), np.sqrt(0.505)), rtol=1e-5)
    assert scales["noise"].shape == ()
    hierarchical = jax.jit(models.mlp((4,), prior=models.Hierarchical()).prior_scales)(X)
    np.testing.assert_allclose(hierarchical["hidden0.weight.standard"], 1.0)
    assert hierarchical["hidden0.scale"] == pytest.approx(np.pi / (2 * np.sqrt(2)), rel=0.03)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: models.ScaleMixture(1.0, 1.0, 0.1), ValueError, r"ScaleMixture: pi must be below 1, got 1.0"),
        (lambda: models.ScaleMixture(0.5, -1.0, 0.1), ValueError, r"ScaleMixture: scale1 must be .* got -1.0"),
        (
            lambda: models.mlp(prior=dist.TruncatedNormal(0.0, 1.0, low=-1.0)),
            ValueError,
            r"made of other dist",
        ),
        (lambda: models.mlp(prior=dist.Delta(0.0)).validate(X), ValueError, r"Delta is not"),
        (lambda: models.Normal(1.0, fan_in="no"), TypeError, r"fan_in must be True or False, got 'no'"),
        (lambda: models.Hierarchical(dist.Normal(0, 1)), ValueError, r"Hierarchical: scale must be .*positive"),
        (
            lambda: models.mlp(prior=dist.HalfNormal(1.0)).validate(X),
            ValueError,
            r"real numbers, HalfNormal is not",
        ),
        (
            lambda: models.mlp(prior={"default": 1.0, "bias": dist.Beta(1.0, 1.0)}).validate(X),
            ValueError,
            r"Beta is not",
        ),
    ],
)
def test_bad_priors(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("prior", [dist.Uniform(0.01, 5.0), dist.LogUniform(0.1, 2.0), dist.InverseGamma(3.0, 1.0)])
def test_noise_may_have_any_prior_on_positive_numbers(prior):
    model = models.mlp((3,), likelihood=models.Gaussian(prior=prior))
    posterior = inference.run(model, X, X[:, 0], method="map", steps=10, progress=False)
    assert posterior.draws["noise"].item() > 0


def test_numpy_numbers_become_plain():
    assert models.to_recipe(models.Normal(np.float32(0.5))) == {"record": "Normal", "scale": 0.5, "fan_in": False}
    assert models.mlp(hidden=np.int64(5)) == models.mlp((5,))
