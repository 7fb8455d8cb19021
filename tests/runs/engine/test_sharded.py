"""Chains and rows over several devices: the same draws on any number of them, and all rows count once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import inference
import models
from inference.engine.sharded import mesh_of
from inference.target.binding import bind
from inference.target.density import Data
from inference.target.row_shards import ROWS, spread

ROOT = Path(__file__).parents[3]
X = np.random.default_rng(0).normal(size=(37, 3)).astype(np.float32)
OUTPUTS = np.sin(X[:, :2])
CASES = {
    "learned noise": (models.mlp((4,), "tanh"), OUTPUTS[:, 0]),
    "two outputs": (models.mlp((4,), "tanh", likelihood=models.Gaussian(outputs=2)), OUTPUTS),
    "heteroscedastic": (models.mlp((4,), "tanh", likelihood=models.HeteroscedasticGaussian()), OUTPUTS[:, 0]),
    "classes": (models.mlp((4,), "tanh", likelihood=models.Categorical(3)), np.arange(37) % 3),
}


@pytest.mark.parametrize(("block", "slots"), [(0, 16), (1, 4), (0, 64)])
@pytest.mark.parametrize(("model", "y"), CASES.values(), ids=CASES)
def test_rows_in_slots_have_the_density_of_all_rows(model, y, block, slots):
    # 37 rows fill no number of slots, and 64 slots are more than there are rows.
    with jax.enable_x64(True):
        target, data = bind(model, (X, y), 0.7, "likelihood")[:2]
        position, _ = target.start(jax.random.key(1), data)
        expected = jax.jit(jax.value_and_grad(target.log_density))(position, data)
        parts = spread(data, block, slots)
        assert parts.counts.sum() == 37
        mesh = mesh_of(jax.devices()[:1], 1, True)
        specs = PartitionSpec(), Data(PartitionSpec(ROWS), PartitionSpec(), PartitionSpec(ROWS))
        over = partial(jax.shard_map, mesh=mesh, in_specs=specs, out_specs=PartitionSpec(), check_vma=False)
        found = jax.jit(over(jax.value_and_grad(target.log_density)))(position, parts)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-10), found, expected)


@pytest.mark.parametrize(
    ("devices", "chains", "in_rows", "shape"),
    [
        (1, 4, True, (1, 1)),
        (2, 4, True, (2, 1)),
        (8, 4, True, (4, 2)),
        (8, 1, True, (1, 8)),
        (8, 3, True, (2, 4)),
        (6, 1, True, (1, 4)),  # rows are shared by a power of two of devices
        (8, 3, False, (3, 1)),
        (8, 12, False, (8, 1)),
    ],
)
def test_devices_are_for_chains_first_and_then_for_rows(devices, chains, in_rows, shape):
    places = [SimpleNamespace(id=i, platform="cpu", process_index=0) for i in range(devices)]
    assert np.shape(_shape(places, chains, in_rows)) == shape


@pytest.mark.parametrize(
    ("hosts", "each", "chains", "in_rows", "shape"),
    [
        (2, 1, 1, True, (1, 2)),
        (2, 1, 1, False, (1, 2)),  # both compute the same, as each needs to know it
        (2, 4, 3, False, (2, 4)),
        (4, 4, 3, True, (2, 8)),
        (3, 1, 4, True, (3, 1)),
    ],
)
def test_every_host_has_devices_in_the_mesh(hosts, each, chains, in_rows, shape):
    places = [SimpleNamespace(id=i, platform="cpu", process_index=i // each) for i in range(hosts * each)]
    assert np.shape(_shape(places, chains, in_rows)) == shape


def test_a_number_of_hosts_that_leaves_one_without_work_is_refused():
    places = [SimpleNamespace(id=i, platform="cpu", process_index=i) for i in range(3)]
    with pytest.raises(ValueError, match="2 chains can't be dealt out so that 3 hosts"):
        _shape(places, 2, True)


def _shape(places, chains, in_rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inference.engine.sharded.Mesh", lambda devices, names: devices)
        return mesh_of(places, chains, in_rows)


_ON_DEVICES = """
import hashlib, json, sys, warnings
import jax
import numpy as np
import inference, models

