"""A kernel holds what shapes the compiled program and nothing else, so that a step can't read an option by mistake."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np
import pytest

import inference
from inference.catalogue import METHODS
from inference.mcmc.hmc_adaptation import Settings
from inference.methods import Kernel, Method
from inference.target.binding import bind

# Options that reach the program as arrays, or that only the host looks at: the program is the same for all values.
SAME = {
    "hmc": {
        "draws": 7,
        "warmup": 3,
        "thin": 2,
        "tuning": 50,
        "step_size": 0.1,
        "trajectory_length": 2.0,
        "mass": "prior",
    },
    "nuts": {"draws": 7, "thin": 2, "chains": 1, "start": "map", "keep": "none", "until": {"ess": 9}},
    "mclmc": {"draws": 7, "warmup": 90, "thin": 2, "step_size": 0.1, "trajectory_length": 2.0, "mass": "tuned"},
    "sgld": {"draws": 7, "warmup": 30, "thin": 2, "step_size": 0.1, "chains": 1},
    "sghmc": {"draws": 7, "warmup": 30, "thin": 2, "step_size": 0.1, "chains": 1},
    "svi": {"draws": 7, "restarts": 3, "start": "prior", "patience": 5},
    "laplace": {"draws": 7, "linearised": False, "structure": "diagonal"},
    "ensemble": {"chains": 2},
}
OTHER = {
    "hmc": {"jitter": 0.0, "target_acceptance": 0.7},
    "nuts": {"warmup": 3, "step_size": 0.1, "target_acceptance": 0.7, "max_tree_depth": 3, "mass": "tuned"},
    "mclmc": {"adjusted": True, "energy_variance": 1e-3, "mass": "diagonal"},
    "sgld": {"batch_size": 5, "schedule": "decaying", "preconditioner": "rmsprop"},
    "sghmc": {"friction": 0.5},
    "svi": {"particles": 2, "guide": "fullrank", "steps": 5, "learning_rate": 0.5, "clip": 1.0, "batch_size": 5},
    "laplace": {"hyperparameters": "evidence"},
    "ensemble": {"estimate": "mle", "bootstrap": True},
    "map": {"steps": 5, "schedule": "linear"},
    "mle": {"steps": 5},
}


def test_every_method_has_a_row_here():
    assert set(SAME) | set(OTHER) == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_kernel_is_a_value_and_not_a_method(name):
    kernel = METHODS[name]().kernel()
    assert isinstance(kernel, Kernel)
    assert not isinstance(kernel, Method)
    assert is_dataclass(kernel)
    assert kernel == METHODS[name]().kernel()
    assert hash(kernel) == hash(METHODS[name]().kernel())
    with pytest.raises(AttributeError):
        kernel.draws  # noqa: B018


@pytest.mark.parametrize("name", SAME)
def test_runs_of_other_lengths_and_step_sizes_share_a_program(name):
    method = METHODS[name]
    for option, value in SAME[name].items():
        assert method(**{option: value}).kernel() == method().kernel(), option


@pytest.mark.parametrize("name", OTHER)
def test_what_shapes_the_program_makes_another_kernel(name):
    method = METHODS[name]
    for option, value in OTHER[name].items():
        assert method(**{option: value}).kernel() != method().kernel(), option


def test_kernels_of_two_methods_are_never_the_same_program():
    kernels = [METHODS[name]().kernel() for name in ("hmc", "nuts", "mclmc", "sgld", "sghmc", "svi", "mle", "map")]
    assert len(set(kernels)) == len(kernels)


@pytest.mark.parametrize("option", ["step_size", "trajectory_length", "warmup", "tuning"])
def test_an_option_that_is_an_array_of_the_settings_is_not_in_the_kernel(option):
    assert option not in {item.name for item in fields(inference.HMC().kernel())}
    assert option in {item.name for item in fields(inference.HMC)}


def _pilot(method):
    return method.pilot(method._pilot.first(Settings.of({"w": np.ones(2, np.float32)}, 1.0, 1.0, method.step_size)))


def test_a_pilot_has_the_kernel_of_its_chains(conjugate):
    target, data = bind(conjugate.model, (conjugate.x, conjugate.y), 1.0, "posterior")[:2]
    for method in (inference.SGLD(), inference.SGHMC()):
        assert method.pilot(method.settings(target, data)).kernel() == method.kernel()
    for method in (inference.HMC(), inference.HMC.paper(), inference.HMC(mass="diagonal", tuning=400)):
        assert _pilot(method).kernel() == method.kernel()
    assert _pilot(inference.HMC(step_size=0.1)) is None


def test_a_pilot_has_as_many_chains_whatever_the_user_asks_for():
    assert {_pilot(inference.HMC(chains=chains)).chains for chains in (1, 4, 9)} == {4}
    assert _pilot(inference.HMC.paper(chains=3)).chains == 1  # which finds the step size alone


def test_defaults_that_follow_other_options():
    for method, length, mass in (
        (inference.HMC(), "tuned", "tuned"),
        (inference.HMC(step_size=0.1), "prior", "prior"),
        (inference.HMC(trajectory_length=0.3), 0.3, "prior"),
        (inference.HMC.paper(), "prior", "prior"),
        (inference.HMC(trajectory_length="prior"), "prior", "prior"),
        (inference.HMC(trajectory_length="prior", mass="tuned"), "prior", "tuned"),
    ):
        assert (method._length, method._mass) == (length, mass)
