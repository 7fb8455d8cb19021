"""Every likelihood: the density that is sampled is the one that predictions report, in float64 and by SciPy."""

from __future__ import annotations

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro import handlers
from numpyro.infer.util import log_likelihood

import diagnostics
import inference
import models
from inference.results.prediction import Prediction
from inference.results.scores import crps_of_mixture, crps_of_student_mixture

X = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
CASES = {
    "gaussian": (models.Gaussian(), False),
    "gaussian, known": (models.Gaussian(scale=0.3), False),
    "gaussian, two": (models.Gaussian(outputs=2), False),
    "heteroscedastic": (models.HeteroscedasticGaussian(), False),
    "heteroscedastic, two": (models.HeteroscedasticGaussian(outputs=2), False),
    "student": (models.StudentTNoise(df=3.0), False),
    "student, two": (models.StudentTNoise(df=5.0, outputs=2, scale=0.4), False),
    "categorical": (models.Categorical(3), True),
    "bernoulli": (models.Bernoulli(), True),
    "noisy logits": (models.NoisyLogits(3, nodes=4), True),
}


def _targets(likelihood) -> np.ndarray:
    generator = np.random.default_rng(1)
    if likelihood.classes is not None:
        return generator.integers(0, likelihood.classes, 9)
    return generator.normal(size=(9,) if likelihood.outputs == 1 else (9, likelihood.outputs))


@pytest.fixture(scope="module", params=CASES)
def fitted(request):
    """A posterior of a small network under each likelihood, whether it is one of labels, and its targets."""
    likelihood, labels = CASES[request.param]
    y = _targets(likelihood)
    model = models.mlp((4,), "tanh", likelihood=likelihood)
    return inference.run(model, X, y, method="svi", steps=30, draws=6, progress=False), labels, y


def test_prediction_has_the_density_of_the_model(fitted):
    posterior, _, y = fitted
    flat = {name: values[0] for name, values in posterior.draws.items()}
    per_draw = log_likelihood(posterior.model, flat, X, posterior.model.likelihood.check(y, 9))["y"]
    per_draw = np.asarray(per_draw, np.float64).reshape(6, 9, -1).sum(axis=-1)
    expected = np.log(np.exp(per_draw).mean(axis=0))
    np.testing.assert_allclose(posterior.predict(X).log_prob(y), expected, rtol=1e-4, atol=1e-5)


REPORTED = (models.HeteroscedasticGaussian, models.StudentTNoise, models.NoisyLogits)
"""Likelihoods whose reports no other test writes."""


def test_predictions_scores_and_the_report(fitted, tmp_path):
    posterior, labels, y = fitted
    prediction = posterior.predict(X)
    assert prediction.outputs.shape == (1, 6, 9, posterior.model.likelihood.heads)
    assert prediction.sample(0).shape == (1, 6, *y.shape)
    assert prediction.log_prob(y).shape == (9,)
    scores = diagnostics.scores(prediction, y)
    assert all(np.isfinite(value) for value in scores.values())
    assert ("accuracy" in scores) == labels
    np.testing.assert_allclose(prediction.total, prediction.epistemic + prediction.aleatoric, rtol=1e-6)
    if type(posterior.model.likelihood) in REPORTED and posterior.model.likelihood.outputs == 1:
        diagnostics.report(posterior, (X, y), path=tmp_path / "r.html")
    posterior.save(tmp_path / "p.npz")
    assert inference.load(tmp_path / "p.npz").model == posterior.model


def test_heteroscedastic_outputs_are_mean_and_scale():
    model = models.mlp((4,), likelihood=models.HeteroscedasticGaussian())
    with handlers.seed(rng_seed=0), handlers.trace() as trace:
        model(X)
    heads = trace["output"]["value"]
    np.testing.assert_allclose(trace["y"]["fn"].loc, heads[:, 0])
    np.testing.assert_allclose(trace["y"]["fn"].scale, np.exp(10 * np.tanh(heads[:, 1] / 20)), rtol=1e-5)
    small = jax.numpy.array([[0.0, -1.0], [0.0, 2.0]])
    np.testing.assert_allclose(models.HeteroscedasticGaussian().link(small)[:, 1], np.exp([-0.5, 1.0]), rtol=5e-3)


