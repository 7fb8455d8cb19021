"""Wrong input gets an error that names the argument, what was expected, what came and what to do; nothing compiles."""

from __future__ import annotations

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import data
import inference
import models

X = np.linspace(-1, 1, 12).reshape(6, 2)
Y = np.linspace(0, 1, 6)
LABELS = np.array([0, 1, 2, 0, 1, 2])
MLP = models.mlp(hidden=(3,))
CLASSIFIER = models.mlp(hidden=(3,), likelihood=models.Categorical(3))


def _with(array, index, value):
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


BAD_DATA = {
    "nan in x": (MLP, (_with(X, (4, 1), np.nan), Y), ValueError, r"x must be finite, got NaN at row 4, column 1"),
    "infinity in x": (MLP, (_with(X, (2, 0), np.inf), Y), ValueError, r"x must be finite, got infinity at row 2"),
    "nan in y": (MLP, (X, _with(Y, 3, np.nan)), ValueError, r"y must be finite, got NaN at row 3 \(1 of 6 rows"),
    "infinity in y": (MLP, (X, _with(Y, 5, -np.inf)), ValueError, r"y must be finite, got infinity at row 5"),
    "lengths": (MLP, (X, Y[:5]), ValueError, r"as many rows, got 6 in x and 5 in y"),
    "no rows": (MLP, (X[:0], Y[:0]), ValueError, r"at least one row, got shape \(0, 2\)"),
    "one-dimensional x": (MLP, (X[:, 0], Y), ValueError, r"shape \(n, inputs\), got \(6,\).*reshape\(-1, 1\)"),
    "images": (MLP, (np.zeros((6, 4, 4)), Y), ValueError, r"got \(6, 4, 4\); flatten"),
    "text in x": (MLP, (np.full((6, 2), "a"), Y), TypeError, r"x must hold real numbers, got dtype <U1"),
    "objects in x": (MLP, (np.full((6, 2), None), Y), TypeError, r"x must hold real numbers, got dtype object"),
    "ragged x": (MLP, ([[1.0, 2.0], [3.0]], Y[:2]), TypeError, r"rows of equal length"),
    "complex x": (MLP, (X + 1j, Y), TypeError, r"x must hold real numbers, got dtype complex128"),
    "column y": (MLP, (X, Y[:, None]), ValueError, r"y must have shape \(n,\).*got \(6, 1\); use y.ravel\(\)"),
    "two targets": (MLP, (X, np.zeros((6, 2))), ValueError, r"with 1 output, got \(6, 2\)"),
    "one target for two": (
        models.mlp((3,), likelihood=models.Gaussian(outputs=2)), (X, Y), ValueError, r"shape \(n, 2\).*got \(6,\)"
    ),
    "label too large": (CLASSIFIER, (X, LABELS + 1), ValueError, r"labels 0 to 2 for 3 classes, got 3 at row 2"),
    "negative label": (CLASSIFIER, (X, LABELS - 1), ValueError, r"got -1 at row 0"),
    "float labels": (CLASSIFIER, (X, LABELS.astype(float)), TypeError, r"integer labels.*float64; use y.astype\(int\)"),
    "label 2 for two classes": (models.logistic(2), (X, LABELS), ValueError, r"labels 0 to 1 for 2 classes, got 2"),
    "no y": (MLP, (X,), ValueError, r"needs observations: call run\(model, x, y"),
    "y is None": (MLP, (X, None), ValueError, r"needs observations.*y=None"),
    "one-hot labels": (CLASSIFIER, (X, np.eye(3, dtype=int)[LABELS]), ValueError, r"one-hot rows y.argmax\(axis=1\)"),
    "huge y": (MLP, (X, Y * 1e39), ValueError, r"y has values up to 1e\+39, too large for float32; standardise"),
    "not a model": ("mlp", (X, Y), TypeError, r"model must be a NumPyro model.*got str"),
    "rule for nothing": (models.mlp((3,), prior={"hidden7": 1.0, "default": 1.0}), (X, Y), ValueError, r"'hidden7'"),
    "no rule": (models.mlp((3,), prior={"bias": 1.0}), (X, Y), ValueError, r"no rule for the site 'hidden0.weight'"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_DATA)
@pytest.mark.parametrize("method", ["map", "svi", "nuts"])  # one of each kind: data are checked before a method is
def test_bad_data(case, method, counted):
    model, args, error, message = BAD_DATA[case]
    with pytest.raises(error, match=message):
        inference.run(model, *args, method=method, progress=False)
    assert counted("compile") == 0


BAD_CALLS = {
    "unknown method": ({"method": "nutz"}, ValueError, r"'nutz'; did you mean 'nuts'"),
    "method of a wrong type": ({"method": 3}, TypeError, r"method must be a name or a record.*int"),
    "option of another": ({"steps": 10}, ValueError, r"'steps' is not an option of nuts; .* of mle, map, laplace, ens"),
    "unknown option": ({"warmups": 10}, ValueError, r"'warmups' is not an option of nuts; nuts takes .*warmup"),
    "options beside a record": ({"method": inference.NUTS(), "draws": 5}, ValueError, r"'draws' must be set on it"),
    "no chains": ({"chains": 0}, ValueError, r"nuts: chains must be at least 1, got 0"),
    "negative draws": ({"draws": -5}, ValueError, r"nuts: draws must be at least 1, got -5"),
    "fractional draws": ({"draws": 2.5}, TypeError, r"nuts: draws must be an integer.*float 2.5"),
    "boolean draws": ({"draws": True}, TypeError, r"nuts: draws must be an integer.*bool True"),
    "negative warmup": ({"warmup": -1}, ValueError, r"nuts: warmup must be at least 0"),
    "no thinning": ({"thin": 0}, ValueError, r"nuts: thin must be at least 1"),
    "zero step size": ({"step_size": 0.0}, ValueError, r"nuts: step_size must be a finite number above 0, got 0.0"),
    "certain acceptance": ({"target_acceptance": 1.0}, ValueError, r"target_acceptance must be below 1"),
    "no steps": ({"method": "map", "steps": 0}, ValueError, r"map: steps must be at least 1, got 0"),
    "negative rate": ({"method": "svi", "learning_rate": -1.0}, ValueError, r"svi: learning_rate must be a finite"),
    "large batch": ({"method": "svi", "batch_size": 7}, ValueError, r"at most the number of rows, 6, got 7"),
    "no batch": ({"method": "map", "batch_size": 0}, ValueError, r"map: batch_size must be at least 1"),
    "unknown guide": ({"method": "svi", "guide": "gausian"}, ValueError, r"'gausian'; did you mean 'gaussian'"),
    "zero temperature": ({"temperature": 0}, ValueError, r"temperature must be a finite number above 0, got 0"),
    "cold beyond float32": ({"temperature": 1e-50}, ValueError, r"temperature must be a number that float32 can hold"),
    "hot beyond float32": ({"temperature": 1e40}, ValueError, r"temperature must be a number that float32 can hold"),
    "infinite temperature": ({"temperature": np.inf}, ValueError, r"temperature must be a finite number above 0"),
    "unknown tempering": ({"tempering": "prior"}, ValueError, r"tempering must be one of 'posterior', 'likelihood'"),
    "microcanonical step": ({"method": "mclmc", "step_size": -1.0}, ValueError, r"mclmc: step_size must be a finite"),
    "step beyond the length": (
        {"method": "mclmc", "step_size": 2.0, "trajectory_length": 1.0}, ValueError, r"at most trajectory_length, 1.0"
    ),
    "length in words": ({"method": "mclmc", "trajectory_length": "auto"}, TypeError, r"trajectory_length must be"),
    "adjusted in words": ({"method": "mclmc", "adjusted": "yes"}, TypeError, r"adjusted must be True or False"),
    "no energy variance": ({"method": "mclmc", "energy_variance": 0}, ValueError, r"energy_variance must be a finite"),
    "unknown mass": ({"method": "mclmc", "mass": "diag"}, ValueError, r"mclmc: mass must be one of .* mean 'diagonal'"),
    "no time to adapt": ({"method": "mclmc", "warmup": 10}, ValueError, r"mclmc: warmup, which finds .* at least 40"),
    "data by name": ({"x": X}, ValueError, r"'x' is not an option of nuts; data are given by position"),
    "negative seed": ({"seed": -1}, ValueError, r"seed must be 0 to 2\^32 - 1.*got -1"),
    "large seed": ({"seed": 2**32}, ValueError, r"seed must be 0 to 2\^32 - 1.*got 4294967296"),
    "float seed": ({"seed": 0.5}, TypeError, r"seed must be an integer or one typed key.*float"),
    "old key": ({"seed": np.array([0, 1], np.uint32)}, TypeError, r"seed must be an integer or one typed key"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_calls(case, counted):
    options, error, message = BAD_CALLS[case]
    with pytest.raises(error, match=message):
        inference.run(MLP, X, Y, progress=False, **options)
    assert counted("compile") == 0


BAD_PARTS = {
    "zero scale": (lambda: models.Normal(0.0), ValueError, r"Normal: scale must be a finite number above 0, got 0.0"),
    "scale in words": (lambda: models.Normal("wide"), TypeError, r"Normal: scale must be a number above 0, got str"),
    "negative noise": (lambda: models.Gaussian(scale=-1.0), ValueError, r"Gaussian: scale must be .* got -1.0"),
    "no outputs": (lambda: models.Gaussian(outputs=0), ValueError, r"Gaussian: outputs must be at least 1, got 0"),
    "noise on the line": (lambda: models.Gaussian(prior=dist.Normal(0, 1)), ValueError, r"on positive numbers"),
    "one class": (lambda: models.Categorical(1), ValueError, r"Categorical: classes must be at least 2, got 1"),
    "no units": (lambda: models.mlp((5, 0)), ValueError, r"hidden: the units of a layer must be at least 1, got 0"),
    "unknown activation": (lambda: models.mlp(activation="rely"), ValueError, r"activation .*did you mean 'relu'"),
    "discrete prior": (lambda: models.mlp(prior=dist.Poisson(1.0)), ValueError, r"continuous, got Poisson"),
    "vector prior": (lambda: models.mlp(prior=dist.Normal(np.zeros(2), 1)), ValueError, r"univariate, got Normal"),
    "prior of a wrong type": (lambda: models.mlp(prior="normal"), TypeError, r"prior must be .*got str"),
    "likelihood in words": (lambda: models.mlp(likelihood="gaussian"), TypeError, r"likelihood must be .*got str"),
    "unknown data": (lambda: data.load("diabetis"), ValueError, r"'diabetis'; did you mean 'diabetes'"),
    "option of a toy": (lambda: data.load("gap", rows=5), ValueError, r"no option 'rows'; it takes n, seed"),
    "nan in a data set": (
        lambda: data.Dataset("d", X, _with(Y, 3, np.nan)),
        ValueError,
        r"'d': y must be finite, row 3",
    ),
    "text in a data set": (lambda: data.Dataset("d", np.full((2, 1), "a"), Y[:2]), TypeError, r"'d': x must hold real"),
    "test fraction": (lambda: data.load("gap").split(test=1.5), ValueError, r"test must be a fraction.*got 1.5"),
}


@pytest.mark.parametrize("case", BAD_PARTS)
def test_bad_parts(case):
    make, error, message = BAD_PARTS[case]
    with pytest.raises(error, match=message):
        make()


def _no_observations(x):
    numpyro.sample("w", dist.Normal(0, 1))


def _nothing_to_infer(y):
    numpyro.sample("y", dist.Normal(0, 1).expand((6,)).to_event(1), obs=y)


def _discrete(y):
    k = numpyro.sample("k", dist.Poisson(2.0))
    numpyro.sample("y", dist.Normal(k, 1).expand((6,)).to_event(1), obs=y)


def _slash(y):
    w = numpyro.sample("layer/w", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(w, 1).expand((6,)).to_event(1), obs=y)


def _positive(y):
    rate = numpyro.sample("rate", dist.Exponential(1.0))
    with numpyro.plate("rows", 6):
        numpyro.sample("y", dist.Exponential(rate), obs=y)


def _param(y):
    mu = numpyro.param("mu", 0.0)
    s = numpyro.sample("s", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(mu, s).expand((6,)).to_event(1), obs=y)


def _reserved(y):
    w = numpyro.sample("chain", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(w, 1).expand((6,)).to_event(1), obs=y)


def _plain(y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(w, 1).expand((6,)).to_event(1), obs=y)


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (_no_observations, Y, r"the model has no observations: give at least one sample site obs"),
        (_nothing_to_infer, Y, r"nothing to infer"),
        (_discrete, Y, r"the latent site 'k' is discrete \(Poisson\)"),
        (_param, Y, r"'mu' is a param without a prior"),
        (_reserved, Y, r"the site 'chain' has the name of a dimension"),
        (_slash, Y, r"the site 'layer/w' has a '/'"),
        (_positive, Y - 0.5, r"observed at site 'y' must be in its support, Positive.*got -0.5 at index \(0,\)"),
        (_plain, _with(Y, 2, np.nan), r"observed at site 'y' must be finite, got NaN at row 2"),
    ],
)
def test_bad_models(model, y, message, counted):
    with pytest.raises(ValueError, match=message):
        inference.run(model, y, progress=False)
    assert counted("compile") == 0


def test_arguments_that_are_neither_arrays_nor_values():
    with pytest.raises(TypeError, match=r"an argument of the model is a set, which is neither an array"):
        inference.run(lambda y, s: _plain(y), Y, {1, 2}, progress=False)
    with pytest.raises(TypeError, match=r"of dtype <U1; encode it as numbers"):
        inference.run(lambda y, s: _plain(y), Y, np.array(["a"]), progress=False)


def test_batches_need_a_network():
    with pytest.raises(ValueError, match=r"batch_size needs a network"):
        inference.run(_plain, Y, method="map", batch_size=2, progress=False)


def test_a_lifted_flax_module_is_refused_for_what_it_is():
    linen = pytest.importorskip("flax.linen", reason="needs the extra flax")
    from numpyro.contrib.module import random_flax_module

    def model(x, y=None):
        net = random_flax_module("net", linen.Dense(1), prior=dist.Normal(0, 1), input_shape=(1, 2))
        numpyro.sample("y", dist.Normal(net(x)[:, 0], 1.0), obs=y)

    with pytest.raises(ValueError, match=r"'net\$params' is the template of a module.*module.apply"):
        inference.run(model, np.zeros((6, 2), np.float32), Y, method="nuts", progress=False)


def test_a_discrete_site_is_called_by_its_own_name():
    def model(y=None):
        coins = numpyro.sample("coins", dist.Bernoulli(0.5).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(coins.sum(), 1.0), obs=y)

    with pytest.raises(ValueError, match=r"the latent site 'coins' is discrete \(BernoulliProbs\)"):
        inference.run(model, np.float32(1.0), method="nuts", progress=False)
