"""Many fits in one program, and how an optimisation goes: restarts, folds, schedules, clipping, patience, NaN."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from jax import lax

import inference
import models
from inference.optimisation.optimiser import SCHEDULES
from inference.runs.side_by_side import Together
from inference.runs.stopping import Settled

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(5, 40, 3)).astype(np.float32)
Y = (X @ np.array([1.0, -1.0, 0.5]) + GENERATOR.normal(size=(5, 40)) * 0.3).astype(np.float32)
FOLDS = list(zip(X, Y, strict=True))
SCALES = [0.5, 1.0, 2.0, 0.1, 0.7]


def _models() -> list[models.Network]:
    return [models.linear({"weight": scale, "bias": 1.0}, models.Gaussian(scale=0.3 * scale)) for scale in SCALES]


def test_every_fold_has_its_own_data_and_numbers():
    # Ridge regression in closed form, with five data sets, priors and noises; five fits in two groups need padding.
    fits = inference.run_folds(_models(), FOLDS, method="map", steps=3000, progress=False)
    for (x, y), scale, fit, model in zip(FOLDS, SCALES, fits, _models(), strict=True):
        design = np.column_stack([np.ones(40), x]).astype(np.float64)
        precision = design.T @ design / (0.3 * scale) ** 2 + np.diag([1, *[scale**-2] * 3])
        expected = np.linalg.solve(precision, design.T @ y / (0.3 * scale) ** 2)
        found = np.concatenate([fit.draws["output.bias"][0, 0], fit.draws["output.weight"][0, 0, :, 0]])
        np.testing.assert_allclose(found, expected, atol=2e-4)
        assert fit.model == model
        assert fit.curves["loss"].shape == (1, 3000)
        np.testing.assert_allclose(fit.predict(x).noise, 0.3 * scale)


def test_a_fold_is_fitted_as_it_is_alone():
    options = dict(method="svi", guide="dropout", rate=0.1, steps=50, batch_size=8, draws=4, progress=False, seed=3)
    many = inference.run_folds(_models(), FOLDS, **options)
    few = inference.run_folds(_models()[:2], FOLDS[:2], **options)
    one = inference.run_folds(_models()[0], FOLDS[:1], **options)
    for fits in (few, one):
        np.testing.assert_allclose(fits[0].curves["loss"], many[0].curves["loss"], rtol=1e-3)
        np.testing.assert_allclose(
            fits[0].guide["output.weight.matrix"], many[0].guide["output.weight.matrix"], rtol=1e-3
        )
    assert many[0].shape == (1, 4)
    assert not np.allclose(many[0].draws["output.weight"], many[1].draws["output.weight"])


def test_integers_are_numbers_too():
    networks = [models.linear(models.Normal(scale), models.Gaussian(scale=scale)) for scale in (1, 2)]
    fits = inference.run_folds(networks, FOLDS[:2], method="map", steps=5, progress=False)
    assert [fit.model for fit in fits] == networks


def test_other_numbers_need_no_other_program(counted):
    options = dict(method="svi", steps=20, draws=2, progress=False)
    inference.run_folds(_models()[:2], FOLDS[:2], **options)
    before = counted("compile")
    again = [models.linear({"weight": 3.0, "bias": 2.0}, models.Gaussian(scale=scale)) for scale in (0.2, 0.4)]
    inference.run_folds(again, FOLDS[2:4], **options)
    assert counted("compile") == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "nuts"}, r"fits what optimises once per fold"),
        ({"folds": []}, r"at least one fold"),
        ({"folds": [FOLDS[0], (X[1][:7], Y[1][:7])]}, r"fold 0 has .*40.*, fold 1 has .*7"),
        (
            {"model": [models.linear(), models.mlp((3,))], "folds": FOLDS[:2]},
            r"fold 1 differs .* more than its numbers",
        ),
        ({"model": [models.linear()]}, r"one per fold: got 1 for 2"),
        ({"start": "map"}, r'"random" or from the "prior"'),
        ({"tempering": "posteriors"}, r"tempering must be one of 'posterior', 'likelihood'.* did you mean"),
        ({"temperature": -1.0}, r"temperature must be a finite number above 0"),
        ({"seed": -1}, r"seed must be 0 to 2\^32 - 1"),
        ({"restarts": 2}, r"one fit per fold, got restarts=2"),
        ({"chunk_size": 10}, r"chunk_size=10 would do nothing; .* batch_size"),
    ],
)
def test_folds_that_do_not_fit_are_refused(change, message):
    arguments = {"model": models.linear(), "folds": FOLDS[:2], "progress": False, **change}
    with pytest.raises(ValueError, match=message):
        inference.run_folds(arguments.pop("model"), arguments.pop("folds"), **arguments)


@pytest.mark.filterwarnings("ignore:x has size")
def test_a_fold_that_diverges_ends_the_run_and_is_named():
    folds = [FOLDS[0], (X[1] * 1e15, Y[1])]
    with pytest.raises((FloatingPointError, ValueError), match=r"loss became|finite density"):
        inference.run_folds(models.linear(), folds, method="map", steps=50, learning_rate=1e10, progress=False)


def test_the_best_of_several_restarts_is_kept(tmp_path):
    model = models.mlp((3,), "tanh", likelihood=models.Gaussian(scale=0.3))
    options = dict(method="svi", restarts=3, steps=300, draws=5, progress=False)
    posterior = inference.run(model, *FOLDS[0], **options)
    losses = posterior.guide["restart_loss"]
    assert losses.shape == (3,)
    assert posterior.curves["loss"][0, -30:].mean() == pytest.approx(losses.min(), rel=1e-5)
    assert posterior.shape == (1, 5)
    durable = inference.run(model, *FOLDS[0], directory=tmp_path / "run", **options)
    np.testing.assert_array_equal(durable.draws["output.weight"], posterior.draws["output.weight"])
    looked = inference.load(tmp_path / "run")
    np.testing.assert_array_equal(looked.draws["output.weight"], posterior.draws["output.weight"])
    read = inference.resume(tmp_path / "run", progress=False)
    np.testing.assert_array_equal(read.draws["output.weight"], posterior.draws["output.weight"])
    np.testing.assert_array_equal(read.guide["restart_loss"], losses)


def _half_bad(y=None):
    """A fit that starts below 0 runs into NaN, one that starts above finds 2."""
    w = numpyro.sample("w", dist.Normal(0.0, 10.0))
    numpyro.factor("f", jnp.where(w > 0, -50 * (w - 2.0) ** 2, -30 * w + 0 * jnp.sqrt(w + 2.5)))
    numpyro.sample("y", dist.Normal(w, 1.0), obs=y)


@pytest.mark.parametrize(("count", "failed"), [(2, [True, False]), (3, [True, False, False])])  # with seed 4
def test_a_restart_that_fails_leaves_the_others(count, failed, tmp_path):
    options = dict(method="svi", restarts=count, seed=4, steps=300, draws=30, learning_rate=0.05, progress=False)
    with pytest.warns(UserWarning, match=rf"of {count} restarts 0 failed, .* the best of the others is kept"):
        posterior = inference.run(_half_bad, np.float32(2.0), directory=tmp_path / "run", **options)
    np.testing.assert_array_equal(np.isnan(posterior.guide["restart_loss"]), failed)
    assert posterior.draws["w"].mean() == pytest.approx(2, abs=0.1)
    assert posterior.shape == (1, 30)
    looked = inference.load(tmp_path / "run", _half_bad)
    np.testing.assert_array_equal(looked.draws["w"], posterior.draws["w"])
    np.testing.assert_array_equal(looked.guide["restart_loss"], posterior.guide["restart_loss"])
    assert looked.stopped == {}


def _nan_on_the_way(y=None):
    w = numpyro.sample("w", dist.Normal(0.0, 10.0))
    numpyro.factor("f", lax.stop_gradient(jnp.where((w > 2.5) & (w < 3.5), jnp.nan, 0.0)))
    numpyro.sample("y", dist.Normal(w, 0.1), obs=y)


def test_a_loss_that_was_once_not_finite_has_failed_and_its_restart_is_named():
    # Both fits pass through NaN and come out again: whether that counts must not depend on where a piece ends.
    options = dict(method="svi", restarts=2, steps=400, draws=5, learning_rate=0.05, progress=False)
    with pytest.raises(FloatingPointError, match=r"^restart 0: svi: the loss became nan at step \d+ of 400"):
        inference.run(_nan_on_the_way, np.float32(5.0), **options)


@pytest.mark.parametrize("pieces", [[10], [4, 6], [8, 2]])
@pytest.mark.parametrize(("apart", "message"), [(False, r"restart 6: .* step 7 of"), (True, r"fold 5: .* step 2 of")])
def test_which_fit_failed_does_not_depend_on_the_pieces(pieces, apart, message):
    together = Together(method=inference.SVI(steps=10), groups=1, apart=apart)
    loss = np.where(np.arange(10)[:, None] >= np.array([2, 7]), np.nan, 1.0)  # the one fails at 2, the other at 7

    def watch() -> None:
        done = 0
        for count in pieces:
            rows, done = loss[done : done + count], done + count
            together.watch({"loss": rows, "place": np.full((count, 2), [5, 6])}, done)

    with pytest.raises(FloatingPointError, match=message):
        watch()


def test_a_saved_guide_comes_back(tmp_path):
    posterior = inference.run(models.linear(), *FOLDS[0], method="svi", steps=20, draws=3, progress=False)
    posterior.save(tmp_path / "posterior.npz")
    again = inference.load(tmp_path / "posterior.npz")
    for name, values in posterior.guide.items():
        np.testing.assert_array_equal(again.guide[name], values)


@pytest.mark.parametrize("schedule", [*SCHEDULES, "user's"])
def test_schedules_are_optaxs(schedule):
    chosen = optax.exponential_decay(1.0, 50, 0.5) if schedule == "user's" else schedule
    method = inference.MAP(steps=500, schedule=chosen)
    optimiser, gradient = method.kernel().optimiser(), jax.numpy.ones(())

    def step(state, _):
        update, state = optimiser.update(gradient, state)
        return state, -update

    rates = np.asarray(jax.lax.scan(step, optimiser.init(gradient), None, 500)[1])
    assert rates.max() == pytest.approx(0.01, rel=0.02)
    last = {"constant": 0.01, "user's": 0.01 * 0.5 ** (499 / 50)}.get(schedule, 0.0)
    assert rates[-1] == pytest.approx(last, abs=2e-4)


def test_clipping_bounds_the_norm_of_a_gradient():
    gradient = {"a": np.full(3, 100.0), "b": np.full(4, -50.0)}
    method = inference.MAP(clip=2.0)
    optimiser = method.kernel().optimiser()
    _, state = optimiser.update(jax.tree.map(jax.numpy.asarray, gradient), optimiser.init(gradient))
    norm = np.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(state[1][0].mu))) / 0.1
    assert norm == pytest.approx(2.0, rel=1e-5)


def test_patience_ends_a_fit_that_has_settled_and_no_other():
    fits = {
        steps: inference.run(
            models.linear(likelihood=models.Gaussian(scale=0.3)), *FOLDS[0], method="svi", patience=200, steps=steps,
            start="random", schedule="constant", draws=5, progress=False,
        )
        for steps in (20_000, 500)
    }  # fmt: skip
    assert 400 <= fits[20_000].curves["loss"].shape[1] < 10_000
    assert fits[20_000].ended == "until"
    assert fits[20_000].curves["loss"].shape[1] % 200 == 0
    assert fits[500].curves["loss"].shape[1] == 500
    falling = 100 * np.exp(-np.arange(400) / 200)[None] + GENERATOR.normal(size=(1, 400))
    settled = lambda loss: Settled(200, steps=1000).met({}, {"loss": loss})  # noqa: E731
    assert not settled(falling)
    assert settled(GENERATOR.normal(size=(1, 400)))
    assert not settled(np.stack([falling[0], GENERATOR.normal(size=400)]))  # all must have
    broken = np.where(np.arange(400) > 300, np.nan, falling)
    assert settled(np.concatenate([broken, GENERATOR.normal(size=(1, 400))]))  # but those that have failed


def test_a_loss_that_is_not_finite_stops_at_its_step_and_says_what_to_try():
    with pytest.raises(FloatingPointError, match=r"at step \d+ of 3000 with learning_rate=1e\+20; try .*clip=10"):
        inference.run(
            models.linear(likelihood=models.Gaussian(scale=0.3)), *FOLDS[0], method="svi", steps=3000,
            learning_rate=1e20, progress=False,
        )  # fmt: skip


def test_the_share_of_noise_in_the_gradient_is_near_one_when_there_is_nothing_left_to_follow():
    posterior = inference.run(
        models.linear(likelihood=models.Gaussian(scale=0.3)), *FOLDS[0], method="svi", start="random",
        steps=2000, draws=2, progress=False,
    )  # fmt: skip
    noise = posterior.curves["gradient_noise"][0]
    assert noise[:5].mean() < 0.3
    assert noise[-400:].mean() > 0.8
