"""`inference.BayesianRegressor` and `inference.BayesianClassifier`: a network and a method as scikit-learn knows them.

Inputs and targets are standardised by the training rows, as a `Split` is, because the priors of networks are made for
that; predictions are in the units of `y`. A network is trained in the precision of its method, and predicts in float64:
scikit-learn expects that a row's prediction does not depend on the rows beside it, to the seventh digit.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from data import Dataset, Split
from inference.methods import Method
from inference.results.prediction import Classification, Prediction, Regression
from inference.runs.running import run
from models import Bernoulli, Categorical, Gaussian, Likelihood, Network, mlp

__all__ = ["BayesianClassifier", "BayesianRegressor"]


class _Estimator(BaseEstimator):
    """What both estimators share."""

    def __init__(
        self,
        model: Network | None = None,
        method: str | Method = "map",
        options: dict[str, Any] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.model = model
        self.method = method
        self.options = options
        self.random_state = random_state

    def _fit(self, x: np.ndarray, y: np.ndarray, classes: int | None) -> None:
        if len(x) < 2:
            raise ValueError(f"a network is fitted to 2 rows or more, got n_samples = {len(x)}")
        if self.model is not None and not isinstance(self.model, Network):
            raise TypeError(f"model must be a network of models, or None, got {type(self.model).__name__}")
        if self.options is not None and not isinstance(self.options, Mapping):
            raise TypeError(f"options must be a dictionary of options, or None, got {type(self.options).__name__}")
        options = {"progress": False, **(self.options or {})}
        for name, instead in (("seed", "random_state"), ("method", "method")):
            if name in options:
                raise ValueError(f"options can't hold {name!r}: give it to the estimator, as {instead}")
        self._train = Dataset("training rows", x, y, classes).whole()
        model = mlp(likelihood=self._likelihood(classes)) if self.model is None else self.model
        if (model.likelihood.classes is None) != (classes is None) or model.likelihood.classes not in (None, classes):
            model = replace(model, likelihood=self._likelihood(classes))
        state = self.random_state
        seed = int(state) if isinstance(state, int | np.integer) else int(check_random_state(state).randint(2**31))
        found = run(model, self._train, method=self.method, seed=seed, **options)
        self.posterior_ = replace(found, further=None)  # which holds programs, and can't be copied

    @staticmethod
    def _likelihood(classes: int | None) -> Likelihood:
        if classes is None:
            return Gaussian()
        return Bernoulli() if classes == 2 else Categorical(classes)

    def _prediction(self, x: Any) -> Prediction:
        """The prediction at `x`, in the units of the targets."""
        check_is_fitted(self)
        x = validate_data(self, x, reset=False, dtype=np.float64)
        scaler, posterior = self._train.scaler, self.posterior_
        wide = replace(
            posterior,
            method=replace(posterior.method, precision="float64"),
            draws={name: np.asarray(values, np.float64) for name, values in posterior.draws.items()},
            guide={name: np.asarray(values, np.float64) for name, values in posterior.guide.items()},
        )
        return self._train.restore(wide.predict((x - scaler.x_location) / scaler.x_scale))

    def _split(self, x: Any, y: np.ndarray, name: str) -> Split:
        """Rows in the units of the training rows."""
        scaler = self._train.scaler
        x = validate_data(self, x, reset=False, dtype=np.float64)
        if self._train.classes is None:
            y = ((y - scaler.y_location) / scaler.y_scale).astype(np.float32)
        return replace(self._train, x=scaler.inputs(x), y=y, name=name)

    def report(self, X: Any = None, y: Any = None, path: str | Path = "report.html") -> Path:
        """Write the page about the posterior: whether to believe it, and, for rows `X` and `y`, how well it predicts.

        Args:
            X: inputs of test rows; None reports on convergence alone.
            y: their targets.
            path: where to write the HTML file.

        Returns:
            The path of the file.
        """
        check_is_fitted(self)
        if X is not None and y is None:
            raise ValueError("report needs the targets y of the rows X, to score the predictions by")
        diagnostics = importlib.import_module("diagnostics")  # which is built on this package
        test = None if X is None else self._split(X, self._targets(y), "test rows")
        return diagnostics.report(self.posterior_, test, path)

    def _targets(self, y: Any) -> np.ndarray:
        raise NotImplementedError(f"{type(self).__name__} must know its targets")


class BayesianRegressor(RegressorMixin, _Estimator):
    """Regression by a Bayesian network, as a scikit-learn estimator.

    Args:
        model: a network with a likelihood of numbers; None is `models.mlp()`.
        method: the name of a method of `inference.run`, or its record.
        options: further arguments of `inference.run`: the method's options, `temperature`, `tempering`.
        random_state: the seed; None takes another one each time.

    Attributes:
        posterior_: the `Posterior`, of standardised inputs and targets.
        n_features_in_: how many inputs a row has.
        feature_names_in_: their names, if `fit` was given a data frame.
    """

    def fit(self, X: Any, y: Any) -> BayesianRegressor:
        """Infer the posterior of the network given rows `X` and targets `y`."""
        x, targets = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._fit(x, np.asarray(targets, np.float64), None)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of the predictive distribution, and, if `return_std`, its standard deviation, noise included."""
        prediction = self._prediction(X)
        return (prediction.mean, prediction.std) if return_std else prediction.mean

    def predict_interval(self, X: Any, probability: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of the predictive distribution that holds `probability`, as (lower, upper)."""
        prediction = self._prediction(X)
        assert isinstance(prediction, Regression)
        return prediction.interval(probability)

    def _targets(self, y: Any) -> np.ndarray:
        return np.asarray(y, np.float64)


class BayesianClassifier(ClassifierMixin, _Estimator):
    """Classification by a Bayesian network, as a scikit-learn estimator.

    Args:
        model: a network; its likelihood is replaced by one for the classes of `y` if it does not fit them. None is
            `models.mlp()`.
        method: the name of a method of `inference.run`, or its record.
        options: further arguments of `inference.run`: the method's options, `temperature`, `tempering`.
        random_state: the seed; None takes another one each time.

    Attributes:
        classes_: the classes.
        posterior_: the `Posterior`, of standardised inputs and of labels 0, 1, ...
        n_features_in_: how many inputs a row has.
        feature_names_in_: their names, if `fit` was given a data frame.
    """

    def fit(self, X: Any, y: Any) -> BayesianClassifier:
        """Infer the posterior of the network given rows `X` and classes `y`."""
        x, targets = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(targets)
        self.classes_, labels = np.unique(targets, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must have 2 classes or more, got 1 class: {self.classes_[0]!r}")
        self._fit(x, labels.astype(np.int32), len(self.classes_))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class under the predictive distribution."""
        prediction = self._prediction(X)
        assert isinstance(prediction, Classification)
        return prediction.probs

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def _targets(self, y: Any) -> np.ndarray:
        given = np.asarray(y)
        new = [value for value in np.unique(given).tolist() if value not in self.classes_.tolist()]
        if new:
            raise ValueError(f"y has the class {new[0]!r}, which fit has not seen; it saw {self.classes_.tolist()}")
        return np.searchsorted(self.classes_, given).astype(np.int32)
