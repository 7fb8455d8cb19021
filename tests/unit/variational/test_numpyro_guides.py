"""Guides of the user's own: NumPyro's, and functions; what counts of them, and which are refused."""

from __future__ import annotations

import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.autoguide import (
    AutoLaplaceApproximation,
    AutoNormal,
)

import inference


def _point(y=None):
    numpyro.sample("w", dist.Delta(numpyro.param("at", 0.5)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"guide": AutoNormal}, r"got the class AutoNormal; make one: AutoNormal\(model\)"),
        ({"guide": _point, "start": "map"}, r"start='map' is for the guides that have a name; .* init_loc_fn"),
        ({"guide": _point, "restarts": 2}, r"restarts=2 is for the guides that have a name"),
    ],
)
def test_options_that_a_guide_of_the_users_own_can_not_follow_are_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        inference.SVI(**options)


def test_numpyros_laplace_approximation_is_refused_with_the_method_that_is_one(conjugate):
    with pytest.raises(ValueError, match=r'AutoLaplaceApproximation .* use method="laplace"'):
        conjugate.run(method="svi", guide=AutoLaplaceApproximation(conjugate.model))
