"""Inference: one call for every method, and one record out of all of them."""

from inference.catalogue import METHODS
from inference.curves import Sweep
from inference.ensembles import Ensemble
from inference.folding import run_folds
from inference.hamiltonian import HMC
from inference.laplace import Laplace
from inference.methods import Method
from inference.microcanonical import MCLMC
from inference.nuts import NUTS
from inference.points import MAP, MLE
from inference.posterior import Posterior
from inference.prediction import Prediction
from inference.pruning import centre, prune, signal_to_noise
from inference.resuming import resume
from inference.running import run
from inference.stochastic_gradient import SGHMC, SGLD
from inference.storage import load
from inference.sweeps import sweep
from inference.variational import SVI

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
    "Ensemble",
    "Laplace",
    "Method",
    "Posterior",
    "Prediction",
    "Sweep",
    "centre",
    "load",
    "prune",
    "resume",
    "run",
    "run_folds",
    "signal_to_noise",
    "sweep",
]
