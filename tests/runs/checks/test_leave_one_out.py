"""Leave-one-out cross-validation against exact posteriors without each row."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from arviz_stats.base import array_stats
from numpyro import handlers
from scipy.special import logsumexp

import data
import inference
import models
from diagnostics.checks.leave_one_out import LeaveOneOut, loo
from inference.results.scores import scores
from tests.helpers.arviz_loo import arviz_loo


def _exact(design, y, noise, prior_precision, temperature=1.0):
    """Mean and standard deviation of each target given all other rows, and given all rows; linear with known noise.

    The likelihood is divided by the temperature; `prior_precision` is that of the tempered prior, whose mean is 0.
    """
    found = []
    for left_out in (True, False):
        for i, row in enumerate(design):
            others = np.arange(len(y)) != i if left_out else slice(None)
            weight = 1 / (noise**2 * temperature)
            precision = weight * design[others].T @ design[others] + prior_precision * np.eye(design.shape[1])
            mean = np.linalg.solve(precision, weight * design[others].T @ y[others])
            found.append((row @ mean, np.sqrt(noise**2 + row @ np.linalg.solve(precision, row))))
    return np.array(found).reshape(2, len(y), 2)


def _errors(posterior, x, y, log_ratios, temperature=1.0):
    """Monte Carlo errors of each row's log density and PIT, by the delta method for a ratio of weighted sums."""
    prediction = posterior.predict(x)
    log_likelihood = prediction.log_prob_by_draw(y).reshape(-1, len(y))
    log_weights = log_ratios - log_likelihood / temperature
    weights = np.exp(log_weights - logsumexp(log_weights, axis=0))

    def error(values):
        mean = (weights * values).sum(axis=0)
        return mean, np.sqrt((weights**2 * (values - mean) ** 2).sum(axis=0))

    density, of_density = error(np.exp(log_likelihood))
    _, of_pit = error(prediction.cdf_by_draw(y).reshape(-1, len(y)))
    return [of_density / density, of_pit]


def _agree(found: LeaveOneOut, exact: np.ndarray, y: np.ndarray, errors: list[np.ndarray]):
    """Every row within 5 Monte Carlo errors; some 500 comparisons in this file fail by chance once in 3,000 seeds."""
    left_out, fitted = (scipy.stats.norm(*part.T) for part in exact)
    of_log, of_pit = errors
    assert (np.abs(found.pointwise - left_out.logpdf(y)) < 5 * of_log).all()
    assert (np.abs(found.pit - left_out.cdf(y)) < 5 * of_pit).all()
    assert found.elpd == pytest.approx(left_out.logpdf(y).sum(), abs=5 * of_log.sum())
    assert found.p_loo == pytest.approx((fitted.logpdf(y) - left_out.logpdf(y)).sum(), abs=5 * of_log.sum())
    assert found.error == pytest.approx(np.sqrt(len(y)) * left_out.logpdf(y).std(), rel=0.05)


@pytest.mark.parametrize(
    ("temperature", "tempering"), [(1.0, "posterior"), (0.3, "posterior"), (0.3, "likelihood"), (4.0, "likelihood")]
)
def test_exact_draws_at_every_temperature(conjugate, temperature, tempering):
    posterior = conjugate.exact(2, 2000, 0, temperature, tempering)
    found = loo(posterior, conjugate.x, conjugate.y)
    y = conjugate.y.astype(np.float64)
    prior = conjugate.prior**-2 / (temperature if tempering == "posterior" else 1.0)
    errors = _errors(posterior, conjugate.x, conjugate.y, 0.0, temperature)
    _agree(found, _exact(conjugate.design, y, conjugate.noise, prior, temperature), y, errors)
    assert found.correction == "not needed"
    assert found.reliable
    assert found.threshold == 0.7
    assert str(found).endswith(f"(worst {found.pareto_k.max():.2f}).")
    untempered = loo(replace(posterior, temperature=1.0), conjugate.x, conjugate.y)
    difference = np.abs(untempered.pointwise - found.pointwise).max()
    assert difference > 5 * errors[0].max() or temperature == 1