def test_heteroscedastic_is_safe_at_extreme_log_variances():
    likelihood = models.HeteroscedasticGaussian()
    heads = jax.numpy.array([[0.0, -1e6], [0.0, 1e6], [1e3, -1e6]])
    outputs = likelihood.link(heads)
    assert np.isfinite(np.asarray(outputs)).all()
    assert (np.asarray(outputs[:, 1]) > 0).all()
    with handlers.trace() as trace:
        likelihood.observe(outputs, np.zeros(3, np.float32))
    assert np.isfinite(trace["y"]["fn"].log_prob(np.zeros(3, np.float32))).all()


def test_an_overconfident_head_has_a_gradient_that_leads_back():
    def log_density(log_variance):
        outputs = models.HeteroscedasticGaussian().link(jax.numpy.stack([jax.numpy.zeros(()), log_variance])[None])
        return dist.Normal(outputs[:, 0], outputs[:, 1]).log_prob(1.0)[0]

    assert jax.grad(log_density)(jax.numpy.float32(-25.0)) > 1.0


def test_heteroscedastic_learns_where_the_noise_is():
    import data

    train, _ = data.load("heteroscedastic_sine", n=400).split(seed=0)
    model = models.mlp((20,), "tanh", likelihood=models.HeteroscedasticGaussian())
    posterior = inference.run(model, train, method="map", steps=3000, progress=False)
    prediction = train.restore(posterior.predict(train))
    x = train.x[:, 0] * train.scaler.x_scale[0] + train.scaler.x_location[0]
    truth = 0.05 + 0.5 * x
    log_ratio = np.log(np.sqrt(prediction.aleatoric) / truth)
    assert np.abs(log_ratio[(x > 0.1) & (x < 0.9)]).mean() < 0.25


def test_heteroscedastic_functions_have_the_log_scale_as_its_own_quantity():
    outputs = np.abs(np.random.default_rng(0).normal(size=(2, 3, 5, 2)))
    functions = models.HeteroscedasticGaussian().functions(outputs)
    np.testing.assert_allclose(functions[..., 1], np.log(outputs[..., 1]))


def test_heteroscedastic_restored_scale():
    outputs = np.array([0.5, 0.2]).reshape(1, 1, 1, 2).astype(np.float32)
    prediction = Prediction.of(models.HeteroscedasticGaussian(), outputs, {})
    restored = prediction.rescaled(np.asarray(100.0), np.asarray(10.0))
    np.testing.assert_allclose(restored.outputs.ravel(), [105.0, 2.0], rtol=1e-6)
    np.testing.assert_allclose(restored.log_prob([104.0]), scipy.stats.norm(105, 2).logpdf(104), rtol=1e-5)


@pytest.mark.parametrize("df", [0.8, 2.0])
def test_student_noise_has_no_variance_up_to_two_degrees(df):
    prediction = Prediction.of(models.StudentTNoise(df=df, scale=0.5), np.zeros((1, 2, 3, 1), np.float32), {})
    for part in ("aleatoric", "total", "std"):
        with pytest.raises(ValueError, match=r"has no variance.*use interval"):
            getattr(prediction, part)
    assert (prediction.epistemic == 0).all()
    assert (prediction.mean == 0).all()
    np.testing.assert_allclose(prediction.interval(0.5)[1], scipy.stats.t(df, 0, 0.5).ppf(0.75), rtol=1e-6)


def test_student_noise_above_two_degrees():
    prediction = Prediction.of(models.StudentTNoise(df=5.0, scale=0.5), np.zeros((1, 2, 3, 1), np.float32), {})
    np.testing.assert_allclose(prediction.aleatoric, 0.25 * 5 / 3)


def test_crps_of_one_student_is_the_integral_of_the_squared_cdf_error():
    for df, y in ((1.5, 0.3), (2.5, -1.0), (4.0, 15.0), (4.0, 100.0)):
        grid = np.concatenate(
            [-np.geomspace(1e6, 200, 40_000), np.linspace(-200, 200, 400_001), np.geomspace(200, 1e6, 40_000)]
        )
        cdf = scipy.stats.t(df, 0.2, 0.7).cdf(grid)
        expected = np.trapezoid((cdf - (grid >= y)) ** 2, grid)
        got = crps_of_student_mixture(df, np.full((1, 1), 0.2), np.full((1, 1), 0.7), np.array([y]))
        assert got[0] == pytest.approx(expected, rel=2e-3)


def test_crps_of_a_student_mixture_that_is_as_good_as_normal():
    generator = np.random.default_rng(0)
    location = np.concatenate([generator.normal(size=(40, 4)), 10 + generator.normal(size=(40, 4))])
    scale = generator.uniform(0.01, 1.0, (80, 4))
    y = np.array([0.0, 5.0, 33.0, 1000.0])
    expected = crps_of_mixture(location, scale, y)
    np.testing.assert_allclose(crps_of_student_mixture(1e7, location, scale, y), expected, rtol=5e-4)


