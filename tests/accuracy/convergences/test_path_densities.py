"""Straight paths between draws: parabolas where the posterior is normal, valleys where there are two modes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import diagnostics
import inference


@pytest.mark.parametrize(
    ("temperature", "tempering"), [(1.0, "posterior"), (0.4, "posterior"), (2.5, "likelihood")]
)  # fmt: skip
def test_paths_of_a_normal_posterior_are_parabolas(conjugate, temperature, tempering):
    posterior = conjugate.exact(3, 8, 1, temperature, tempering)
    found = diagnostics.straight_paths(posterior, conjugate.x, conjugate.y, pairs=6, points=9)
    _, precision = conjugate.posterior(temperature, tempering)
    draws = conjugate.stacked(posterior)
    bulge = found.shares * (1 - found.shares) / 2
    for kind, ends in (
        ("within", [((0, 0), (0, 4)), ((1, 0), (1, 4)), ((2, 0), (2, 4)), ((0, 2), (0, 6)), ((1, 2), (1, 6))]),
        ("between", [((0, 0), (1, 0)), ((0, 0), (2, 0)), ((1, 0), (2, 0)), ((0, 4), (1, 4)), ((0, 4), (2, 4))]),
    ):
        away = np.array([draws[last] - draws[first] for first, last in ends])
        exact = np.einsum("pi,ij,pj->p", away, precision, away)[:, None] * bulge
        np.testing.assert_allclose(found.above_chord(kind)[:5], exact, rtol=1e-4, atol=1e-3)
    assert (found.barriers_within == 0).all()
    assert (found.barriers_between == 0).all()


def test_ends_have_the_log_densities_of_the_draws(conjugate):
    posterior = conjugate.run(method="nuts", chains=2, draws=20, warmup=50, seed=1)
    found = diagnostics.straight_paths(posterior, (conjugate.x, conjugate.y), pairs=4, points=3)
    lp = posterior.statistics["lp"]
    np.testing.assert_allclose(found.within[:, 0], [lp[0, 0], lp[1, 0], lp[0, 5], lp[1, 5]], rtol=1e-5)
    np.testing.assert_allclose(found.within[:, -1], [lp[0, 10], lp[1, 10], lp[0, 15], lp[1, 15]], rtol=1e-5)
    np.testing.assert_allclose(found.between[:, -1], lp[1, [0, 5, 10, 15]], rtol=1e-5)


def two_modes(y=None):
    """The scale of the weights is on the positive half line, so that paths are straight in its logarithm."""
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
    numpyro.deterministic("twice", 2 * scale)
    place = numpyro.sample("place", dist.Normal(0.0, 10.0))
    with numpyro.plate("data", 1):
        numpyro.sample("y", dist.Normal(place**2 + 0 * scale, 1.0), obs=y)


def test_a_valley_between_two_modes():
    y = np.array([9.0], np.float32)
    short = inference.run(two_modes, y, method="nuts", chains=2, draws=4, warmup=10, progress=False)
    place = np.array([[3.0, 3.0], [-3.0, -3.0]])
    scale = np.array([[math.e, 1.0], [1 / math.e, 1.0]])
    posterior = replace(short, draws={"place": place, "scale": scale, "twice": 2 * scale})
    found = diagnostics.straight_paths(posterior, y, pairs=2, points=21)
    # From place 3 to -3 the likelihood falls by 9^2 / 2 and the prior rises by 9 / 200; the logarithm of the scale goes
    # from 1 to -1, of which the middle is higher by 1 / 2 and the chord flat.
    np.testing.assert_allclose(found.above_chord("between")[0, 10], -40.5 + 0.045 + 0.5, rtol=1e-4)
    assert found.barriers_between.max() == pytest.approx(40.5 - 0.045, rel=1e-4)
    # Within a chain the place stands still, and the logarithm of the scale goes from 1 to 0: t (1 - t) / 2.
    np.testing.assert_allclose(found.above_chord("within")[0], found.shares * (1 - found.shares) / 2, atol=1e-4)
    assert "between chains" in str(found)
    assert "Straight paths" in found._repr_html_()


def test_what_has_no_paths(conjugate):
    posterior = conjugate.exact(2, 3, 1)
    with pytest.raises(ValueError, match="the data are not those that the posterior was given: 'y' differs"):
        diagnostics.straight_paths(posterior, conjugate.x, conjugate.y + 1)
    with pytest.raises(ValueError, match="a path is between two draws, and nuts gave one"):
        diagnostics.straight_paths(conjugate.exact(1, 1, 1), conjugate.x, conjugate.y)
    with pytest.raises(ValueError, match="points must be"):
        diagnostics.straight_paths(posterior, conjugate.x, conjugate.y, points=2)
    with pytest.raises(TypeError, match="needs a posterior"):
        diagnostics.straight_paths({}, conjugate.x, conjugate.y)
    kept = replace(posterior, method=inference.NUTS(keep="none"))
    with pytest.raises(ValueError, match='keep="all"'):
        diagnostics.straight_paths(kept, conjugate.x, conjugate.y)
    members = diagnostics.straight_paths(conjugate.exact(3, 1, 1), conjugate.x, conjugate.y)
    assert len(members.within) == 0
    assert len(members.between) == 3
    assert "within" not in str(members)
