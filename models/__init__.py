"""Networks as NumPyro models: layers that are effects, explicit priors, likelihoods, and the frozen network."""

from models.layers import apply, dense
from models.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood
from models.networks import Network
from models.perceptrons import linear, logistic, mlp
from models.priors import Normal, Prior, Rules, Univariate
from models.recipes import from_recipe, to_recipe

__all__ = [
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "Likelihood",
    "Network",
    "Normal",
    "Prior",
    "Rules",
    "Univariate",
    "apply",
    "dense",
    "from_recipe",
    "linear",
    "logistic",
    "mlp",
    "to_recipe",
]
