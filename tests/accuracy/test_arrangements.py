"""Chains in one program draw from the same posterior as chains in threads, whose bits they don't have."""

from __future__ import annotations

import numpy as np
import pytest

from inference import mixing
from tests.accuracy.test_methods import check_moments


@pytest.mark.parametrize(
    ("chains", "least", "options"),
    [
        (16, 8000, dict(method="hmc", draws=1500)),  # a bias of 0.06 posterior standard deviations would show
        (16, 10_000, dict(method="nuts", draws=1000, warmup=300)),
        (8, 4000, dict(method="mclmc", adjusted=True, draws=1500)),
    ],
    ids=["hmc", "nuts", "adjusted mclmc"],
)
def test_chains_in_one_program_have_the_exact_moments(conjugate, chains, least, options):
    posterior = conjugate.run(chains=chains, arrangement="vectorised", start="random", seed=1, **options)
    assert posterior.cost.arrangement == "vectorised"
    mean, precision = conjugate.posterior()
    draws = conjugate.stacked(posterior)
    assert mixing.ess(draws).min() > least
    check_moments(draws, mean, np.linalg.inv(precision))


def test_langevin_in_one_program_has_the_posteriors_moments(conjugate):
    # Of all rows, with steps so small that the bias is a hundredth of a variance.
    posterior = conjugate.run(
        method="sghmc", friction=0.2, step_size=5e-5, draws=1500, thin=40, warmup=2000, chains=8, seed=1,
        arrangement="vectorised", start="random",
    )  # fmt: skip
    mean, precision = conjugate.posterior()
    draws = conjugate.stacked(posterior)
    assert mixing.ess(draws).min() > 2000
    check_moments(draws, mean, np.linalg.inv(precision))


def test_sharded_chains_have_the_exact_moments(conjugate):
    posterior = conjugate.run(method="hmc", chains=4, draws=1500, arrangement="sharded", start="random", seed=1)
    assert "devices for chains x rows" in posterior.cost.arranged
    mean, precision = conjugate.posterior()
    draws = conjugate.stacked(posterior)
    assert mixing.ess(draws).min() > 2000
    check_moments(draws, mean, np.linalg.inv(precision))