def _off_guide(conjugate, temperature=1.0, tempering="posterior"):
    """Draws of a normal that is shifted by half a standard deviation and 1.3 times as wide as the posterior."""
    mean, precision = conjugate.posterior(temperature, tempering)
    root = np.linalg.inv(np.linalg.cholesky(precision))
    normal = np.random.default_rng(3).normal(size=(1, 20_000, 4))
    unknowns = (mean + (0.5 + 1.3 * normal) @ root).astype(np.float32).astype(np.float64)
    away = unknowns - mean
    log_density = -0.5 * np.einsum("cdi,ij,cdj->cd", away, precision, away)
    densities = {"lp": log_density + 7, "guide_log_density": -0.5 * (normal**2).sum(axis=-1)}
    return conjugate.of(unknowns, temperature, tempering, method=inference.SVI(), statistics=densities)


@pytest.mark.parametrize(("temperature", "tempering"), [(1.0, "posterior"), (0.5, "likelihood")])
def test_an_off_guide_is_corrected(conjugate, temperature, tempering):
    guide = _off_guide(conjugate, temperature, tempering)
    y = conjugate.y.astype(np.float64)
    exact = _exact(conjugate.design, y, conjugate.noise, conjugate.prior**-2, temperature)
    ratios = guide.statistics["lp"] - guide.statistics["guide_log_density"]
    errors = _errors(guide, conjugate.x, conjugate.y, ratios.T, temperature)
    found = loo(guide, conjugate.x, conjugate.y)
    _agree(found, exact, y, errors)
    assert found.correction == "made"
    assert found.reliable
    wrong = loo(replace(guide, statistics={"lp": guide.statistics["lp"]}), conjugate.x, conjugate.y)
    assert wrong.correction == "not possible"
    assert wrong.reliable is None
    assert "can't be corrected" in str(wrong)
    truth = scipy.stats.norm(*exact[0].T).logpdf(y)
    assert (np.abs(wrong.pointwise - truth) > 5 * errors[0]).mean() > 0.5
    assert abs(wrong.elpd - truth.sum()) > 1 > abs(found.elpd - truth.sum())


def test_weights_and_shapes_are_those_of_arviz(conjugate):
    """Independent draws of the posterior by a guide that says so: all is as in ArviZ, whose efficiency is then 1.

    Of 900 draws all versions of ArviZ take 90 into the tail; otherwise they may differ by one.
    """
    posterior = conjugate.exact(1, 900)
    density = {"lp": np.zeros((1, 900)), "guide_log_density": np.zeros((1, 900))}
    found = loo(replace(posterior, method=inference.SVI(), statistics=density), conjugate.x, conjugate.y)
    log_likelihood = posterior.predict(conjugate.x).log_prob_by_draw(conjugate.y).reshape(-1, 40)
    other = arviz_loo(log_likelihood)
    np.testing.assert_allclose(found.pointwise, other.pointwise, rtol=1e-10)
    np.testing.assert_allclose(found.pareto_k, other.pareto_k, rtol=1e-10)
    assert (found.elpd, found.error) == pytest.approx((other.elpd, other.error), rel=1e-9)
    assert found.p_loo == pytest.approx(other.p_loo)
    assert found.threshold == other.threshold
    log_weights, _ = array_stats.psislw(log_likelihood, axis=0)
    cdf = posterior.predict(conjugate.x).cdf_by_draw(conjugate.y)[0]
    np.testing.assert_allclose(found.pit, (np.exp(log_weights) * cdf.T).sum(axis=1), rtol=1e-10)


