"""How long until the functions can be believed, from a cold process and from a warm one, against NumPyro's NUTS?

Six problems: regression and classification, one and two hidden layers, tanh and relu, strong and weak data, noise known
and inferred, a hierarchical prior. Ours stop by themselves, `until={"ess": 400, "rhat": 1.01}` over the functions at 30
inputs and more: HMC with its defaults, NUTS and MCLMC with the scales of its pilot. NumPyro's NUTS runs as its users
run it, 1,000 + 1,000 iterations of four parallel chains. Each runs in a process of its own with an empty compilation
cache: seconds from the process's start (imports, compilation, starts, tuning, warm-up, draws), then those of a second
run in the same process. The least bulk or tail ESS and the largest R-hat are those of the functions at 30 inputs, for
all alike. Goals: at least 3 times NumPyro's speed on every problem, 5 in the median, 5 from a warm process.

    python -m benchmarks.verdict --problems diabetes "breast cancer" --methods hmc
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import data
import models
from benchmarks.timing import table

__all__ = ["OPTIONS", "PROBLEMS", "main", "problem"]

_DRAWS = 8000  # per chain, at most
_PEER = "NumPyro, nuts"
_INPUTS = 30

PROBLEMS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "diabetes": ("diabetes", {}, models.mlp((50,), "tanh", likelihood=models.Gaussian(scale=0.7))),
    "diabetes, noise": ("diabetes", {}, models.mlp((20,), "relu", models.Normal(1.0, fan_in=True))),
    "breast cancer": ("breast_cancer", {}, models.mlp((20,), "relu", likelihood=models.Bernoulli())),
    "wine, two layers": ("wine_cultivars", {}, models.mlp((20, 20), "tanh", likelihood=models.Categorical(3))),
    "line, strong data": ("linear", {"n": 1000, "inputs": 5, "seed": 0}, models.mlp((10,), "tanh")),
    "gap, hierarchical": ("gap", {}, models.mlp((10, 10), "tanh", models.Hierarchical())),
}
"""A data set, its options and a network for each problem."""

OPTIONS: dict[str, dict[str, Any]] = {
    "nuts": {"mass": "tuned", "warmup": 100},
    "mclmc": {"mass": "tuned", "warmup": 5000, "thin": 20},
}
"""Options of methods whose defaults are not made for the shortest time; HMC's are."""

_OURS = """
import json, sys, time
import inference
from benchmarks import verdict
model, train, inputs = verdict.problem(sys.argv[1])
options = {"draws": int(sys.argv[4]), "until": {"ess": 400, "rhat": 1.01}, "progress": False}
options |= verdict.OPTIONS.get(sys.argv[2], {})
run = lambda seed: inference.run(model, train, method=sys.argv[2], seed=seed, **options)
posterior = run(0)
cold = time.time() - float(sys.argv[3])
began = time.time()
again = run(1)
warm = time.time() - began
draws, ended = posterior.draws, posterior.ended
"""
_NUMPYRO = """
import json, sys, time
import numpyro
numpyro.set_host_device_count(4)
import jax
import numpy as np
from numpyro.infer import MCMC, NUTS
from benchmarks import verdict
model, train, inputs = verdict.problem(sys.argv[1])
mcmc = MCMC(NUTS(model), num_warmup=1000, num_samples=1000, num_chains=4, progress_bar=False)
mcmc.run(jax.random.key(0), train.x, train.y)
draws = {name: np.asarray(values) for name, values in mcmc.get_samples(group_by_chain=True).items()}
cold = time.time() - float(sys.argv[3])
began = time.time()
mcmc.run(jax.random.key(1), train.x, train.y)
jax.block_until_ready(mcmc.get_samples())
warm = time.time() - began
ended = "draws"
"""
_END = """
import numpy as np
from inference import mixing
from inference.results.network_outputs import function_values, network_outputs
functions = function_values(model, network_outputs(model, draws, inputs), draws).astype(np.float64)
print(json.dumps({
    "cold": cold, "warm": warm, "ended": ended, "rhat": float(mixing.rhat(functions).max()),
    "ess": float(min(mixing.ess(functions, kind).min() for kind in ("bulk", "tail"))),
}))
"""


def problem(name: str) -> tuple[Any, Any, Any]:
    """The network of a problem, its training rows, and the inputs at which its functions are judged."""
    kind, options, model = PROBLEMS[name]
    train, test = data.load(kind, **options).split(seed=0)
    return model, train, (test.x if len(test.x) >= _INPUTS else train.x)[:_INPUTS]


def main() -> None:
    """Print seconds to a verdict, ESS and R-hat of every method on every problem, and the ratios to NumPyro's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS), metavar="NAME")
    parser.add_argument("--methods", default="hmc,nuts,mclmc")
    options = parser.parse_args()
    rows: list[tuple[str, ...]] = [("", "cold s", "ratio", "warm s", "ratio", "least ESS", "R-hat", "ended")]
    ratios: dict[str, list[tuple[float, float]]] = {}
    for name in options.problems:
        peer = _measured(_NUMPYRO, name, _PEER)
        for method in (_PEER, *options.methods.split(",")):
            found = peer if method == _PEER else _measured(_OURS, name, method)
            cold, warm = peer["cold"] / found["cold"], peer["warm"] / found["warm"]
            ratios.setdefault(method, []).append((cold, warm))
            rows.append(
                (
                    f"{name}: {method}", f"{found['cold']:.1f}", f"{cold:.1f}", f"{found['warm']:.1f}", f"{warm:.1f}",
                    f"{found['ess']:.0f}", f"{found['rhat']:.3f}", found["ended"],
                )
            )  # fmt: skip
    table(rows)
    for method, pairs in ratios.items():
        if method != _PEER:
            cold, warm = ([pair[i] for pair in pairs] for i in (0, 1))
            print(
                f"{method}: least and median ratio {min(cold):.1f} and {statistics.median(cold):.1f} cold, "
                f"{min(warm):.1f} and {statistics.median(warm):.1f} warm"
            )


def _measured(script: str, name: str, method: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        output = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script + _END, name, method, str(time.time()), str(_DRAWS)],
            capture_output=True, text=True, check=True, env={**os.environ, "XDG_CACHE_HOME": cache},
        ).stdout  # fmt: skip
    found = json.loads(output.splitlines()[-1])
    print(f"{name}: {method}: {found}", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    main()
