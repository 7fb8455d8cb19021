"""Every method on every kind of network, in both precisions: it runs, predicts and can be saved."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest
from flax import nnx

import diagnostics
import inference
import models

GENERATOR = np.random.default_rng(0)
IMAGES = GENERATOR.normal(size=(24, 8, 8, 1))
TOKENS = GENERATOR.integers(0, 12, size=(24, 16))
ROWS = GENERATOR.normal(size=(24, 3))
LABELS = np.arange(24) % 3
CLASSES = models.Categorical(3)


class Small(nnx.Module):
    """A convolutional network of the user's own."""

    def __init__(self):
        rngs = nnx.Rngs(0)
        self.conv, self.norm = nnx.Conv(1, 3, (3, 3), rngs=rngs), nnx.LayerNorm(3, rngs=rngs)
        self.output = nnx.Linear(3, 3, rngs=rngs)

    def __call__(self, x):
        return self.output(nnx.silu(self.norm(self.conv(x))).mean(axis=(1, 2)))


NETWORKS = {
    "lenet": (models.lenet((2,), (4,), 3, "tanh", likelihood=CLASSES), IMAGES),
    "resnet20_frn": (models.resnet20_frn(8, 2, likelihood=CLASSES), IMAGES),
    "cnn_lstm": (models.cnn_lstm(12, 4, 3, 3, 2, 4, likelihood=CLASSES), TOKENS),
    "from_flax": (models.from_flax(Small(), likelihood=CLASSES), IMAGES),
    "from_equinox": (
        models.from_equinox(eqx.nn.MLP(3, 3, 4, 1, activation=jax.nn.silu, key=jax.random.key(0)), likelihood=CLASSES),
        ROWS,
    ),
}
METHODS = {
    "mle": dict(method="mle", steps=10),
    "map": dict(method="map", steps=10, batch_size=8),
    "ensemble": dict(method="ensemble", steps=10, chains=2),
    "svi": dict(method="svi", steps=10, draws=3),
    "flipout": dict(method="svi", steps=10, draws=3, estimator="flipout"),
    "lowrank": dict(method="svi", guide="lowrank", steps=10, draws=3),
    "dropout": dict(method="svi", guide="dropout", steps=10, draws=3),
    "last layer": dict(method="laplace", structure="last_layer", steps=10, draws=3),
    "diagonal": dict(method="laplace", structure="diagonal", steps=10, draws=3),
    "sgld": dict(method="sgld", chains=1, draws=2, warmup=20, thin=2, batch_size=8),
    "sghmc": dict(method="sghmc", chains=1, draws=2, warmup=20, thin=2, batch_size=8),
    "hmc": dict(method="hmc", chains=1, draws=2, warmup=2, tuning=10, trajectory_length=0.1),
    "nuts": dict(method="nuts", chains=1, draws=2, warmup=2, max_tree_depth=2),
    "mclmc": dict(method="mclmc", chains=1, draws=2, warmup=40, thin=2),
    "a part": dict(method="hmc", chains=1, draws=2, warmup=2, tuning=10, trajectory_length=0.1, stochastic="bias"),
}
BY_ROW, LIFTED = ("flipout", "dropout"), ("from_flax", "from_equinox")


@pytest.mark.validation
@pytest.mark.filterwarnings("ignore::inference.TouchstoneWarning")
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("method", METHODS)
def test_it_runs_predicts_and_is_saved(tmp_path, method, network, precision):
    model, x = NETWORKS[network]
    run = lambda: inference.run(model, x, LABELS, precision=precision, progress=False, **METHODS[method])  # noqa: E731
    if (method == "last layer" and network in LIFTED) or (method in BY_ROW and network == "from_equinox"):
        with pytest.raises(ValueError, match=r"is not known|this one has none"):
            run()
        return
    posterior = run()
    probabilities = posterior.predict(x).probs
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1, rtol=1e-5)
    assert {values.dtype.name for values in posterior.draws.values()} == {precision}
    posterior.save(tmp_path / "p.npz")
    loaded = inference.load(tmp_path / "p.npz", posterior.model if network in LIFTED else None)
    np.testing.assert_array_equal(loaded.predict(x).probs, probabilities)
    assert str(diagnostics.convergence(loaded))