def test_chains_have_the_tails_of_their_effective_draws(conjugate):
    """Each draw ten times in a row: the tail that is fitted must be that of a tenth of the draws."""
    sticky = np.repeat(conjugate.stacked(conjugate.exact(4, 100)), 10, axis=1)
    posterior = conjugate.of(sticky)
    found = loo(posterior, conjugate.x, conjugate.y)
    log_likelihood = posterior.predict(conjugate.x).log_prob_by_draw(conjugate.y).reshape(-1, 40)
    likelihood = np.exp(log_likelihood).reshape(4, 1000, 40)
    for i in range(0, 40, 13):
        share = float(array_stats.ess(likelihood[..., i], method="mean")) / 4000
        assert 0.05 < share < 0.2
        _, k = array_stats.psislw(log_likelihood[:, i], r_eff=share)
        assert found.pareto_k[i] == pytest.approx(float(k))


@pytest.mark.parametrize(
    ("options", "correction"),
    [
        ({"method": "nuts", "chains": 2, "draws": 1000, "warmup": 300}, "not needed"),
        ({"method": "svi", "guide": "fullrank", "steps": 3000, "draws": 2000}, "made"),
        ({"method": "laplace", "draws": 2000}, "made"),
    ],
    ids=lambda value: value["method"] if isinstance(value, dict) else "",
)
def test_real_runs(conjugate, options, correction):
    posterior = conjugate.run(seed=1, **options)
    found = loo(posterior, conjugate.x, conjugate.y)
    y = conjugate.y.astype(np.float64)
    ratios = np.zeros((1, 1))
    if correction == "made":
        ratios = (posterior.statistics["lp"] - posterior.statistics["guide_log_density"]).reshape(-1, 1)
    errors = _errors(posterior, conjugate.x, conjugate.y, ratios)
    errors = [np.sqrt(2) * error for error in errors]  # NUTS: at least half of the draws are effective
    _agree(found, _exact(conjugate.design, y, conjugate.noise, conjugate.prior**-2), y, errors)
    assert found.correction == correction
    assert found.reliable


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_a_linearised_network_is_its_own_posterior(temperature):
    """Its posterior is that of a linear model of the Jacobian at the mode, in closed form without each row."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(14, 1)).astype(np.float32)
    y = (np.sin(2 * x[:, 0]) + 0.3 * generator.normal(size=14)).astype(np.float32)
    model = models.mlp((3,), "tanh", likelihood=models.Gaussian(scale=0.4))
    posterior = inference.run(model, x, y, method="laplace", draws=8000, temperature=temperature, progress=False)
    centre = {name: jnp.asarray(posterior.guide[f"{name}.mean"]) for name in posterior.draws}

    def outputs(weights):
        return handlers.substitute(model.outputs, data=weights)(x)[:, 0]

    slopes = jax.jacobian(outputs)(centre)
    jacobian = np.concatenate([np.asarray(slopes[name]).reshape(14, -1) for name in centre], axis=1).astype(np.float64)
    mode = np.concatenate([centre[name].ravel() for name in centre]).astype(np.float64)
    offset = np.asarray(outputs(centre), np.float64) - jacobian @ mode
    exact = _exact(jacobian, y - offset, 0.4, 1 / temperature, temperature)
    truth = scipy.stats.norm(exact[0, :, 0] + offset, exact[0, :, 1])
    found = loo(posterior, x, y)
    good = found.pareto_k < 0.5  # the weights have a variance, and so the estimate a standard error
    assert good.sum() >= 8
    of_log, of_pit = _errors(
        posterior, x, y, 0.0, temperature
    )  # the guide is the posterior, but for the end of the descent
    assert (np.abs(found.pointwise - truth.logpdf(y)) < 5 * of_log)[good].all()
    assert (np.abs(found.pit - truth.cdf(y)) < 5 * of_pit)[good].all()
    plain = loo(replace(posterior, method=replace(posterior.method, linearised=False)), x, y)
    assert not (np.abs(plain.pointwise - truth.logpdf(y)) < 5 * of_log)[good].all()  # another model's


def test_labels_on_a_grid():
    """A posterior on a grid of two weights has exact leave-one-out probabilities; draws are points of the grid."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(25, 1))
    y = (x[:, 0] + generator.logistic(size=25) > 0).astype(int)
    axis = np.linspace(-5, 5, 81)
    bias, slope = (values.ravel() for values in np.meshgrid(axis, axis))
    logits = bias[:, None] + slope[:, None] * x[:, 0]
    log_likelihood = -np.logaddexp(0, np.where(y == 1, -logits, logits))
    log_prior = -0.5 * (bias**2 + slope**2)
    joint = log_prior + log_likelihood.sum(axis=1)
    without = joint[:, None] - log_likelihood
    exact = logsumexp(without + log_likelihood, axis=0) - logsumexp(without, axis=0)
    weights = np.exp(joint - logsumexp(joint))
    chosen = generator.choice(len(bias), size=(2, 4000), p=weights)
    posterior = inference.Posterior(
        model=models.logistic(),
        method=inference.NUTS(),
        seed=0,
        temperature=1.0,
        tempering="posterior",
        draws={
            "output.bias": bias[chosen][..., None].astype(np.float32),
            "output.weight": slope[chosen][..., None, None].astype(np.float32),
        },
        statistics={},
        curves={},
        observed={"y": y},
        probes=x[:1].astype(np.float32),
        deterministic=(),
        cost=inference.host.machine.Cost(1.0, 1.0, 1, 1),
    )
    found = loo(posterior, x, y)
    inverse = np.exp(-log_likelihood[chosen.ravel()])  # without smoothing, the result is minus the log of its mean
    errors = inverse.std(axis=0) / inverse.mean(axis=0) / np.sqrt(len(inverse))
    assert (np.abs(found.pointwise - exact) < 5 * errors).all()
    assert found.pit is None
    full = logsumexp(joint[:, None] + log_likelihood, axis=0) - logsumexp(joint)
    assert found.p_loo == pytest.approx((full - exact).sum(), abs=0.1)


