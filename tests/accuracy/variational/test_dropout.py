"""Dropout as a guide: the training it stands for, closed forms, and what its draws say."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inference
import models
from inference.target.binding import bind
from inference.target.density import View
from inference.target.minibatches import Minibatch
from inference.variational.dropout import Dropout, Matrices

ROWS, KEEP, WIDTH, NOISE = 12, 0.8, 1.7, 0.3
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(ROWS, 3)).astype(np.float32)


PARAMETERS = {
    "hidden0.weight": GENERATOR.normal(size=(3, 5)),
    "hidden0.bias": GENERATOR.normal(size=5),
    "output.weight": GENERATOR.normal(size=(5, 4)),
    "output.bias": GENERATOR.normal(size=4),
}


MASKS = {"hidden0.weight": GENERATOR.random((ROWS, 3)) < KEEP, "output.weight": GENERATOR.random((ROWS, 5)) < KEEP}


CASES = {
    "regression": (models.Gaussian(scale=NOISE, outputs=4), GENERATOR.normal(size=(ROWS, 4)).astype(np.float32)),
    "classification": (models.Categorical(4), GENERATOR.integers(0, 4, ROWS).astype(np.int32)),
}


def _ordinary(parameters: dict[str, jax.Array], kind: str, y: np.ndarray) -> jax.Array:
    """A network trained with dropout and weight decay, as one writes it without any of this library."""
    hidden = jnp.maximum((X * MASKS["hidden0.weight"]) @ parameters["hidden0.weight"] + parameters["hidden0.bias"], 0)
    outputs = (hidden * MASKS["output.weight"]) @ parameters["output.weight"] + parameters["output.bias"]
    squares = sum(jnp.sum(parameters[name] ** 2) for name in MASKS)
    if kind == "regression":
        tau = 1 / NOISE**2
        return jnp.sum((y - outputs) ** 2) + KEEP / (WIDTH**2 * tau) * squares
    log_probs = outputs - jax.nn.logsumexp(outputs, axis=1, keepdims=True)
    return -jnp.sum(log_probs[np.arange(ROWS), y]) + KEEP / (2 * WIDTH**2) * squares


def _free_energy(monkeypatch, kind: str, sigma: float) -> dict[str, np.ndarray]:
    """The gradient of our free energy at those parameters, with those masks."""
    likelihood, y = CASES[kind]
    prior = {"weight": models.Normal(WIDTH), "bias": models.Flat()}
    bound = bind(models.mlp((5,), "relu", prior, likelihood), (X, y), 1.0, "posterior", None)
    method = inference.SVI(guide="dropout", rate=1 - KEEP, sigma=sigma)

    def mask(self, parameters, name, key, shape, relaxed):
        return jnp.asarray(MASKS[name] if shape == MASKS[name].shape else np.ones(shape), jnp.float64)

    monkeypatch.setattr(Dropout, "mask", mask)
    values = {name: jnp.asarray(value, jnp.float64) for name, value in PARAMETERS.items()}
    parameters = Matrices(
        {name: values[name] for name in MASKS}, {}, {name: v for name, v in values.items() if name not in MASKS}
    )

    def objective(parameters: Matrices) -> jax.Array:
        batch = Minibatch(None, 0, 1)
        return method.objective().loss(bound.target, bound.data, batch, parameters, jax.random.key(0))[0]

    gradient = jax.jit(jax.grad(objective))(parameters)
    return gradient.matrices | gradient.others


@pytest.mark.parametrize("kind", CASES)
def test_without_noise_the_gradient_is_that_of_ordinary_dropout_with_weight_decay(monkeypatch, kind):
    with jax.enable_x64(True):
        ours = _free_energy(monkeypatch, kind, 0.0)
        values = {name: jnp.asarray(value) for name, value in PARAMETERS.items()}
        theirs = jax.jit(jax.grad(_ordinary), static_argnums=1)(values, kind, CASES[kind][1])
        ours, theirs = jax.device_get((ours, theirs))
    factor = 1 / (2 * NOISE**2) if kind == "regression" else 1.0  # the division by tau / 2
    for name in PARAMETERS:
        np.testing.assert_allclose(ours[name], factor * theirs[name], rtol=1e-10, atol=1e-10)


def test_the_gradient_tends_to_it_as_the_noise_vanishes(monkeypatch):
    with jax.enable_x64(True):
        limit = _free_energy(monkeypatch, "regression", 0.0)
        distances = []
        for sigma in (1e-2, 1e-3, 1e-4):
            ours = _free_energy(monkeypatch, "regression", sigma)
            distances.append(max(float(jnp.abs(ours[name] - limit[name]).max()) for name in PARAMETERS))
    np.testing.assert_allclose(np.array(distances[:-1]) / distances[1:], 10, rtol=0.2)


@pytest.mark.parametrize(
    ("temperature", "tempering", "options"),
    [
        (1.0, "posterior", {}),
        (3.0, "posterior", {}),
        (3.0, "likelihood", {}),
        (1.0, "posterior", {"masks": "shared"}),
        (1.0, "posterior", {"per": "weight"}),
    ],
)
def test_on_linear_regression_it_is_the_closed_form(temperature, tempering, options):
    # (tau [keep^2 X'X + keep (1 - keep) diag(X'X)] + keep / s^2) M = tau keep X'y, with centred inputs and targets;
    # tempering the likelihood multiplies the weight decay, tempering the posterior changes nothing.
    x = X - X.mean(axis=0)
    y = (x @ np.array([1.0, -2.0, 0.5]) + 0.1 * GENERATOR.normal(size=ROWS)).astype(np.float32)
    y -= y.mean()
    tau = 1 / NOISE**2 / (temperature if tempering == "likelihood" else 1.0)
    gram = x.astype(np.float64).T @ x
    matrix = tau * (KEEP**2 * gram + KEEP * (1 - KEEP) * np.diag(np.diag(gram))) + KEEP / WIDTH**2 * np.eye(3)
    expected = np.linalg.solve(matrix, tau * KEEP * x.T @ y)
    model = models.linear({"weight": models.Normal(WIDTH), "bias": models.Flat()}, models.Gaussian(scale=NOISE))
    fits = [
        inference.run(
            model, x, y, method="svi", guide="dropout", rate=1 - KEEP, particles=32, steps=2000, draws=2, seed=seed,
            temperature=temperature, tempering=tempering, progress=False, **options,
        ).guide["output.weight.matrix"][:, 0]
        for seed in range(6)
    ]  # fmt: skip
    error = np.maximum(np.std(fits, axis=0, ddof=1), 1e-4) / np.sqrt(len(fits))
    z = (np.mean(fits, axis=0) - expected) / error
    assert np.abs(z).max() < 6, f"z-scores {z}, fits {np.mean(fits, axis=0)}, expected {expected}"


@pytest.fixture(scope="module")
def fitted():
    model = models.mlp((3,), "relu", likelihood=models.Gaussian(scale=NOISE))
    return inference.run(
        model, X, X[:, 0], method="svi", guide="dropout", rate={"hidden0": 0.1, "output": 0.4}, steps=200, seed=1,
        draws=40_000, progress=False,
    )  # fmt: skip


def test_passes_have_the_mean_and_the_variance_over_all_masks(fitted):
    guide, mean, second, x = fitted.guide, 0.0, 0.0, X[:4].astype(np.float64)
    for first, last in itertools.product(itertools.product((0, 1), repeat=3), repeat=2):
        weight = np.prod(np.where(first, 0.9, 0.1)) * np.prod(np.where(last, 0.6, 0.4))
        hidden = np.maximum((x * first) @ guide["hidden0.weight.matrix"] + guide["hidden0.bias.point"], 0)
        output = ((hidden * last) @ guide["output.weight.matrix"] + guide["output.bias.point"])[:, 0]
        mean, second = mean + weight * output, second + weight * output**2
    prediction = fitted.predict(X[:4])
    passes = prediction.outputs[0, :, :, 0].astype(np.float64)
    assert (np.abs(passes.mean(axis=0) - mean) / (passes.std(axis=0) / 200) < 5).all()
    squares = (passes - mean) ** 2
    assert (np.abs(squares.mean(axis=0) - (second - mean**2)) / (squares.std(axis=0) / 200) < 5).all()
    np.testing.assert_allclose(prediction.total, prediction.epistemic + NOISE**2, rtol=1e-6)  # plus 1 / tau
    np.testing.assert_allclose(prediction.epistemic, passes.var(axis=0), rtol=1e-4)


def test_a_draw_is_a_whole_set_of_weights_and_so_one_function(fitted):
    weights = fitted.draws["output.weight"][0, :, :, 0]
    matrix = fitted.guide["output.weight.matrix"][:, 0]
    kept = weights != 0
    np.testing.assert_array_equal(weights[kept], np.broadcast_to(matrix, weights.shape)[kept])
    np.testing.assert_allclose(kept.mean(axis=0), 0.6, atol=5 * np.sqrt(0.24 / 40_000))
    first = fitted.draws["hidden0.weight"][0] != 0
    assert (first.all(axis=2) | ~first.any(axis=2)).all()  # a unit is dropped with all its weights


def test_the_centre_is_ordinary_dropouts_deterministic_pass(fitted):
    guide = fitted.guide
    hidden = np.maximum(X @ (0.9 * guide["hidden0.weight.matrix"]) + guide["hidden0.bias.point"], 0)
    expected = hidden @ (0.6 * guide["output.weight.matrix"]) + guide["output.bias.point"]
    centre = inference.centre(fitted)
    assert centre.shape == (1, 1)
    np.testing.assert_allclose(centre.predict(X).outputs[0, 0], expected, rtol=1e-4, atol=1e-5)


def test_at_rate_0_it_is_map():
    model = models.linear(likelihood=models.Gaussian())  # whose mode is one
    run = dict(seed=3, steps=4000, progress=False)
    y = CASES["regression"][1][:, 0]
    dropped = inference.run(model, X, y, method="svi", guide="dropout", rate=0.0, draws=3, **run)
    point = inference.run(model, X, y, method="map", **run)
    assert dropped.curves["loss"][0, -1] == pytest.approx(point.curves["loss"][0, -1], abs=1e-3)
    for name, values in point.draws.items():
        np.testing.assert_allclose(dropped.draws[name][0], np.repeat(values[0], 3, axis=0), atol=1e-3)


@pytest.mark.parametrize("per", ["unit", "weight"])
def test_rows_with_their_own_draw_have_the_moments_of_the_guide(per):
    guide = Dropout(rate=1 - KEEP, sigma=0.2, per=per)
    bound = bind(models.linear(likelihood=models.Gaussian(scale=NOISE)), (X, X[:, 0]), 1.0, "posterior", None)
    matrix = jnp.asarray(PARAMETERS["hidden0.weight"][:, :1], jnp.float32)
    parameters = Matrices({"output.weight": matrix}, {}, {"output.bias": jnp.array([0.3])})
    distribution = guide.distribution(parameters, "output.weight")

    def outputs(key: jax.Array) -> jax.Array:
        drawn = guide.draw(bound.target, bound.data, parameters, key).position
        substituted = {name: drawn[name] for name in ("output.weight", "output.bias")}
        from numpyro import handlers

        model = guide.layers(parameters, key)(bound.target.model.outputs)
        return handlers.substitute(model, data=substituted)(X)[:, 0]

    draws = np.asarray(jax.jit(jax.vmap(outputs))(jax.random.split(jax.random.key(0), 40_000)), np.float64)
    mean = X @ np.asarray(distribution.mean)[:, 0] + 0.3
    variance = X**2 @ np.asarray(distribution.variance)[:, 0]
    assert (np.abs(draws.mean(axis=0) - mean) / (draws.std(axis=0) / 200)).max() < 5
    squares = (draws - mean) ** 2
    assert (np.abs(squares.mean(axis=0) - variance) / (squares.std(axis=0) / 200)).max() < 5
    assert abs(np.corrcoef(draws[:, 0], draws[:, 1])[0, 1]) < 5 / 200  # each row has its own


def test_a_mask_per_example_has_the_gradient_of_a_shared_one_with_less_noise():
    # The study of the gradient's variance: one mask per row, one for all rows, and four for all rows.
    bound = bind(models.mlp((5,), "relu", likelihood=models.Gaussian(scale=1.0)), (X, X[:, 0]), 1.0, "posterior", None)
    matrices = {"hidden0.weight": PARAMETERS["hidden0.weight"], "output.weight": PARAMETERS["output.weight"][:, :1]}
    points = {"hidden0.bias": PARAMETERS["hidden0.bias"], "output.bias": PARAMETERS["output.bias"][:1]}
    parameters = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), Matrices(matrices, {}, points))
    gradients = {}
    for name, options in {
        "example": {},
        "shared": {"masks": "shared"},
        "four": {"masks": "shared", "particles": 4},
    }.items():
        method = inference.SVI(guide="dropout", rate=0.3, **options)

        def gradient(key, method=method):
            batch = Minibatch(None, 0, 1)
            value = lambda p: method.objective().loss(bound.target, bound.data, batch, p, key)[0]  # noqa: E731
            return jax.flatten_util.ravel_pytree(jax.grad(value)(parameters))[0]

        gradients[name] = np.asarray(
            jax.jit(jax.vmap(gradient))(jax.random.split(jax.random.key(1), 10_000)), np.float64
        )
    errors = {name: values.std(axis=0) / 100 for name, values in gradients.items()}
    for name in ("shared", "four"):
        gap = gradients[name].mean(axis=0) - gradients["example"].mean(axis=0)
        z = gap / np.maximum(np.hypot(errors[name], errors["example"]), 1e-12)
        assert np.abs(z).max() < 5, name
    total = {name: values.var(axis=0).sum() for name, values in gradients.items()}
    assert total["shared"] / total["four"] == pytest.approx(4, rel=0.15)
    assert total["example"] < 0.5 * total["shared"]


def test_learned_rates_find_what_is_noise_and_leave_the_rest():
    # A layer whose inputs all matter for a noiseless target keeps them; the rate starts at 0.1.
    x = np.random.default_rng(1).normal(size=(200, 2)).astype(np.float32)
    run = dict(method="svi", guide="dropout", rate="learn", steps=2000, draws=500, progress=False)
    needed = inference.run(models.linear(likelihood=models.Gaussian(scale=0.05)), x, x[:, 0] - x[:, 1], **run)
    assert needed.guide["output.weight.rate"] < 0.02
    noise = np.random.default_rng(2).normal(size=200)
    useless = inference.run(models.linear(likelihood=models.Gaussian(scale=1.0)), x, noise, **run)
    assert 0.4 < useless.guide["output.weight.rate"] < 0.6  # where the entropy of a mask is largest
    kept = useless.draws["output.weight"][0, :, :, 0] != 0
    assert kept.mean() == pytest.approx(1 - useless.guide["output.weight.rate"], abs=5 * np.sqrt(0.25 / 1000))


def test_noise_and_normal_factors_give_a_guide_with_a_density():
    model, y = models.mlp((3,), "relu", likelihood=models.Gaussian()), np.sin(X[:, 0])
    run = dict(method="svi", guide="dropout", sigma=0.05, others="gaussian", steps=300, draws=50, progress=False)
    posterior = inference.run(model, X, y, mask_information="exact", **run)
    assert np.isfinite(posterior.statistics["guide_log_density"]).all()
    paper = inference.run(model, X, y, **run)
    assert (posterior.curves["kl"][0] > paper.curves["kl"][0] - 1e-3).all()  # I <= H(keep)
    assert inference.centre(posterior).draws["noise"].shape == (1, 1)
    kept = inference.run(model, X, y, mask_information="exact", rate={"hidden0": 0.0, "default": 0.2}, **run)
    assert np.isfinite(kept.curves["loss"]).all()
    assert np.isfinite(kept.statistics["guide_log_density"]).all()
    assert "guide_log_density" not in inference.run(model, X, np.sin(X[:, 0]), **{**run, "others": "point"}).statistics


def test_the_view_of_a_guide_counts_a_prior_once():
    # A flat view gives the terms of a draw; a guide's replaces the log prior of its own sites alone.
    bound = bind(models.mlp((2,), likelihood=models.Gaussian()), (X, X[:, 0]), 1.0, "posterior", None)
    position = bound.target.start(jax.random.key(0), bound.data)[0]
    plain = bound.target.terms(position, bound.data)
    same = bound.target.terms(position, bound.data, View(lambda name, prior: None))
    np.testing.assert_array_equal(plain.log_prior, same.log_prior)
    nothing = bound.target.terms(position, bound.data, View(lambda name, prior: jnp.zeros(())))
    assert nothing.log_prior == 0
    np.testing.assert_array_equal(plain.log_likelihood, nothing.log_likelihood)
