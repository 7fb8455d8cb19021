"""Sweeps: their scores are those of single runs, their errors NumPy's, and their curves the exact tempered ones."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats

import data
import diagnostics
import inference
import inference.sweeps.sweeping
import models

TRAIN, TEST = data.load("diabetes").split(seed=0)
NETWORK = models.linear(models.Normal(1.0, fan_in=True))
QUICK = dict(method="map", steps=5, tempering="likelihood", progress=False)


@pytest.fixture(scope="module")
def scales() -> inference.Sweep:
    return inference.sweep(NETWORK, TRAIN, TEST, prior_scale=[0.5, 1.0], seeds=[3, 5, 8], **QUICK)


def test_scores_are_those_of_single_runs(scales):
    assert list(scales.scores) == ["rmse", "log_score", "crps", "coverage"]
    for (i, scale), (j, seed) in itertools.product(enumerate(scales.values), enumerate(scales.seeds)):
        model = models.linear(models.Normal(scale, fan_in=True))
        alone = diagnostics.scores(inference.run(model, TRAIN, seed=seed, **QUICK).predict(TEST), TEST)
        assert {name: values[i, j] for name, values in scales.scores.items()} == alone  # in the data's own units


def test_the_curve_is_the_exact_tempered_predictive_and_compiles_once(conjugate, counted):
    # The tempered posterior is N(mean, precision^-1), so a prediction is N(f mean, noise^2 + f precision^-1 f'). The
    # Monte Carlo error of a score is that of as many independent draws as a run has: NUTS is no worse on a normal.
    test = data.load("linear", n=30, inputs=3, seed=9).whole()
    temperatures, seeds, draws = [0.1, 1.0, 20.0], 2, 400
    arguments = conjugate.model, (conjugate.x, conjugate.y), (test.x, test.y)
    options = dict(method="nuts", chains=2, draws=draws // 2, warmup=200, progress=False, start="random")
    inference.sweep(*arguments, temperature=[3.0], seeds=1, **options)
    before = counted("compile")
    found = inference.sweep(*arguments, temperature=temperatures, seeds=seeds, **options)
    assert counted("compile") == before
    assert found.reference == 1
    assert found.rhat.max() < 1.1
    assert found.gradients.min() > 0
    features = np.column_stack([np.ones(30), test.x]).astype(np.float64)
    generator = np.random.default_rng(0)
    exact = []
    for i, temperature in enumerate(temperatures):
        mean, precision = conjugate.posterior(temperature)
        covariance = np.linalg.inv(precision)
        spread = np.einsum("nk,kl,nl->n", features, covariance, features)
        predictive = scipy.stats.norm(features @ mean, np.sqrt(spread + conjugate.noise**2))
        exact.append(predictive.logpdf(test.y).mean())
        weights = generator.multivariate_normal(mean, covariance, (200, draws))
        densities = scipy.stats.norm(weights @ features.T, conjugate.noise).pdf(test.y)
        replicated = np.log(densities.mean(axis=1)).mean(axis=1)
        assert abs(replicated.mean() - exact[-1]) < replicated.std()  # its own bias is small
        error = replicated.std() / np.sqrt(seeds)
        assert found.mean("log_score")[i] == pytest.approx(replicated.mean(), abs=5 * error)
    assert np.ptp(exact) > 0.1  # there is a curve to see
    short = {**options, "draws": 6, "warmup": 5}
    unmixed = inference.sweep(*arguments, temperature=[0.5, 1.0], seeds=1, **short)
    assert unmixed.rhat.min() > 1.01
    assert "the chains have not mixed (R-hat above 1.01, or few draws) in 2 of 2 runs" in str(unmixed)


def test_prior_families_by_name_and_by_themselves():
    priors = [models.Normal(1.0, fan_in=True), dist.Laplace(0.0, 0.7), {"default": 1.0, "bias": dist.StudentT(3.0)}]
    options = dict(method="map", steps=5, progress=False, seeds=1)
    found = inference.sweep(NETWORK, TRAIN, TEST, prior=priors, **options)
    expected = ("Normal(1, fan_in)", "Laplace(0, 0.7)", "{bias: StudentT(3, 0, 1), default: Normal(1)}")
    assert found.labels == expected
    assert found.reference == 0
    assert "± " not in str(found)  # one seed has no error
    assert found.difference("rmse", reference=priors[1]).mean[1] == 0
    named = inference.sweep(NETWORK, TRAIN, TEST, prior={"a": priors[1], "b": priors[2]}, **options)
    assert named.labels == ("a", "b")
    assert named.reference is None
    np.testing.assert_array_equal(named.scores["rmse"], found.scores["rmse"][1:])
    with pytest.raises(ValueError, match="the model's own prior is not among the values; give reference one of a, b"):
        named.difference("rmse")


def test_ways_to_give_the_data_agree():
    options = dict(method="map", steps=5, progress=False, seeds=1, prior_scale=[1.0])
    ways = [
        inference.sweep(NETWORK, TRAIN.x, TRAIN.y, test=TEST, **options),
        inference.sweep(NETWORK, TRAIN.x, TRAIN.y, TEST, **options),
        inference.sweep(NETWORK, (TRAIN.x, TRAIN.y), TEST, **options),
        inference.sweep(NETWORK, TRAIN, test=TEST, **options),
    ]
    assert len({way.scores["rmse"].item() for way in ways}) == 1
    standard = inference.sweep(NETWORK, TRAIN, (TEST.x, TEST.y), **options)
    assert ways[0].scores["rmse"] == pytest.approx(standard.scores["rmse"] * TRAIN.scaler.y_scale, rel=1e-5)


def test_a_model_of_the_users_own_with_a_score():
    def model(y=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu, 1.0).expand([5]), obs=y)

    temperatures = np.array([0.1, 10.0])
    found = inference.sweep(
        model, np.ones(5), temperature=temperatures, seeds=2, method="map", steps=2000, tempering="likelihood",
        progress=False, score=lambda posterior: {"mode": posterior.draws["mu"].item()},
    )  # fmt: skip
    np.testing.assert_allclose(found.mean("mode"), 5 / (5 + temperatures), rtol=1e-4)
    assert np.isnan(found.rhat).all()
    assert found.best("mode", highest=True) == 0.1
    with pytest.raises(ValueError, match="give highest=True or highest=False"):
        found.best("mode")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"temperature": 1.0}, ValueError, r"temperature=\[0\.1, 0\.3, 1\.0\]: got none"),
        ({"prior_scale": [1.0, 2.0]}, ValueError, "got lists for temperature and prior_scale; call it once for each"),
        ({"temperature": []}, ValueError, "temperature must have at least one value"),
        ({"temperature": [1.0, 0.0]}, ValueError, "temperature must be a finite number above 0, got 0.0"),
        ({"temperature": [1.0, "hot"]}, TypeError, "temperature must be a number above 0, got str 'hot'"),
        ({"temperature": [1.0, 1.0]}, ValueError, "temperature has 1 twice"),
        ({"temperature": {0.5, 1.0}}, TypeError, r"temperature must be a list or an array of one axis .*, got set {"),
        ({"temperature": np.ones((2, 2))}, TypeError, r"got an array of shape \(2, 2\)"),
        ({"temperature": (t for t in [0.5, 1.0])}, TypeError, "got generator"),
        ({"seeds": np.ones((2, 2), int)}, TypeError, "seeds must be a list or an array of one axis"),
        (
            {"temperature": 1.0, "prior": {"a": models.Normal(2.0), "b": models.Normal(2.0)}},
            ValueError,
            r"prior: 'a' and 'b' are the same, Normal\(scale=2.0, fan_in=False\); leave one out",
        ),
        ({"temperature": 1.0, "prior": [1.0, models.Normal(1.0)]}, ValueError, r"prior has Normal\(1\) twice"),
        ({"temperature": [1.0, 1e-300]}, ValueError, "float32 can hold"),
        ({"seeds": [1, 1]}, ValueError, r"seeds must differ, so that runs are independent, got \[1, 1\]"),
        ({"seeds": 0}, ValueError, "seeds must be at least 1"),
        ({"seeds": []}, TypeError, "seeds must be a number of seeds"),
        ({"seeds": [-1]}, ValueError, "seeds: a seed must be at least 0"),
        ({"seed": 1}, ValueError, "sweep takes seeds"),
        ({"prior": models.Normal(2.0)}, ValueError, "prior must be a list to sweep over; one prior for all runs"),
        ({"temperature": 1.0, "prior_scale": [1.0, -2.0]}, ValueError, "prior_scale must be a finite number above 0"),
        ({"temperature": 1.0, "prior": ["normal"]}, TypeError, "prior must be a models.Normal or another prior"),
        ({"temperature": 1.0, "prior": [1.0, dist.HalfNormal(1.0)]}, ValueError, "must be on all real numbers"),
        ({"temperature": 1.0, "prior": {"weight": 1.0, "bias": 2.0}}, ValueError, "put them in a list"),
        ({"test": None}, ValueError, "sweep needs test data to score on"),
        (
            {"test": (TEST.x[:, :4], TEST.y)},
            ValueError,
            r"test rows must be like the training rows, \(10,\), got \(4,\)",
        ),
        ({"test": (TEST.x, TEST.y[:-1])}, ValueError, "y must have"),
        ({"test": data.load("breast_cancer").split()[1]}, ValueError, "test rows must be like the training rows"),
        ({"method": "nuts", "keep": "none"}, ValueError, 'keep must be "all"'),
        ({"score": lambda posterior: {}}, ValueError, "leave test out"),
        ({"drws": 3}, ValueError, "'drws' is not an option of nuts"),
        ({"tempering": "prior"}, ValueError, "tempering must be one of"),
    ],
)
def test_wrong_input_is_refused_before_anything_compiles(counted, change, error, message):
    arguments = {"test": TEST, "temperature": [0.5, 1.0], "progress": False, "seeds": 2, **change}
    with pytest.raises(error, match=message):
        inference.sweep(NETWORK, TRAIN, **arguments)
    assert counted("compile") == 0


def test_what_does_not_fit_the_model_is_refused():
    laplace = models.linear(dist.Laplace(0.0, 1.0))
    with pytest.raises(ValueError, match=r"models.Normal prior, and this network has Laplace\(0, 1\)"):
        inference.sweep(laplace, TRAIN, TEST, prior_scale=[0.5, 1.0])
    own = lambda x, y=None: None  # noqa: E731
    with pytest.raises(TypeError, match=r"for a model of your own give score"):
        inference.sweep(own, TRAIN, test=TEST, temperature=[0.5, 1.0])
    with pytest.raises(TypeError, match=r"a sweep over prior_scale needs a network of models, got function"):
        inference.sweep(own, TRAIN, test=TEST, prior_scale=[0.5, 1.0])
    labels = data.load("breast_cancer").split()
    with pytest.raises(ValueError, match=r"'breast_cancer, test' has labels, unlike Gaussian"):
        inference.sweep(models.linear(), (labels[0].x, labels[0].y * 1.0), labels[1], temperature=[0.5, 1.0])


def _failing(monkeypatch, fails):
    real = inference.sweeps.sweeping._Asked.posterior

    def posterior(self, case, seed):
        outcome = fails(case.temperature, seed)
        if outcome is not None:
            raise outcome
        return real(self, case, seed)

    monkeypatch.setattr(inference.sweeps.sweeping._Asked, "posterior", posterior)


def test_a_run_that_fails_costs_itself_alone(monkeypatch):
    options = dict(temperature=[0.5, 1.0, 2.0], seeds=2, **QUICK)
    whole = inference.sweep(NETWORK, TRAIN, TEST, **options)
    _failing(monkeypatch, lambda t, seed: FloatingPointError("nan at step 3") if (t, seed) == (2.0, 0) else None)
    found = inference.sweep(NETWORK, TRAIN, TEST, **options)
    expected = whole.scores["rmse"].copy()
    expected[2, 0] = np.nan
    np.testing.assert_array_equal(found.scores["rmse"], expected)
    assert found.failures == {("2", 0): "failed, nan at step 3"}
    assert "temperature 2, seed 0: failed, nan at step 3" in str(found)
    assert not found.partial
    assert found.mean("rmse")[2] == whole.scores["rmse"][2, 1]  # of the seed that there is
    assert np.isnan(found.standard_error("rmse")[2])
    assert not found.difference("rmse").distinguishable[2]
    _failing(monkeypatch, lambda t, seed: FloatingPointError("nan at step 3"))
    with pytest.raises(FloatingPointError, match=r"all 6 runs failed; temperature 0.5 with seed 0 failed, nan"):
        inference.sweep(NETWORK, TRAIN, TEST, **options)


def test_a_value_without_a_start_is_a_failure():
    found = inference.sweep(
        NETWORK, TRAIN, TEST, prior_scale=[1e-25, 1.0], seeds=1,
        method="map", steps=5, progress=False,
    )  # fmt: skip
    assert np.isnan(found.scores["rmse"][0, 0])
    assert np.isfinite(found.scores["rmse"][1, 0])
    assert list(found.failures) == [("1e-25", 0)]


def test_ctrl_c_gives_back_what_is_finished(monkeypatch, tmp_path):
    _failing(monkeypatch, lambda t, seed: KeyboardInterrupt() if (t, seed) == (1.0, 1) else None)
    found = inference.sweep(NETWORK, TRAIN, TEST, temperature=[0.5, 1.0], seeds=2, **QUICK)
    assert found.partial
    assert np.isnan(found.scores["rmse"]).tolist() == [[False, False], [False, True]]  # seed by seed
    assert "stopped after 3 of 4 runs" in str(found)
    found.plot(tmp_path / "partial.png")
    _failing(monkeypatch, lambda t, seed: KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        inference.sweep(NETWORK, TRAIN, TEST, temperature=[0.5, 1.0], seeds=2, **QUICK)


def test_a_directory_goes_on(tmp_path, monkeypatch):
    options = dict(seeds=2, directory=tmp_path / "runs", **QUICK)
    first = inference.sweep(NETWORK, TRAIN, TEST, temperature=[0.5, 1.0], **options)
    folders = sorted(str(path.parent.relative_to(tmp_path / "runs")) for path in tmp_path.rglob("run.json"))
    assert folders == [f"temperature-{t}/seed-{s}" for t in (0.5, 1.0) for s in (0, 1)]
    alone = inference.sweep(NETWORK, TRAIN, TEST, temperature=[0.5, 1.0], seeds=2, **QUICK)
    more = inference.sweep(NETWORK, TRAIN, TEST, temperature=[0.5, 1.0, 2.0], **options)  # one value more
    for name, values in first.scores.items():
        np.testing.assert_array_equal(alone.scores[name], values)
        np.testing.assert_array_equal(more.scores[name][:2], values)
    np.testing.assert_array_equal(more.gradients[:2], first.gradients)
    with pytest.raises(ValueError, match=r"holds another run .*steps: 5 there, 6 here"):
        inference.sweep(NETWORK, TRAIN, TEST, temperature=[0.5], **{**options, "steps": 6})


def test_the_figure_has_a_panel_per_score(scales, tmp_path):
    figure = scales.plot(tmp_path / "new" / "sweep.png")
    assert (tmp_path / "new" / "sweep.png").stat().st_size > 10_000
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "rmse (lower is better)", "log score (higher is better)", "crps (lower is better)", "coverage (best at 0.9)",
    ]  # fmt: skip
    assert all(axes.get_xscale() == "log" for axes in figure.axes)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_score_that_fails_loses_no_other_run():
    def score(posterior):
        if (posterior.temperature, posterior.seed) == bad:
            raise KeyError("mine")
        return {"log_score": posterior.temperature}

    arguments = dict(temperature=jnp.array([0.5, 1.0]), seeds=jnp.arange(2), score=score, **QUICK)
    bad = (1.0, 1)
    found = inference.sweep(NETWORK, TRAIN, **arguments)
    assert found.values == (0.5, 1.0)
    np.testing.assert_array_equal(found.scores["log_score"], [[0.5, 0.5], [1.0, np.nan]])
    assert found.failures == {("1", 1): "its score failed, KeyError: 'mine'"}
    bad = (0.5, 0)
    with pytest.raises(KeyError, match="mine"):
        inference.sweep(NETWORK, TRAIN, **arguments)


def test_priors_that_differ_in_later_digits_have_labels_of_their_own():
    priors = [models.Normal(1.0000001), models.Normal(1.0)]
    found = inference.sweep(NETWORK, TRAIN, TEST, prior=priors, seeds=1, method="map", steps=3, progress=False)
    assert found.labels == ("Normal(scale=1.0000001, fan_in=False)", "Normal(scale=1.0, fan_in=False)")


def test_laplace_keeps_its_hyperparameters_over_a_sweep():
    """At T = 1 alone the evidence could choose them, and temperature 1 would seem the best by that."""
    network = models.mlp((5,), "tanh")
    options = dict(method="laplace", steps=200, draws=50, seeds=1, progress=False)
    found = inference.sweep(network, TRAIN, TEST, temperature=[0.99, 1.0, 1.01], **options)
    scores = found.scores["log_score"][:, 0]
    assert abs(scores[1] - (scores[0] + scores[2]) / 2) < 0.02, scores


def test_errors_and_paired_differences_are_numpys(scales):
    values = scales.scores["rmse"]
    assert values.shape == (2, 3)
    np.testing.assert_allclose(scales.mean("rmse"), values.mean(axis=1))
    np.testing.assert_allclose(scales.standard_error("rmse"), values.std(axis=1, ddof=1) / np.sqrt(3))
    assert scales.reference == 1  # the network's own prior
    found = scales.difference("rmse")
    gap = values[0] - values[1]
    np.testing.assert_allclose(found.mean, [gap.mean(), 0])
    np.testing.assert_allclose(found.standard_error, [gap.std(ddof=1) / np.sqrt(3), 0])
    p_value = scipy.stats.ttest_rel(values[0], values[1]).pvalue  # one difference: nothing to divide
    assert found.distinguishable.tolist() == [p_value < 0.05, False]
    other = scales.difference("rmse", reference=0.5)
    np.testing.assert_allclose(other.mean, [0, -gap.mean()])
    with pytest.raises(ValueError, match=r"reference must be one of 0\.5, 1, got 7"):
        scales.difference("rmse", reference=7)


def test_the_table_has_means_differences_and_a_conclusion(scales):
    text = str(scales)
    assert "mean ± standard error over 3 seeds" in text
    assert "paired differences to prior_scale 1" in text
    best = scales.labels[int(scales.mean("log_score").argmax())]
    assert f"log_score: prior_scale {best} is best" in text
    assert scales.best("rmse") == scales.values[int(scales.mean("rmse").argmin())]
    assert scales.best("coverage") == scales.values[int(np.abs(scales.mean("coverage") - 0.9).argmin())]
    with pytest.raises(ValueError, match="did you mean 'log_score'"):
        scales.mean("logscore")