def test_crps_of_a_cauchy_is_not_made_up():
    assert np.isnan(crps_of_student_mixture(1.0, np.zeros((2, 1)), np.ones((2, 1)), np.zeros(1))).all()


@pytest.mark.parametrize("df", [None, 0.7, 3.0])
def test_conditionals_are_those_of_scipy(df):
    from models.conditionals import NormalConditional, StudentConditional

    location, scale, y = np.random.default_rng(0).normal(size=(3, 50))
    scale = np.exp(scale)
    ours = NormalConditional(location, scale) if df is None else StudentConditional(df, location, scale)
    theirs = scipy.stats.norm(location, scale) if df is None else scipy.stats.t(df, location, scale)
    np.testing.assert_allclose(ours.logpdf(y), theirs.logpdf(y))
    np.testing.assert_allclose(ours.cdf(y), theirs.cdf(y))
    np.testing.assert_allclose(ours.ppf(0.03), theirs.ppf(0.03))
    if df != 0.7:
        np.testing.assert_allclose(ours.var(), theirs.var())
    draws = np.concatenate([ours.cdf(ours.rvs(np.random.default_rng(seed))) for seed in range(400)])
    assert scipy.stats.kstest(draws, "uniform").pvalue > 1e-4


@pytest.mark.parametrize(("classes", "sigma"), [(2, 50.0), (3, 5.0), (10, 5.0)])
def test_noise_alone_favours_no_class(classes, sigma):
    outputs = np.concatenate([np.zeros(classes), np.full(classes, sigma)]).reshape(1, 1, 1, -1)
    np.testing.assert_allclose(models.NoisyLogits(classes).probabilities(outputs), 1 / classes, rtol=1e-9)


def test_noisy_logits_without_noise_are_plain_logits():
    logits = np.random.default_rng(0).normal(size=(1, 2, 5, 3))
    outputs = np.concatenate([logits, np.full_like(logits, 1e-8)], axis=-1)
    noisy = models.NoisyLogits(3).log_probabilities(outputs)
    np.testing.assert_allclose(noisy, models.Categorical(3).log_probabilities(logits), atol=1e-7)


def test_noisy_logits_are_the_expected_softmax():
    likelihood = models.NoisyLogits(3, nodes=256)
    outputs = np.array([1.0, 0.0, -1.0, 2.0, 0.5, 1.0]).reshape(1, 1, 1, 6)
    noise = np.random.default_rng(0).normal(size=(400_000, 3))
    logits = outputs.ravel()[:3] + outputs.ravel()[3:] * noise
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    error = 5 * softmax.std(axis=0) / np.sqrt(len(noise)) + 0.005  # and what 1,536 points leave
    assert (np.abs(likelihood.probabilities(outputs).ravel() - softmax.mean(axis=0)) < error).all()


def test_noise_on_logits_is_aleatoric_not_epistemic():
    outputs = np.array([1.0, 0.0, -1.0, 3.0, 3.0, 3.0], np.float32).reshape(1, 1, 1, 6).repeat(4, axis=1)
    prediction = Prediction.of(models.NoisyLogits(3), outputs, {})
    np.testing.assert_allclose(prediction.epistemic, 0, atol=1e-12)
    np.testing.assert_allclose(prediction.total, scipy.stats.entropy(prediction.probs, axis=1))


def test_noisy_logits_density_is_deterministic():
    model = models.mlp((3,), likelihood=models.NoisyLogits(3))
    draws = {name: site["value"][None] for name, site in handlers.trace(handlers.seed(model, 0)).get_trace(X).items()
             if site["type"] == "sample" and name != "y"}  # fmt: skip
    y = _targets(models.NoisyLogits(3)).astype(np.int32)
    first = log_likelihood(model, draws, X, y)["y"]
    np.testing.assert_array_equal(first, log_likelihood(model, draws, X, y)["y"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.NoisyLogits(1), r"NoisyLogits: classes must be at least 2"),
        (lambda: models.NoisyLogits(3, nodes=10), r"NoisyLogits: nodes must be a power of 2, got 10"),
        (lambda: models.StudentTNoise(df=0.0), r"StudentTNoise: df must be a finite number above 0"),
        (lambda: models.HeteroscedasticGaussian(outputs=0), r"HeteroscedasticGaussian: outputs must be at least 1"),
    ],
)
def test_bad_likelihoods(make, message):
    with pytest.raises(ValueError, match=message):
        make()
