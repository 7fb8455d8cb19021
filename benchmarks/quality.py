"""How many effective draws of the functions per second, from a cold process to the result, against NumPyro's NUTS?

Everything counts: imports, compilation, starts, tuning, warm-up and draws. The network is 1x50 tanh with N(0, 1)
weights on concrete where its data are in the cache, else on diabetes; four chains; the least bulk ESS over the outputs
at 20 test points. Each sampler runs in a process of its own with an empty compilation cache, NumPyro's with parallel
chains. Goal: at least 3 times NumPyro's, at R-hat below 1.02.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

import data
from benchmarks.timing import table

__all__ = ["main"]

_COMMON = """
import json, sys
import numpy as np
name, noise = sys.argv[1], float(sys.argv[2])
"""
_MODEL = """
import data, models
train, test = data.load(name).split(seed=0)
likelihood = models.Gaussian(scale=noise) if noise else models.Gaussian()
model = models.mlp((50,), "tanh", likelihood=likelihood)
"""
_OURS = (
    _COMMON
    + _MODEL
    + """
import inference
posterior = inference.run(model, train, method="hmc", chains=4, draws=int(sys.argv[3]), progress=False)
outputs = posterior.predict(test.x[:20]).outputs[..., 0]
gradients = posterior.cost.gradients
"""
)
_NUMPYRO = (
    _COMMON
    + """
import numpyro
numpyro.set_host_device_count(4)
"""
    + _MODEL
    + """
import jax
from numpyro import handlers
from numpyro.infer import MCMC, NUTS
mcmc = MCMC(NUTS(model), num_warmup=int(sys.argv[3]), num_samples=int(sys.argv[3]), num_chains=4, progress_bar=False)
mcmc.run(jax.random.key(0), train.x, train.y, extra_fields=("num_steps",))
draws = mcmc.get_samples(group_by_chain=True)
one = lambda weights: handlers.substitute(model.outputs, data=weights)(test.x[:20])[:, 0]
outputs = np.asarray(jax.vmap(jax.vmap(one))(draws))
gradients = int(mcmc.get_extra_fields()["num_steps"].sum()) * 2  # the warm-up is not recorded: taken as as many
"""
)
_END = """
import warnings
warnings.simplefilter("ignore")
import arviz
dataset = arviz.convert_to_dataset({"f": np.asarray(outputs, np.float64)})
print(json.dumps({
    "ess": float(arviz.ess(dataset)["f"].min()), "rhat": float(arviz.rhat(dataset)["f"].max()), "gradients": gradients
}))
"""


def main() -> None:
    """Print ESS, R-hat and ESS per second of both, with noise known and with noise inferred."""
    name = "concrete" if data.at_hand("concrete") else "diabetes"
    cases = [("known noise", 0.8, 500, 500), ("inferred noise", 0.0, 200, 200)]
    rows: list[tuple[str, ...]] = [(name, "s", "least ESS", "R-hat", "gradients", "ESS per s", "ratio")]
    for label, noise, ours, theirs in cases:
        rates = {}
        for sampler, script, draws in (("NumPyro, nuts", _NUMPYRO, theirs), ("touchstone, hmc", _OURS, ours)):
            with tempfile.TemporaryDirectory() as cache:
                began = time.perf_counter()
                output = subprocess.run(
                    [sys.executable, "-W", "ignore", "-c", script + _END, name, str(noise), str(draws)],
                    capture_output=True, text=True, check=True, env={**os.environ, "XDG_CACHE_HOME": cache},
                ).stdout  # fmt: skip
                seconds = time.perf_counter() - began
            found = json.loads(output.splitlines()[-1])
            rates[sampler] = found["ess"] / seconds
            rows.append(
                (
                    f"{label}: {sampler}", f"{seconds:.1f}", f"{found['ess']:.0f}", f"{found['rhat']:.3f}",
                    f"{found['gradients']}", f"{rates[sampler]:.2f}", f"{rates[sampler] / rates['NumPyro, nuts']:.2f}",
                )
            )  # fmt: skip
    table(rows)


if __name__ == "__main__":
    main()
