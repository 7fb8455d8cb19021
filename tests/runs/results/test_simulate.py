"""Predictions of a user's own model: draws of groups are never taken for those of other groups."""

from __future__ import annotations

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import inference

SIGMA = np.array([15.0, 10, 16, 11])
Y = np.array([28.0, 8, -3, 7])


def _schools(sigma, y=None, new=0):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    with numpyro.plate("schools", len(sigma)):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + 5 * z, sigma), obs=y)
    if new:
        with numpyro.plate("others", new):
            numpyro.sample("y_new", dist.Normal(mu + 5 * numpyro.sample("z_new", dist.Normal(0, 1)), 10.0))


def _indexed(group, y=None):
    with numpyro.plate("groups", 3):
        level = numpyro.sample("level", dist.Normal(0, 5))
    with numpyro.plate("rows", len(group)):
        numpyro.sample("y", dist.Normal(level[group], 1.0), obs=y)


@pytest.fixture(scope="module")
def schools():
    return inference.run(_schools, SIGMA, Y, method="map", steps=20, progress=False)


@pytest.mark.parametrize("rows", [1, 2, 9])
def test_other_groups_are_refused_by_the_name_of_the_site(schools, rows):
    with pytest.raises(ValueError, match=r"the site 'z' was drawn with shape \(4,\).*shape \(" + str(rows)):
        schools.predict(np.full(rows, 10.0))


def test_the_same_groups_are_predicted(schools):
    assert schools.predict(SIGMA)["y"].shape == (1, 1, 4)


def test_new_groups_are_sampled_under_a_name_of_their_own(schools):
    assert schools.predict(SIGMA, None, 3)["y_new"].shape == (1, 1, 3)


def test_rows_of_known_groups_are_found_by_an_index():
    group = np.array([0, 1, 2, 0, 1])
    posterior = inference.run(_indexed, group, np.arange(5.0), method="map", steps=20, progress=False)
    assert posterior.predict(np.array([2, 2]))["y"].shape == (1, 1, 2)
