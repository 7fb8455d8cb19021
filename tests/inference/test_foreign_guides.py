"""Guides of the user's own: NumPyro's, and functions; what counts of them, and which are refused."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro.infer.autoguide import AutoDAIS, AutoMultivariateNormal, AutoNormal

import inference
from diagnostics import convergence


def test_factors_of_a_guide_count(conjugate):
    # AutoDAIS tells by a factor how its steps change the density. Without it the loss falls below -log p(y), which
    # no free energy can.
    covariance = conjugate.prior**2 * conjugate.design @ conjugate.design.T + conjugate.noise**2 * np.eye(40)
    evidence = scipy.stats.multivariate_normal(np.zeros(40), covariance).logpdf(conjugate.y)
    posterior = conjugate.run(method="svi", guide=AutoDAIS(conjugate.model, K=4), steps=600, particles=4, draws=500)
    loss = posterior.curves["loss"][0, -200:].astype(np.float64)
    bound = loss.mean() + 5 * loss.std() / np.sqrt(200)
    assert bound > -evidence, (bound, -evidence)
    assert loss.mean() < -evidence + 5


def _normal_guide(extra: dict[str, object] | None = None):
    """A guide of `_wide`, with one more site on request."""

    def guide(y=None):
        if extra is not None:
            scale = numpyro.param("extra_scale", 1.0, constraint=dist.constraints.positive)
            numpyro.sample("extra", dist.Normal(0.0, scale), infer=extra)
        loc = numpyro.param("loc", 0.0)
        numpyro.sample("w", dist.Normal(loc, numpyro.param("scale", 1.0, constraint=dist.constraints.positive)))

    return guide


def _wide(y=None):
    numpyro.sample("y", dist.Normal(numpyro.sample("w", dist.Normal(0.0, 2.0)), 1.0), obs=y)


def test_sites_that_the_model_does_not_have_are_refused_unless_they_are_auxiliary():
    run = dict(method="svi", steps=20, draws=5, progress=False)
    with pytest.raises(ValueError, match=r"samples 'extra', which is no latent site of the model.*is_auxiliary"):
        inference.run(_wide, np.float32(1.0), guide=_normal_guide({}), **run)

    def scale_drawn_first(y=None):  # w is the sum of two normals: log q is that of the first, and of w given it
        first = numpyro.sample("first", dist.Normal(numpyro.param("loc", 0.0), 0.5), infer={"is_auxiliary": True})
        numpyro.sample("w", dist.Normal(first, 0.5))

    posterior = inference.run(_wide, np.float32(1.0), guide=scale_drawn_first, **run)
    assert posterior.draws["w"].shape == (1, 5)
    assert set(posterior.draws) == {"w"}


def test_numpyros_guides_give_what_ours_give(conjugate):
    mean, precision = conjugate.posterior()
    variance = np.diag(np.linalg.inv(precision))
    guide = AutoMultivariateNormal(conjugate.model)
    draws = conjugate.stacked(conjugate.run(method="svi", guide=guide, steps=4000, particles=8, draws=4000))[0]
    assert (np.abs(draws.mean(axis=0) - mean) < 0.1 * np.sqrt(variance)).all()
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.15)


def test_a_users_guide_on_a_positive_site_is_fitted_in_the_sites_own_units():
    # The posterior of a precision is Gamma, and so is the guide: its density must be taken through the transform.
    y = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 0.9], np.float32)

    def model(y=None):
        precision = numpyro.sample("precision", dist.Gamma(2.0, 1.0))
        with numpyro.plate("rows", 6):
            numpyro.sample("y", dist.Normal(0.0, 1 / jnp.sqrt(precision)), obs=y)

    def guide(y=None):
        positive = dist.constraints.positive
        shape = numpyro.param("shape", 1.0, constraint=positive)
        numpyro.sample("precision", dist.Gamma(shape, numpyro.param("rate", 1.0, constraint=positive)))

    posterior = inference.run(model, y, method="svi", guide=guide, steps=4000, particles=8, draws=4000, progress=False)
    exact = scipy.stats.gamma(2 + 3, scale=1 / (1 + 0.5 * float((y**2).sum())))
    assert posterior.draws["precision"].mean() == pytest.approx(exact.mean(), rel=0.03)
    assert posterior.draws["precision"].std() == pytest.approx(exact.std(), rel=0.05)
    assert convergence(posterior).pareto_k < 0.5  # the guide is the posterior


@pytest.mark.parametrize(
    ("guide", "message"),
    [
        (lambda x, y=None: None, r"does not sample the site 'output\.bias'"),
        (lambda x, y=None: _sampled(dist.Normal(0.0, 1.0)), r"no param sites"),
    ],
)
def test_a_guide_that_does_not_fit_is_refused(conjugate, guide, message):
    with pytest.raises(ValueError, match=message):
        conjugate.run(method="svi", guide=guide)


def _sampled(one: dist.Distribution) -> None:
    numpyro.sample("output.weight", one.expand((3, 1)).to_event(2))
    numpyro.sample("output.bias", one.expand((1,)).to_event(1))


def test_a_guide_of_the_users_own_cannot_be_written_down(conjugate, tmp_path):
    guide = AutoNormal(conjugate.model)
    posterior = replace(conjugate.run(method="svi", steps=20, draws=6), method=inference.SVI(guide=guide))
    with pytest.raises(ValueError, match=r"svi: guide is a AutoNormal of your own, which a file can't hold"):
        posterior.save(tmp_path / "posterior.npz")
    with pytest.raises(ValueError, match=r"which a file can't hold"):
        conjugate.run(method="svi", guide=guide, steps=5, directory=tmp_path / "run")
    with pytest.raises(ValueError, match=r"schedule is a function of your own"):
        conjugate.run(method="map", schedule=lambda step: 1.0, directory=tmp_path / "run")
    assert not (tmp_path / "run").exists()
