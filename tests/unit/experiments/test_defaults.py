"""The table of defaults: its networks, its cells, and one small run of it."""

from __future__ import annotations

import data
import models
from experiments.defaults import Result, network, table


def test_networks_fit_their_sets():
    split = {
        name: data.load(name).split(seed=0)[0].flat() for name in ("gap", "heteroscedastic_sine", "moons", "digits")
    }
    assert network(split["gap"]) == models.mlp((20,))
    assert network(split["heteroscedastic_sine"]).likelihood == models.HeteroscedasticGaussian()
    assert network(split["moons"]).likelihood == models.Bernoulli()
    assert network(split["digits"]) == models.mlp((30,), likelihood=models.Categorical(10))


def test_the_table_compares_with_hmc_of_the_same_seed():
    results = [
        Result("hmc", "gap", 0, True, "1.00, 900", 10.0, 1.0),
        Result("hmc", "gap", 1, False, "1.20, 90", 20.0, 2.0),
        Result("svi", "gap", 0, None, "k 2.0", 1.0, 0.5),
        Result("svi", "gap", 1, None, "k 2.0", 3.0, 1.7),
    ]
    lines = table(results).splitlines()
    assert lines[0] == "| | gap |"
    assert lines[2] == "| hmc | pass fail; 15 s; log score 1.500 |"
    assert lines[3] == "| svi | - -; 2 s; -0.400 |"