warnings.simplefilter("ignore")
generator = np.random.default_rng(0)
x = generator.normal(size=(203, 3)).astype(np.float32)
images = generator.normal(size=(37, 8, 8, 3)).astype(np.float32)
networks = {
    "mlp": (models.mlp((6,), "tanh"), x, np.sin(x[:, 0])),
    "resnet20_frn": (models.resnet20_frn(8, 2, likelihood=models.Categorical(3)), images, np.arange(37) % 3),
}
for options in json.loads(sys.argv[1]):
    data = networks[options.pop("network", "mlp")]
    posterior = inference.run(*data, progress=False, start="random", arrangement="sharded", **options)
    content = b"".join(values.tobytes() for values in posterior.draws.values())
    print(json.dumps([len(jax.devices()), hashlib.sha256(content).hexdigest(), posterior.cost.arranged,
                      posterior.statistics["lp"][0].tolist()]))
"""
HMC = dict(method="hmc", chains=2, draws=3, warmup=2, step_size=0.01, trajectory_length=0.05)
OTHERS = [
    dict(method="nuts", chains=2, draws=4, warmup=4, max_tree_depth=3),
    dict(method="mclmc", chains=2, draws=4, warmup=40, adjusted=True),
    dict(method="sgld", chains=2, draws=4, warmup=8, thin=2, step_size=1e-4),
    dict(method="sgld", chains=2, draws=4, warmup=8, thin=2, step_size=1e-4, batch_size=16),
]


def _on(count: int, *options: dict) -> list[list]:
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={count}", "PYTHONPATH": str(ROOT)}
    output = subprocess.run(
        [sys.executable, "-c", _ON_DEVICES, json.dumps(options)],
        env={**os.environ, **flags}, timeout=300, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    lines = [json.loads(line) for line in output.splitlines()]
    assert {devices for devices, *_ in lines} == {count}
    return lines


def test_hmc_has_the_same_bits_on_1_2_and_8_devices():
    # What a machine has is set before JAX starts, so each number needs a process of its own.
    (two,), (eight,), (one,) = _on(2, HMC), _on(8, HMC), _on(1, HMC)
    assert "2 x 1 devices" in two[2]
    assert "2 x 4 devices" in eight[2]
    assert one[1] == two[1] == eight[1]


@pytest.mark.validation
def test_other_samplers_make_the_same_draws_on_1_2_and_8_devices():
    # SGLD's temperature is that of its draws: a gradient that is counted once per device would change them all.
    for two, eight, one in zip(_on(2, *OTHERS), _on(8, *OTHERS), _on(1, *OTHERS), strict=True):
        np.testing.assert_allclose(eight[3], two[3], rtol=1e-4)
        np.testing.assert_allclose(one[3], two[3], rtol=1e-4)


@pytest.mark.validation
def test_a_residual_network_has_the_same_draws_on_1_2_and_8_devices():
    # 37 images fill neither 16 slots nor 2 devices, and a normalisation looks at each of them alone.
    options = {**HMC, "chains": 1, "network": "resnet20_frn", "step_size": 1e-3, "trajectory_length": 5e-3}
    (one,), (two,), (eight,) = _on(1, options), _on(2, options), _on(8, options)
    assert "1 x 8 devices" in eight[2]
    assert one[1] == two[1] == eight[1]


def test_pieces_change_nothing(conjugate, at_pace):
    options = dict(
        method="hmc", chains=2, draws=6, warmup=3, step_size=0.05, trajectory_length=0.5, start="random",
        arrangement="sharded",
    )  # fmt: skip
    whole = conjugate.run(**options)
    at_pace(piece_seconds=1e-9)
    pieces = conjugate.run(**options)
    for name in whole.draws:
        np.testing.assert_array_equal(whole.draws[name], pieces.draws[name])
    threads = conjugate.run(**{**options, "arrangement": "threads"})
    assert jnp.isfinite(threads.draws["output.bias"]).all()
    np.testing.assert_allclose(whole.draws["output.bias"][:, 0], threads.draws["output.bias"][:, 0], atol=1e-3)
    assert inference.HMC(arrangement="sharded").arrangement == "sharded"