def test_rows_in_blocks_are_the_same(conjugate, monkeypatch):
    posterior = conjugate.exact(2, 100)
    whole = loo(posterior, conjugate.x, conjugate.y)
    monkeypatch.setattr("diagnostics.checks.leave_one_out._BLOCK", 200 * 7)
    seen = []
    predict = inference.Posterior.predict
    monkeypatch.setattr(
        inference.Posterior, "predict", lambda self, x, **rest: (seen.append(len(x)), predict(self, x, **rest))[1]
    )
    pieces = loo(posterior, conjugate.x, conjugate.y)
    assert sum(seen) == 40
    assert max(seen) == 7
    for name in ("pointwise", "pareto_k", "pit"):
        np.testing.assert_allclose(getattr(pieces, name), getattr(whole, name), rtol=1e-5)


def test_a_split_is_in_the_datas_own_units(conjugate):
    train, _ = data.load("diabetes").split(seed=0)
    generator = np.random.default_rng(0)
    draws = {
        "output.bias": 0.05 * generator.normal(size=(1, 200, 1)),
        "output.weight": 0.05 * generator.normal(size=(1, 200, 10, 1)),
    }
    posterior = conjugate.of(np.zeros((1, 200, 4)), draws=draws, observed={"y": train.y})
    own, standard = loo(posterior, train), loo(posterior, train.x, train.y)
    shift = np.log(train.scaler.y_scale)
    np.testing.assert_allclose(own.pointwise, standard.pointwise - shift)
    assert own.elpd == pytest.approx(standard.elpd - len(train) * shift)
    assert own.p_loo == pytest.approx(standard.p_loo)
    log_score = scores(posterior.predict(train), train)["log_score"]
    assert own.p_loo == pytest.approx(len(train) * log_score - own.elpd)  # draws without weights are the full posterior
    np.testing.assert_array_equal(own.pit, standard.pit)


