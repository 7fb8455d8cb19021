"""Networks as scikit-learn estimators: its own checks, pipelines, searches, names of columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import data
import inference
import models

QUICK = {"steps": 150, "learning_rate": 0.05}


@pytest.mark.parametrize("kind", ["BayesianRegressor", "BayesianClassifier"])
@pytest.mark.filterwarnings("ignore::inference.TouchstoneWarning")
def test_scikit_learns_own_checks_pass(kind):
    estimator = getattr(inference, kind)(models.mlp(4), options=QUICK)
    ran = 0
    for each, check in estimator_checks_generator(estimator):
        if check.func.__name__ == "check_array_api_input":  # needs a setting of SciPy's made before it is imported
            continue
        check(each)
        ran += 1
    assert ran > 40


@pytest.fixture(scope="module")
def lines():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)) * [1, 100] + [5, -300]
    return x, 40 * x[:, 0] + rng.normal(0, 10, 60) + 7000


def test_a_regressor_answers_in_the_units_of_y(lines):
    x, y = lines
    regressor = inference.BayesianRegressor(models.linear(), "laplace", random_state=3).fit(x, y)
    assert regressor.score(x, y) > 0.9
    mean, std = regressor.predict(x, return_std=True)
    np.testing.assert_allclose(std.mean(), 10, rtol=0.3)
    lower, upper = regressor.predict_interval(x, 0.9)
    assert 0.75 < np.mean((lower < y) & (y < upper)) <= 1
    np.testing.assert_allclose((lower + upper) / 2, mean, rtol=1e-3)
    np.testing.assert_allclose(regressor.predict(x[::-1])[::-1], mean, rtol=1e-9)
    assert regressor.posterior_.method.name == "laplace"
    assert regressor.posterior_.seed == 3


def test_a_search_over_priors_and_temperatures_finds_the_wider_prior(lines, tmp_path):
    x, y = lines
    grid = {
        "bayesianregressor__model": [models.linear(models.Normal(scale)) for scale in (0.001, 1.0)],
        "bayesianregressor__options": [{**QUICK, "temperature": t, "tempering": "likelihood"} for t in (0.5, 1.0)],
    }
    pipeline = make_pipeline(StandardScaler(), inference.BayesianRegressor())
    search = GridSearchCV(pipeline, grid, cv=2).fit(x, y)
    assert search.best_params_["bayesianregressor__model"].prior == models.Normal(1.0)
    best = search.best_estimator_[-1]
    assert best.posterior_.temperature == best.options["temperature"]
    assert cross_val_score(clone(best), x, y, cv=2).shape == (2,)
    page = best.report(search.best_estimator_[0].transform(x), y, tmp_path / "report.html")
    assert "Scores on test rows" in page.read_text()


def test_a_classifier_with_names_for_columns_and_classes(tmp_path):
    whole = data.load("moons").whole()
    frame = pd.DataFrame(whole.x, columns=["east", "north"])
    names = np.array(["one", "two"])[whole.y]
    classifier = inference.BayesianClassifier(models.mlp(8), options=QUICK).fit(frame, names)
    assert classifier.feature_names_in_.tolist() == ["east", "north"]
    assert classifier.classes_.tolist() == ["one", "two"]
    assert isinstance(classifier.posterior_.model.likelihood, models.Bernoulli)  # in place of models.mlp's Gaussian
    assert classifier.score(frame, names) > 0.9
    np.testing.assert_allclose(classifier.predict_proba(frame).sum(axis=1), 1)
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame.rename(columns={"east": "west"}))
    with pytest.raises(ValueError, match="got 1 class"):
        classifier.fit(frame, ["one"] * len(frame))
    for targets, message in (
        (None, "needs the targets y"),
        (["one", "three"] * 250, "'three', which fit has not seen"),
    ):
        with pytest.raises(ValueError, match=message):
            classifier.report(frame, targets if targets is None else targets[: len(frame)], tmp_path / "r.html")
    assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="options must be a dictionary"):
        inference.BayesianClassifier(options=["steps"]).fit(frame, names)
    for name, instead in (("seed", "random_state"), ("method", "method")):
        with pytest.raises(ValueError, match=f"options can't hold '{name}': give it to the estimator, as {instead}"):
            inference.BayesianClassifier(options={name: 1}).fit(frame, names)
    shown = inference.BayesianClassifier(models.linear(), options={**QUICK, "progress": True}).fit(frame, names)
    assert shown.score(frame, names) > 0.7
    with pytest.raises(TypeError, match="model must be a network of models"):
        inference.BayesianClassifier(model="mlp").fit(frame, names)
