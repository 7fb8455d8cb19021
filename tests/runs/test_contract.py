"""What every method promises, checked for each of them on one small network."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import inference
import models
from inference.host.arviz import group_names

MODEL = models.mlp(hidden=(4,), activation="tanh")
SHAPES = {"hidden0.bias": (4,), "hidden0.weight": (2, 4), "noise": (), "output.bias": (1,), "output.weight": (4, 1)}
OPTIONS = {
    "mle": {"steps": 30},
    "map": {"steps": 30, "batch_size": 8},
    "laplace": {"steps": 30, "draws": 6, "batch_size": 8, "hyperparameters": "given"},
    "ensemble": {"chains": 3, "steps": 30},
    "svi": {"steps": 30, "draws": 6, "particles": 2, "batch_size": 8},
    "sgld": {"chains": 2, "draws": 6, "warmup": 10, "thin": 2, "batch_size": 8, "tuning": 20},
    "sghmc": {"chains": 2, "draws": 6, "warmup": 10, "schedule": "cyclical", "cycles": 2, "step_size": 1e-4},
    "hmc": {"chains": 2, "draws": 6, "warmup": 3, "tuning": 60},
    "nuts": {"chains": 2, "draws": 6, "warmup": 10, "max_tree_depth": 4},
    "mclmc": {"chains": 2, "draws": 6, "warmup": 200, "thin": 2},
    "mclmc, adjusted": {"chains": 2, "draws": 6, "warmup": 40, "adjusted": True},
}
DRAWS = {
    "mle": (1, 1),
    "map": (1, 1),
    "laplace": (1, 6),
    "ensemble": (3, 1),
    "svi": (1, 6),
    "sgld": (2, 6),
    "sghmc": (2, 6),
    "hmc": (2, 6),
    "nuts": (2, 6),
    "mclmc": (2, 6),
    "mclmc, adjusted": (2, 6),
}


@pytest.fixture(scope="module", params=list(OPTIONS))  # so all tests of one method follow each other
def method(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def posterior(method) -> inference.Posterior:
    return _run(method)


def _name(method: str) -> str:
    return method.partition(",")[0]


def _data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(30, 2))
    return x, np.sin(x[:, 0]) + 0.1 * generator.normal(size=30)


def _run(method: str, seed: int = 0, rows: int = 0) -> inference.Posterior:
    return inference.run(MODEL, *_data(rows), method=_name(method), seed=seed, progress=False, **OPTIONS[method])


def test_every_method_has_a_row_here():
    assert set(OPTIONS) == set(DRAWS)
    assert {_name(method) for method in OPTIONS} == set(inference.METHODS)


def test_record(method, posterior):
    assert posterior.shape == DRAWS[method]
    assert {name: values.shape[2:] for name, values in posterior.draws.items()} == SHAPES
    assert all(np.isfinite(values).all() for values in posterior.draws.values())
    assert all(np.isfinite(values).all() for values in posterior.statistics.values())
    assert not posterior.partial
    assert posterior.cost.gradients > 0
    assert posterior.cost.compile_seconds > 0
    assert posterior.cost.run_seconds > 0
    assert posterior.cost.peak_memory > 2**20


def test_inference_data(method, posterior):
    idata = posterior.idata
    assert set(group_names(idata)) == {"posterior", "sample_stats", "observed_data"}
    chains, draws = DRAWS[method]
    for name, shape in SHAPES.items():
        variable = idata.posterior[name]
        assert variable.dims[:2] == ("chain", "draw")
        assert variable.shape == (chains, draws, *shape)
    assert list(idata.posterior.coords["chain"]) == list(range(chains))
    assert list(idata.posterior.coords["draw"]) == list(range(draws))
    assert idata.sample_stats["lp"].dims == ("chain", "draw")
    assert idata.observed_data["y"].shape == (30,)
    np.testing.assert_array_equal(idata.observed_data["y"], _data()[1].astype(np.float32))
    assert idata.posterior.attrs["method"] == _name(method)


def test_same_seed_same_bits_other_seed_other_draws(method):
    first, again, other = _run(method, seed=3), _run(method, seed=3), _run(method, seed=4)
    for name in SHAPES:
        assert first.draws[name].tobytes() == again.draws[name].tobytes()
        assert not np.array_equal(first.draws[name], other.draws[name])


@pytest.mark.filterwarnings("ignore:hmc. chain . accepted less than")  # as its warm-up is so short
def test_second_call_with_other_data_and_temperature_makes_no_program(method, counted):
    options = dict(method=_name(method), tempering="likelihood", progress=False, **OPTIONS[method])
    with pytest.warns(UserWarning, match="ignores the temperature") if method == "mle" else nullcontext():
        first = inference.run(MODEL, *(array[:29] for array in _data()), temperature=0.5, **options)
    assert counted("lower") > 0  # 29 rows are new, so this one had to
    before = counted("lower"), counted("compile")
    other = tuple(array[:29] for array in _data(1))
    second = inference.run(models.mlp(hidden=(4,), activation="tanh"), *other, seed=9, **options)
    assert (counted("lower"), counted("compile")) == before
    assert first.shape == second.shape
    assert [(each.temperature, each.tempering) for each in (first, second)] == [
        (0.5, "likelihood"),
        (1.0, "likelihood"),
    ]


def test_prediction(method, posterior):
    prediction = posterior.predict(_data(2)[0])
    assert prediction.outputs.shape == (*DRAWS[method], 30, 1)
    for name in ("mean", "std", "epistemic", "aleatoric", "total"):
        value = getattr(prediction, name)
        assert value.shape == (30,)
        assert np.isfinite(value).all()
    np.testing.assert_allclose(prediction.total, prediction.epistemic + prediction.aleatoric)
    assert (prediction.epistemic == 0).all() == (DRAWS[method] == (1, 1))
    assert prediction.log_prob(_data(2)[1]).shape == (30,)
    assert prediction.sample(0).shape == (*DRAWS[method], 30)


def test_save_and_load(posterior, tmp_path):
    posterior.save(tmp_path / "p.npz")
    loaded = inference.load(tmp_path / "p.npz")
    assert loaded.model == MODEL
    assert loaded.method == posterior.method
    assert loaded.cost == posterior.cost
    assert loaded.seed == posterior.seed
    for group in ("draws", "statistics", "curves", "observed"):
        stored, original = getattr(loaded, group), getattr(posterior, group)
        assert list(stored) == list(original)
        assert all(stored[name].tobytes() == original[name].tobytes() for name in original)
    x = _data(2)[0]
    np.testing.assert_array_equal(loaded.predict(x).outputs, posterior.predict(x).outputs)


def test_any_model_of_the_users(method):
    import numpyro
    import numpyro.distributions as dist

    options = {key: value for key, value in OPTIONS[method].items() if key != "batch_size"}

    def model(scale, y=None):
        level = numpyro.sample("level", dist.Normal(0, 10))
        numpyro.sample("other", dist.Normal(0, 1))  # a direction needs two unknowns
        numpyro.deterministic("ratio", level / scale)
        with numpyro.plate("rows", 5):
            numpyro.sample("y", dist.Normal(level, scale), obs=y)

    posterior = inference.run(model, 1.0, np.arange(5.0), method=_name(method), progress=False, **options)
    np.testing.assert_allclose(posterior.draws["ratio"], posterior.draws["level"], rtol=1e-6)
    sites = posterior.predict(4.0)
    assert set(sites) == {"y", "ratio"}
    assert sites["y"].shape == (*DRAWS[method], 5)
    np.testing.assert_allclose(sites["ratio"], posterior.draws["level"] / 4, rtol=1e-6)  # anew, not as it was drawn
