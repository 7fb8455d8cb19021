"""How long until the first draw, in a new process, against NumPyro's NUTS?

A 1x50 network on 400 rows of 10 inputs, from `import` to one draw after a short warm-up. Each runs in a process of its
own, the kinds in turn: with an empty compilation cache, and a second time with what the first one left. Goals: a cold
start at most half of NumPyro's; a second process at most a quarter of NumPyro without a cache. Compiled programs are
counted.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.timing import table

__all__ = ["main"]

_REPEATS = 3
_COUNT = """
import json, jax
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **details: compiled.append(name) if "backend_compile_duration" in name else None
)
"""
_OURS = """
import numpy as np
import models, inference
x = np.random.default_rng(0).normal(size=(400, 10)).astype(np.float32)
y = np.sin(x[:, 0])
inference.run(models.mlp((50,), "tanh"), x, y, method="{method}", chains=1, draws=1, warmup={warmup}, progress=False,
              **{options})
print(json.dumps(len(compiled)))
"""
_NUMPYRO = """
import numpy as np
import models
from numpyro.infer import MCMC, NUTS
x = np.random.default_rng(0).normal(size=(400, 10)).astype(np.float32)
y = np.sin(x[:, 0])
MCMC(NUTS(models.mlp((50,), "tanh")), num_warmup=10, num_samples=1, progress_bar=False).run(
    jax.random.key(0), x, y
)
print(json.dumps(len(compiled)))
"""


def main() -> None:
    """Print seconds, ratios and numbers of compiled programs."""
    scripts = {
        "touchstone, hmc": _OURS.format(
            method="hmc", warmup=0, options={"step_size": 1e-3, "trajectory_length": 1e-2, "jitter": 0.0}
        ),
        "touchstone, nuts": _OURS.format(method="nuts", warmup=10, options={}),
        "NumPyro, nuts": _NUMPYRO,
    }
    seconds: dict[str, list[float]] = {}
    programs = {}
    for _ in range(_REPEATS):
        for name, script in scripts.items():
            with tempfile.TemporaryDirectory() as cache:
                for attempt in ("cold", "second process"):
                    began = time.perf_counter()
                    output = subprocess.run(
                        [sys.executable, "-W", "ignore", "-c", _COUNT + script], capture_output=True, text=True,
                        check=True, env={**os.environ, "XDG_CACHE_HOME": cache},
                    ).stdout  # fmt: skip
                    seconds.setdefault(f"{name}, {attempt}", []).append(time.perf_counter() - began)
                    programs[f"{name}, {attempt}"] = json.loads(output.splitlines()[-1])
    found = {name: statistics.median(values) for name, values in seconds.items()}
    peer = found["NumPyro, nuts, cold"]
    table(
        [("", "s", "of NumPyro without cache", "programs compiled or read")]
        + [(name, f"{each:.1f}", f"{each / peer:.2f}", str(programs[name])) for name, each in found.items()]
    )


if __name__ == "__main__":
    main()
