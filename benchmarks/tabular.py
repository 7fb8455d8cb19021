"""How good are our estimators on tables beside bde's, a random forest and ridge, and how long do they take?

Two tables: diabetes (442 rows of 10 inputs), and 1,503 rows of 5 inputs in the likeness of NASA's airfoil noise, which
`airfoil_like` makes. `train_test_split(test_size=0.2, random_state=0)`; inputs and targets are standardised by the
training part, and everything below is in these units. The networks have two hidden layers of 16 ReLU units, a mean and
a standard deviation as outputs, and N(0, 1) weights, bde's as ours. bde (the package sklearn-contrib-bde, that is
Microcanonical Langevin Ensembles) is given what its authors show as an example: 8 members, 5,000 steps of warm-up, 160
draws. Ridge and the random forest have one standard deviation for all rows, that of their residuals in 5-fold
cross-validation.

RMSE and NLL are means over seeds of the method, with their standard deviations; NLL is that of the normal with the mean
and the standard deviation of a row's prediction. Seconds are of a processor's time, all cores together, for `fit` and
the predictions of the test rows, with what is compiled on the way; they are means too, and depend little on what else
the machine does.

bde has needs of its own, so it runs in another interpreter: `--bde PYTHON`. Without it the others are run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.preprocessing import StandardScaler

import inference
import models
from benchmarks.timing import table

__all__ = ["airfoil_like", "main", "scores"]

_HIDDEN = (16, 16)
_NOISE = 1.0  # decibels; the levels have a standard deviation of some 10
_OURS: dict[str, dict[str, Any]] = {
    "map": {},
    "ensemble": {"chains": 8},
    "mclmc": {"chains": 8, "draws": 100},
    "hmc": {"draws": 200},
}
_BDE = """
import json, sys, time
import numpy as np
from bde import BdeRegressor
arrays, seeds, hidden = np.load(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
found = []
for seed in range(seeds):
    began = time.process_time()
    peer = BdeRegressor(
        n_members=8, hidden_layers=hidden, epochs=1000, patience=20, validation_split=0.15, lr=1e-3, weight_decay=1e-4,
        warmup_steps=5000, n_samples=200, n_thinning=10, seed=seed,
    )
    peer.fit(arrays["x"], arrays["y"])
    mean, std = (np.asarray(each, np.float64).ravel() for each in peer.predict(arrays["new"], mean_and_std=True))
    found.append([mean.tolist(), std.tolist(), time.process_time() - began])
print(json.dumps(found))
"""

Predicted = tuple[np.ndarray, np.ndarray, float]


def airfoil_like(rows: int = 1503, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and sound levels in the likeness of NASA's airfoil noise: a hump over the Strouhal number, and noise.

    With the frequency f in Hz, the angle a in degrees, the chord c and the displacement thickness d in m, and the speed
    u in m/s, the level is, up to noise from N(0, 1),

        126 + 50 log10(u / 71.3) + 8 log10(c / 0.1) - 10 (log10(f d / u) + 1.1 - 0.02 a)² / (1 + 0.05 a).
    """
    random = np.random.default_rng(seed)
    frequency = 10 ** random.uniform(np.log10(200), np.log10(20_000), rows)
    angle = random.uniform(0, 22, rows)
    chord = random.choice([0.0254, 0.0508, 0.1016, 0.1524, 0.2286, 0.3048], rows)
    speed = random.choice([31.7, 39.6, 55.5, 71.3], rows)
    thickness = 0.02 * chord * 10 ** (0.06 * angle) * 10 ** random.normal(0, 0.1, rows)
    strouhal = np.log10(frequency * thickness / speed)
    level = 126 + 50 * np.log10(speed / 71.3) + 8 * np.log10(chord / 0.1)
    level = level - 10 * (strouhal + 1.1 - 0.02 * angle) ** 2 / (1 + 0.05 * angle)
    x = np.column_stack([frequency, angle, chord, speed, thickness])
    return x, level + _NOISE * random.normal(size=rows)


def scores(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> tuple[float, float]:
    """RMSE, and the mean negative log density of normals with these means and standard deviations."""
    density = np.log(2 * np.pi * std**2) / 2 + (y - mean) ** 2 / (2 * std**2)
    return float(np.sqrt(np.mean((y - mean) ** 2))), float(density.mean())


def main() -> None:
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2, help="seeds of each method")
    parser.add_argument("--bde", default=sys.executable, metavar="PYTHON", help="an interpreter that can import bde")
    parser.add_argument("--only", help="methods, with commas between them; by default all")
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore", category=inference.TouchstoneWarning)
    os.environ["TOUCHSTONE_COMPILATION_CACHE"] = "off"  # bde has none on the disk either
    sets = {"diabetes": load_diabetes(return_X_y=True), "airfoil-like": airfoil_like()}
    for name, (x, y) in sets.items():
        x, new, y, observed = train_test_split(x, y, test_size=0.2, random_state=0)
        inputs, targets = StandardScaler().fit(x), StandardScaler().fit(y[:, None])
        x, new = inputs.transform(x), inputs.transform(new)
        y, observed = (targets.transform(each[:, None])[:, 0] for each in (y, observed))
        print(f"{name}: {len(y):,} training rows, {len(observed)} test rows", end="")
        if name == "airfoil-like":
            noise = np.full(len(observed), _NOISE / targets.scale_[0])
            best = scores(observed, observed - noise, noise)
            print(f"; with the function and the noise known, RMSE {best[0]:.3f} and NLL {best[1]:.3f}", end="")
        print()
        rows: list[tuple[str, ...]] = [("", "RMSE", "NLL", "processor s")]
        for method in chosen.only.split(",") if chosen.only else ("ridge", "random forest", *_OURS, "bde"):
            found = _bde(chosen.bde, x, y, new, chosen.seeds) if method == "bde" else [
                _timed(_FITTED.get(method, _ours), method, x, y, new, seed) for seed in range(chosen.seeds)
            ]  # fmt: skip
            if found:
                both = np.array([scores(observed, mean, std) for mean, std, _ in found])
                means, spread = both.mean(axis=0), both.std(axis=0)
                rows.append((method, f"{means[0]:.3f} ± {spread[0]:.3f}", f"{means[1]:.3f} ± {spread[1]:.3f}",
                             f"{np.mean([seconds for *_, seconds in found]):.1f}"))  # fmt: skip
        table(rows)
        print(flush=True)


def _timed(fitted: Callable[..., tuple[np.ndarray, np.ndarray]], *given: Any) -> Predicted:
    began = time.process_time()
    mean, std = fitted(*given)
    return mean, std, time.process_time() - began


def _ours(method: str, x: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    network = models.mlp(_HIDDEN, "relu", models.Normal(1.0), models.HeteroscedasticGaussian())
    estimator = inference.BayesianRegressor(network, method, _OURS[method], random_state=seed)
    mean, std = estimator.fit(x, y).predict(new, return_std=True)
    return mean, std


def _with_one_std(peer: Any, x: np.ndarray, y: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    residuals = y - cross_val_predict(peer, x, y, cv=5)
    return peer.fit(x, y).predict(new), np.full(len(new), np.sqrt(np.mean(residuals**2)))


def _ridge(_: str, x: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return _with_one_std(RidgeCV(np.logspace(-3, 4, 30)), x, y, new)


def _forest(_: str, x: np.ndarray, y: np.ndarray, new: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return _with_one_std(RandomForestRegressor(500, random_state=seed, n_jobs=-1), x, y, new)


_FITTED = {"ridge": _ridge, "random forest": _forest}


def _bde(python: str, x: np.ndarray, y: np.ndarray, new: np.ndarray, seeds: int) -> list[Predicted]:
    """What bde predicts in another interpreter; nothing, and a note, if that has no bde."""
    there = subprocess.run([python, "-c", "import bde"], capture_output=True, text=True)
    if there.returncode:
        why = there.stderr.strip().splitlines()[-1]
        print(f"without bde, because {python} can't import it ({why}); pip install sklearn-contrib-bde in an "
              "environment of its own, and name its interpreter by --bde")  # fmt: skip
        return []
    devices = f"--xla_force_host_platform_device_count={os.cpu_count()}"  # over which it spreads its members
    with tempfile.TemporaryDirectory() as folder:
        arrays = Path(folder) / "arrays.npz"
        np.savez(arrays, x=x.astype(np.float32), y=y.astype(np.float32), new=new.astype(np.float32))
        done = subprocess.run(
            [python, "-c", _BDE, str(arrays), str(seeds), json.dumps(_HIDDEN)],
            env=dict(os.environ, XLA_FLAGS=devices, TQDM_DISABLE="1"), stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    return [(np.array(mean), np.array(std), seconds) for mean, std, seconds in found]


if __name__ == "__main__":
    main()
