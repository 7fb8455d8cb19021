"""Guides of the user's own: NumPyro's, and functions; what counts of them, and which are refused."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import scipy.stats
from numpyro.infer import Trace_ELBO
from numpyro.infer.autoguide import (
    AutoDAIS,
    AutoDelta,
    AutoIAFNormal,
    AutoMultivariateNormal,
    AutoNormal,
)

import inference
from diagnostics import convergence
from inference.target.binding import bind
from inference.target.minibatches import Minibatch


def test_factors_of_a_guide_count_as_in_numpyro():
    # AutoDAIS tells by a factor how its steps change the density; without it the loss can fall below -log p(y).
    y, guide, count = np.float32(1.0), AutoDAIS(_wide, K=4, eta_init=0.05), 4000
    method, bound = inference.SVI(guide=guide, particles=count), bind(_wide, (y,), 1.0, "posterior", None)
    method.suited(bound.target, bound.data)
    parameters = method.objective().begin(bound.target, bound.data, {}, jax.random.key(0))

    @jax.jit
    def ours(key: jax.Array) -> jax.Array:
        return method.objective().loss(bound.target, bound.data, Minibatch(None, 0, 1), parameters, key)[0]

    @jax.jit
    def theirs(key: jax.Array) -> jax.Array:
        return Trace_ELBO(count).loss(key, parameters.values(), _wide, guide, y)

    every = [[float(loss(jax.random.key(seed))) for seed in range(8)] for loss in (ours, theirs)]
    error = np.hypot(*np.std(every, axis=1)) / np.sqrt(8)
    assert abs(np.diff(np.mean(every, axis=1)).item()) < 5 * error, every
    assert error < 0.05


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


def _shifted(y=None):
    numpyro.sample("w", dist.Normal(numpyro.param("loc", 0.0) + SHIFT, 0.1))


SHIFT = 0.0


def test_a_guide_or_a_schedule_that_has_changed_is_compiled_anew(monkeypatch):
    factor = [1.0]
    run = dict(method="svi", guide=_shifted, steps=3, draws=200, learning_rate=1e-3, progress=False)
    run["schedule"] = lambda step: factor[0]
    first = inference.run(_wide, np.float32(1.0), **run)
    monkeypatch.setitem(globals(), "SHIFT", 5.0)
    moved = inference.run(_wide, np.float32(1.0), **run)
    assert moved.draws["w"].mean() - first.draws["w"].mean() == pytest.approx(5, abs=0.1)
    factor[0] = 0.0
    still = inference.run(_wide, np.float32(1.0), **run)
    assert moved.guide["loc"] != 0
    assert still.guide["loc"] == 0


def _with_a_tree(y=None):
    tree = numpyro.param("net", {"loc": jnp.array(0.5), "rest": [jnp.zeros(2), jnp.ones(3)]})
    scale = numpyro.param("scale", 0.3, constraint=dist.constraints.positive)
    numpyro.sample("w", dist.Normal(tree["loc"] + tree["rest"][0].sum(), scale))


def test_params_that_are_trees_are_fitted_and_given_back_by_dotted_names():
    run = dict(method="svi", steps=300, draws=5, progress=False)
    posterior = inference.run(_wide, np.float32(1.0), guide=_with_a_tree, **run)
    assert {name: value.shape for name, value in posterior.guide.items()} == {
        "net.loc": (), "net.rest.0": (2,), "net.rest.1": (3,), "scale": ()
    }  # fmt: skip
    assert posterior.guide["scale"] == pytest.approx(np.sqrt(0.8), rel=0.1)  # in the param's own units
    np.testing.assert_array_equal(posterior.guide["net.rest.1"], np.ones(3))
    wide = inference.run(_wide, np.float32(1.0), guide=_with_a_tree, precision="float64", **run)
    assert wide.guide["scale"].dtype == np.float64


def test_a_flow_is_a_guide(conjugate):
    guide = AutoIAFNormal(conjugate.model, num_flows=1)
    posterior = conjugate.run(method="svi", guide=guide, steps=20, draws=30)
    assert np.isfinite(posterior.curves["loss"]).all()
    assert np.isfinite(posterior.statistics["guide_log_density"]).all()
    assert any(name.startswith("auto_arn__0$params.") for name in posterior.guide)


def _point(y=None):
    numpyro.sample("w", dist.Delta(numpyro.param("at", 0.5)))


def test_a_guide_that_draws_too_few_numbers_is_singular():
    run = dict(method="svi", steps=20, draws=5, progress=False)
    assert "guide_log_density" not in inference.run(_wide, np.float32(1.0), guide=_point, **run).statistics
    assert "guide_log_density" in inference.run(_wide, np.float32(1.0), guide=_with_a_tree, **run).statistics
    for automatic, singular in ((AutoDelta, True), (AutoNormal, False), (AutoMultivariateNormal, False)):
        bound = bind(_positive, (np.float32(1.0),), 1.0, "posterior", None)
        family = inference.SVI(guide=automatic(_positive)).guide
        family.check(bound.target, bound.data)
        assert family.singular(bound.target, bound.data) is singular


def _positive(y=None):
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
    shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(3)))
    numpyro.sample("y", dist.Normal(shares[0], scale), obs=y)


@pytest.mark.parametrize(
    ("guide", "message"),
    [
        (lambda x, y=None: None, r"does not sample the site 'output\.weight'"),
        (lambda x, y=None: _sampled(dist.Normal(0.0, 1.0)), r"no param sites"),
        (lambda x, y=None: _sampled(dist.Normal(0.0, 1.0), 2), r"'output.weight' with shape \(2, 1\), and .* \(3, 1\)"),
    ],
)
def test_a_guide_that_does_not_fit_is_refused(conjugate, guide, message):
    with pytest.raises(ValueError, match=message):
        conjugate.run(method="svi", guide=guide)


def _sampled(one: dist.Distribution, inputs: int = 3) -> None:
    numpyro.sample("output.weight", one.expand((inputs, 1)).to_event(2))
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


def _above(y=None):
    a = numpyro.sample("a", dist.Normal(0.0, 3.0))
    b = numpyro.sample("b", dist.TruncatedNormal(a, 2.0, low=a))
    numpyro.sample("y", dist.Normal(b, 1.0), obs=y)


def test_supports_that_move_with_another_site_are_refused():
    """Such a site would be mapped to the bounds of an unrelated draw: a was 3.35 where it is 4.96."""
    guide = AutoNormal(_above)
    with pytest.raises(ValueError, match=r"where the site 'b' lives depends on another site.*guide='fullrank'"):
        inference.run(_above, np.float32(6.0), method="svi", guide=guide, steps=5, progress=False)
    inference.run(_above, np.float32(6.0), method="svi", guide="fullrank", steps=5, progress=False)
