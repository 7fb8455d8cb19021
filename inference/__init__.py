"""Inference: one call for every method, and one record out of all of them."""

from inference.catalogue import METHODS
from inference.ensembles import Ensemble
from inference.hamiltonian import HMC
from inference.methods import Method
from inference.nuts import NUTS
from inference.points import MAP, MLE
from inference.posterior import Posterior
from inference.prediction import Prediction
from inference.resuming import resume
from inference.running import run
from inference.storage import load
from inference.variational import SVI

__all__ = [
    "HMC",
    "MAP",
    "METHODS",
    "MLE",
    "NUTS",
    "SVI",
    "Ensemble",
    "Method",
    "Posterior",
    "Prediction",
    "load",
    "resume",
    "run",
]
