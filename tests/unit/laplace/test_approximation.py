"""Laplace's approximation where the answer is known: linear models, and networks linearised by hand."""

from __future__ import annotations

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import inference
from inference.host import machine as costs
from tests.helpers.small_network import small

BAD = {
    "structure": ({"structure": "kron"}, "structure must be one of"),
    "draws": ({"draws": 0}, "draws must be"),
    "hyperparameters": ({"hyperparameters": "best"}, "hyperparameters must be one of"),
    "hot evidence": ({"hyperparameters": "evidence", "temperature": 2.0}, "needs temperature=1"),
    "batch": ({"batch_size": 1000}, "at most the number of rows"),
    "an array": ({"structure": np.array(["full"])}, "structure must be one of"),
    "many draws": ({"draws": 10**11}, r"100,000,000,000 draws of 13 weights are 5,200\.0 GB.*fewer draws"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options(case):
    options, message = BAD[case]
    model, x, y = small()
    with pytest.raises(ValueError, match=message):
        inference.run(model, x, y, method="laplace", progress=False, **options)


@pytest.mark.parametrize("linearised", [0, 1.0, "no", np.array([True])])
def test_linearised_is_true_or_false(linearised):
    with pytest.raises(TypeError, match="linearised must be True, False or None"):
        inference.Laplace(linearised=linearised)
    assert inference.Laplace(linearised=np.False_).linearised is False


def test_folds_are_refused():
    model, x, y = small()
    with pytest.raises(ValueError, match="mle, map or svi, got laplace; use run for each fold"):
        inference.run_folds(model, [(x, y)] * 2, method="laplace", progress=False)


def test_a_container_may_have_less_memory_than_its_machine(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(costs, "_LIMITS", (str(limit), str(tmp_path / "none")))
    machine = costs.available_memory()
    limit.write_text("max\n")
    assert costs.available_memory() == machine
    limit.write_text("1048576\n")
    assert costs.available_memory() == 2**20
    limit.unlink()
    monkeypatch.delattr("os.sysconf")
    assert costs.available_memory() == np.inf


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": "last_layer"}, "needs a network of models"),
        ({"linearised": True}, "needs a network of models"),
        ({"hyperparameters": "evidence"}, "needs a network of models"),
        ({}, "'y' is a Gamma, whose Fisher information is not known"),
    ],
)
def test_models_of_the_users_that_can_not_be_done(options, message):
    def model(y=None):
        rate = numpyro.sample("rate", dist.LogNormal(0, 1))
        numpyro.sample("y", dist.Gamma(2.0, rate) if not options else dist.Normal(rate, 1.0), obs=y)

    with pytest.raises(ValueError, match=message):
        inference.run(model, np.float32(1.0), method="laplace", progress=False, **options)
