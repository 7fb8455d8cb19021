"""EmpCov: its density against SciPy's, its posterior against the closed form, and what it is for."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from numpyro import handlers
from numpyro.infer.util import log_density

import inference
import models
from inference import mixing
from inference.target.binding import bind
from inference.target.prior_scales import prior_scales
from models.priors import Site

GENERATOR = np.random.default_rng(0)
X = (GENERATOR.normal(size=(60, 3)) @ GENERATOR.normal(size=(3, 3))).astype(np.float32)
Y = np.sin(X[:, 0])
PRIOR = models.EmpCov.of(X, alpha=0.5, epsilon=0.01)
SIGMA = 0.5 * np.cov(X.astype(np.float64), rowvar=False) + 0.01 * np.eye(3)


def test_the_density_is_scipys():
    weights = GENERATOR.normal(size=(3, 4))
    expected = scipy.stats.multivariate_normal(np.zeros(3), SIGMA).logpdf(weights.T).sum()
    assert PRIOR.log_density(weights) == pytest.approx(expected, rel=1e-10)
    assert PRIOR.scale_of(Site("hidden0", "weight", 3)) == pytest.approx(np.sqrt(np.trace(SIGMA) / 3))


def test_the_models_density_is_that_of_its_weights():
    """The density of z = A^-1 w is that of w times |A| for every unit."""
    model = models.mlp((4,), prior={"hidden0.weight": PRIOR, "default": 1.0}, likelihood=models.Gaussian(1.0))
    at = {name: jnp.zeros(shape) for name, shape in model.weights(X).items()}
    at["hidden0.weight.standard"] = jnp.asarray(GENERATOR.normal(size=(3, 4)), jnp.float32)
    density, trace = log_density(model, (X, np.zeros(60, np.float32)), {}, at)
    others = scipy.stats.norm.logpdf(np.zeros(9)).sum() + scipy.stats.norm.logpdf(np.zeros(60)).sum()
    jacobian = 4 * 0.5 * np.linalg.slogdet(SIGMA)[1]
    weights = np.asarray(trace["hidden0.weight"]["value"])
    assert float(density) - others == pytest.approx(PRIOR.log_density(weights) + jacobian, rel=1e-5)


def test_the_posterior_of_a_line_is_the_closed_form():
    y = (X @ [1.0, -0.5, 0.2] + 0.5 * GENERATOR.normal(size=60)).astype(np.float32)
    model = models.linear({"weight": PRIOR, "bias": 0.8}, models.Gaussian(scale=0.5))
    posterior = inference.run(model, X, y, method="hmc", draws=2000, seed=1, progress=False)
    design = np.column_stack([np.ones(60), X]).astype(np.float64)
    precision = design.T @ design / 0.25 + np.linalg.inv(np.block([[0.64 * np.eye(1), np.zeros((1, 3))],
                                                                  [np.zeros((3, 1)), SIGMA]]))  # fmt: skip
    mean = np.linalg.solve(precision, design.T @ y / 0.25)
    draws = np.concatenate([posterior.draws["output.bias"], posterior.draws["output.weight"][..., 0]], axis=-1)
    draws = draws.astype(np.float64)
    assert (np.abs(draws.mean(axis=(0, 1)) - mean) < 5 * mixing.mcse(draws)).all()
    square = np.square(draws - mean)
    assert (np.abs(square.mean(axis=(0, 1)) - np.diag(np.linalg.inv(precision))) < 5 * mixing.mcse(square)).all()


def test_predictions_are_those_of_the_weights():
    model = models.mlp((4,), "tanh", {"hidden0.weight": PRIOR, "default": 0.7}, models.Gaussian(1.0))
    for method in (dict(method="map", steps=20), dict(method="svi", steps=20, draws=3)):
        posterior = inference.run(model, X, Y, progress=False, **method)
        draw = {name: values[0, -1] for name, values in posterior.draws.items()}
        hidden = np.tanh(X @ draw["hidden0.weight"] + draw["hidden0.bias"])
        expected = hidden @ draw["output.weight"] + draw["output.bias"]
        np.testing.assert_allclose(posterior.predict(X).outputs[0, -1], expected, rtol=1e-4, atol=1e-5)


def test_the_root_does_not_depend_on_the_signs_of_directions():
    turned = models.EmpCov(PRIOR.covariance.matrix, PRIOR.alpha, PRIOR.epsilon)
    turned.covariance.directions[:, 1] *= -1
    z = {"w.weight.standard": jnp.asarray(GENERATOR.normal(size=(3, 2)), jnp.float32)}
    ours, theirs = (
        handlers.substitute(lambda prior=prior: prior.sample(Site("w", "weight", 3), (3, 2)), data=z)()
        for prior in (PRIOR, turned)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_coordinates_are_white_and_dead_inputs_have_small_weights():
    dead = np.concatenate([X, np.zeros((60, 1), np.float32)], axis=1)
    prior = models.EmpCov.of(dead, epsilon=1e-6)
    model = models.mlp((4,), prior={"hidden0.weight": prior, "default": 0.7})
    bound = bind(model, (dead, Y), 1.0, "posterior")
    assert (prior_scales(bound.target, bound.data)["hidden0.weight.standard"] == 1).all()
    drawn = inference.run(model, dead, Y, method="nuts", chains=1, draws=20, warmup=20, progress=False)
    weights = np.abs(drawn.draws["hidden0.weight"]).mean(axis=(0, 1, 3))
    assert weights[3] < 0.01 < weights[:3].min()


def test_patches_of_a_convolution():
    images = GENERATOR.normal(size=(20, 6, 6, 2)).astype(np.float32)
    prior = models.EmpCov.of(images, kernel=3)
    patches = [images[:, i : i + 3, j : j + 3].reshape(20, -1) for i in range(4) for j in range(4)]
    np.testing.assert_allclose(prior.covariance.matrix, np.cov(np.concatenate(patches), rowvar=False), atol=1e-12)
    rules = {"conv0.weight": prior, "default": 0.2}
    model = models.lenet((3,), (4,), 3, prior=rules, likelihood=models.Categorical(2))
    found = inference.run(model, images, np.arange(20) % 2, method="map", steps=3, progress=False)
    assert found.draws["conv0.weight"].shape == (1, 1, 3, 3, 2, 3)


def test_it_is_stored_and_compared_by_value(tmp_path):
    model = models.linear({"weight": PRIOR, "bias": 1.0})
    again = models.linear({"weight": models.EmpCov.of(X, 0.5, 0.01), "bias": 1.0})
    assert model == again
    assert hash(model) == hash(again)
    assert models.from_recipe(models.to_recipe(model)) == model
    posterior = inference.run(model, X, Y, method="map", steps=3, progress=False)
    posterior.save(tmp_path / "p.npz")
    assert inference.load(tmp_path / "p.npz").model == model


def test_a_covariance_that_was_computed_in_float32():
    single = np.cov(np.concatenate([X, X[:, :1]], axis=1), rowvar=False, dtype=np.float32)
    single[0, 1] *= 1 + 1e-6
    assert len(models.EmpCov(single).covariance) == 4


BAD = {
    "another layer": (
        lambda: models.mlp((4,), prior=PRIOR).validate(X),
        "'hidden0.bias' sums over 3; it is a prior of",
    ),
    "another width": (
        lambda: models.mlp((4,), prior={"output.weight": PRIOR, "default": 1.0}).validate(X),
        "'output.weight' sums over 4",
    ),
    "no density": (lambda: models.EmpCov.of(np.zeros((5, 2)), epsilon=0.0), "epsilon must be above 0 for these inputs"),
    "a row": (lambda: models.EmpCov.of(np.zeros((1, 2))), "at least two rows"),
    "no images": (lambda: models.EmpCov.of(X, kernel=3), "kernel=3 needs images at least as large"),
    "not symmetric": (lambda: models.EmpCov([[1.0, 2.0], [0.0, 1.0]]), "must be symmetric"),
    "negative": (lambda: models.EmpCov([[1.0, 2.0], [2.0, 1.0]]), "no negative eigenvalues"),
    "equinox": (
        lambda: models.from_equinox(
            eqx.nn.Linear(3, 3, key=jax.random.key(0)), {"weight": PRIOR, "bias": 1.0}, models.Gaussian(outputs=3)
        ).validate(X),
        "whose first axis is their inputs",
    ),
    "a damaged file": (lambda: models.from_recipe({"covariance": [3, "!"]}), "a covariance can't be read"),
    "not square": (lambda: models.EmpCov(np.zeros((2, 3))), "must be a square matrix"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        make()


def test_a_guide_that_needs_weights_as_sites_says_so():
    model = models.linear({"weight": PRIOR, "bias": 1.0})
    with pytest.raises(ValueError, match="made of others"):
        inference.run(model, X, Y, method="svi", guide="dropout", progress=False)


def test_it_compiles_with_other_numbers():
    """As in a sweep over the prior, alpha and epsilon may be traced."""
    model = models.linear({"weight": PRIOR, "bias": 1.0}, models.Gaussian(1.0))

    def density(numbers):
        at = {"output.weight.standard": jnp.ones((3, 1)), "output.bias": jnp.zeros(1)}
        return log_density(models.with_numbers(model, list(numbers)), (X, Y), {}, at)[0]

    numbers = np.array(models.numbers_of(model), np.float32)
    assert jax.jit(density)(numbers) == pytest.approx(float(density([float(n) for n in numbers])), rel=1e-4)
