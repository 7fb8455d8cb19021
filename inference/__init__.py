"""Inference: one call for every method, and one record out of all of them.

`BayesianRegressor` and `BayesianClassifier` are here too; they are not in `__all__`, because they import scikit-learn.
"""

from typing import TYPE_CHECKING, Any

from inference.host.shadows import refuse_shadows

refuse_shadows("data", "models")

import models as _models  # noqa: F401 (before NumPyro is imported, whose warning about its bars it keeps back)
from inference.catalogue import METHODS
from inference.host.distributed import distributed
from inference.host.hosts import HostLost
from inference.host.machine import Cost
from inference.host.telling import TouchstoneWarning
from inference.laplace.approximation import Laplace
from inference.mcmc.hmc import HMC
from inference.mcmc.mclmc import MCLMC
from inference.mcmc.nuts import NUTS
from inference.methods import Method
from inference.optimisation.points import MAP, MLE, Ensemble
from inference.results.posterior import Posterior
from inference.results.prediction import Classification, Prediction, Regression
from inference.results.pruning import centre, prune, signal_to_noise
from inference.results.running_averages import Averages
from inference.runs.extending import extend
from inference.runs.folds import run_folds
from inference.runs.loading import load
from inference.runs.resuming import resume
from inference.runs.running import run
from inference.samplers import Sampler
from inference.sgmcmc.sgld_sghmc import SGHMC, SGLD
from inference.sweeps.result import Sweep
from inference.sweeps.sweeping import sweep
from inference.variational.correlated import FullRank, LowRank
from inference.variational.dropout import Dropout
from inference.variational.gaussian import Gaussian
from inference.variational.guide import Guide
from inference.variational.mixture import Mixture
from inference.variational.svi import SVI

__all__ = [
    "HMC",
    "MAP",
    "MCLMC",
    "METHODS",
    "MLE",
    "NUTS",
    "SGHMC",
    "SGLD",
    "SVI",
    "Averages",
    "Classification",
    "Cost",
    "Dropout",
    "Ensemble",
    "FullRank",
    "Gaussian",
    "Guide",
    "HostLost",
    "Laplace",
    "LowRank",
    "Method",
    "Mixture",
    "Posterior",
    "Prediction",
    "Regression",
    "Sampler",
    "Sweep",
    "TouchstoneWarning",
    "centre",
    "distributed",
    "extend",
    "load",
    "prune",
    "resume",
    "run",
    "run_folds",
    "signal_to_noise",
    "sweep",
]

if TYPE_CHECKING:
    from inference.scikit_learn.estimators import BayesianClassifier as BayesianClassifier
    from inference.scikit_learn.estimators import BayesianRegressor as BayesianRegressor
else:

    def __getattr__(name: str) -> Any:
        if name not in ("BayesianClassifier", "BayesianRegressor"):
            raise AttributeError(f"module 'inference' has no attribute {name!r}")
        from inference.scikit_learn import estimators

        return getattr(estimators, name)
