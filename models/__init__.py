"""Networks as NumPyro models: layers that are effects, explicit priors, likelihoods, and the frozen network."""

import warnings

with warnings.catch_warnings():  # NumPyro's own bars, which are never shown, would like to have ipywidgets
    warnings.filterwarnings("ignore", "IProgress not found")
    import numpyro as _numpyro  # noqa: F401

from models.architectures.equinox_modules import from_equinox
from models.architectures.flax_modules import from_flax
from models.architectures.images import lenet, resnet20_frn
from models.architectures.lifted import module_weights
from models.architectures.perceptrons import linear, logistic, mlp
from models.architectures.sequences import cnn_lstm
from models.architectures.tables import TableInputs, for_table
from models.classifiers import Bernoulli, Categorical, NoisyLogits
from models.exchangeable_units import shared_shapes
from models.fixed_weights import PartlyFixed, chosen_sites, partly_fixed
from models.hierarchies import Hierarchical
from models.input_covariances import EmpCov
from models.layers import apply, dense
from models.likelihoods import Gaussian, HeteroscedasticGaussian, Likelihood, StudentTNoise
from models.networks import Network
from models.numbers import numbers_of, with_numbers
from models.priors import Flat, Normal, Prior, ScaleMixture, Univariate
from models.recipes import from_recipe, has_recipe, restored_model, to_recipe
from models.rules import Rules

__all__ = [
    "Bernoulli",
    "Categorical",
    "EmpCov",
    "Flat",
    "Gaussian",
    "HeteroscedasticGaussian",
    "Hierarchical",
    "Likelihood",
    "Network",
    "NoisyLogits",
    "Normal",
    "PartlyFixed",
    "Prior",
    "Rules",
    "ScaleMixture",
    "StudentTNoise",
    "TableInputs",
    "Univariate",
    "apply",
    "chosen_sites",
    "cnn_lstm",
    "dense",
    "for_table",
    "from_equinox",
    "from_flax",
    "from_recipe",
    "has_recipe",
    "lenet",
    "linear",
    "logistic",
    "mlp",
    "module_weights",
    "numbers_of",
    "partly_fixed",
    "resnet20_frn",
    "restored_model",
    "shared_shapes",
    "to_recipe",
    "with_numbers",
]