def test_several_outputs_are_left_out_together(conjugate):
    generator = np.random.default_rng(0)
    draws = {
        "output.bias": 0.3 * generator.normal(size=(1, 300, 2)),
        "output.weight": 0.3 * generator.normal(size=(1, 300, 3, 2)),
    }
    y = generator.normal(size=(40, 2)).astype(np.float32)
    model = models.linear(likelihood=models.Gaussian(scale=0.8, outputs=2))
    posterior = conjugate.of(np.zeros((1, 300, 4)), model=model, draws=draws, observed={"y": y})
    posterior = replace(
        posterior,
        method=inference.SVI(),
        statistics={name: np.zeros((1, 300)) for name in ("lp", "guide_log_density")},
    )
    found = loo(posterior, conjugate.x, y)
    parts = scipy.stats.norm(posterior.predict(conjugate.x).outputs[0].astype(np.float64), 0.8)
    log_weights, _ = array_stats.psislw(parts.logpdf(y).sum(axis=2), axis=0)
    np.testing.assert_allclose(found.pit, np.einsum("ns,snd->nd", np.exp(log_weights), parts.cdf(y)), rtol=1e-6)
    assert found.pointwise.shape == (40,)


def test_an_outlier_is_named_and_frozen_chains_certify_nothing(conjugate):
    y = conjugate.y.copy()
    y[5] += 40
    far = replace(conjugate.exact(1, 2000), observed={"y": y})
    found = loo(far, conjugate.x, y)
    assert found.unreliable == 1
    assert found.pareto_k.argmax() == 5
    assert found.reliable is False
    assert "It failed for 1 of them, with a k-hat above 0.70" in str(found)
    frozen = conjugate.of(np.zeros((4, 500, 4)))
    assert loo(frozen, conjugate.x, conjugate.y).unreliable == 40


def test_ensembles_and_dropout_are_not_certified(conjugate):
    members = conjugate.exact(5, 1)
    found = loo(replace(members, method=inference.Ensemble()), conjugate.x, conjugate.y)
    assert found.correction == "not possible"
    assert found.reliable is None
    assert "k-hat does not certify" in str(found)
    dropout = replace(
        conjugate.exact(1, 500), method=inference.SVI(guide="dropout"), statistics={"lp": np.zeros((1, 500))}
    )
    assert loo(dropout, conjugate.x, conjugate.y).reliable is None
    unadjusted = replace(conjugate.exact(1, 500), method=inference.MCLMC())
    assert "no Metropolis step" in str(loo(unadjusted, conjugate.x, conjugate.y))


def test_rows_in_another_order_are_refused(conjugate):
    posterior = conjugate.run(method="svi", steps=20, draws=30)
    with pytest.raises(ValueError, match="those of x are in another one"):
        loo(posterior, conjugate.x[::-1], conjugate.y)


def test_what_does_not_fit(conjugate):
    posterior, x, y = conjugate.exact(1, 50), conjugate.x, conjugate.y
    with pytest.raises(ValueError, match="loo needs several draws, and this posterior has one"):
        loo(conjugate.exact(1, 1), x, y)
    with pytest.raises(ValueError, match="loo needs the data that the posterior was fitted to"):
        loo(posterior, x, y + 1)
    with pytest.raises(ValueError, match="loo needs the data that the posterior was fitted to"):
        loo(posterior, x[:30], y[:30])
    with pytest.raises(TypeError, match="loo needs inputs and targets"):
        loo(posterior, x)
    with pytest.raises(TypeError, match="loo needs the posterior of a network"):
        loo(replace(posterior, model=lambda x: None), x, y)
    broken = {"lp": np.full((1, 50), np.nan), "guide_log_density": np.zeros((1, 50))}
    with pytest.raises(ValueError, match="finite log densities"):
        loo(replace(posterior, method=inference.SVI(), statistics=broken), x, y)
    assert loo(posterior, (x, y)).elpd == loo(posterior, x, y).elpd
