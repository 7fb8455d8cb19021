"""Spaces: every weight is screened, the worst and an even spread of them are measured, and large networks fit."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import inference
import models
from diagnostics import convergence
from diagnostics.convergences import spaces
from diagnostics.convergences.spaces import function_mixing, weight_mixing
from inference import mixing


def _posterior(draws: dict[str, np.ndarray], **changes: object) -> inference.Posterior:
    shape = next(iter(draws.values())).shape[:2]
    plain = inference.Posterior(
        model=lambda: None,
        method=inference.NUTS(),
        seed=0,
        temperature=1.0,
        tempering="posterior",
        draws=draws,
        statistics={"lp": np.zeros(shape), "diverging": np.zeros(shape, bool)},
        curves={},
        observed={},
        probes=np.zeros((0, 0), np.float32),
        deterministic=(),
        cost=inference.host.machine.Cost(1.5, 2.5, 800, 1),
    )
    return replace(plain, **changes)


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_all_weights_of_a_small_network_are_measured_and_named():
    draws = {"b": _normal(2, 40), "w": _normal(2, 40, 2, 3)}
    found = weight_mixing(_posterior(draws))
    assert found.names == ("b", "w[0, 0]", "w[0, 1]", "w[0, 2]", "w[1, 0]", "w[1, 1]", "w[1, 2]")
    assert found.total == 7
    np.testing.assert_array_equal(found.draws[..., 5], draws["w"][:, :, 1, 1])
    table = found.by_site()
    assert list(table) == ["b", "w"]
    assert table["w"]["rhat"] == found.rhat[1:].max()
    assert table["w"]["ess_tail"] == found.ess_tail[1:].min()
    assert table["b"]["mcse_over_std"] == pytest.approx(float(mixing.mcse(draws["b"][..., None])[0] / draws["b"].std()))


def test_of_many_weights_the_worst_are_among_those_measured(monkeypatch):
    monkeypatch.setattr(spaces, "_BLOCK", 4 * 20 * 700)  # several blocks
    draws = _normal(4, 20, 5000)
    apart, still, broken = 3333, 4444, 1234
    draws[:, :, apart] += np.arange(4)[:, None]
    draws[2, :, still] = 0.5
    draws[1, 7, broken] = np.nan
    found = weight_mixing(_posterior({"w": draws, "tail": _normal(4, 20, 2)}))
    assert found.total == 5002
    assert 1000 <= len(found.names) <= 1100
    measured = dict(zip(found.names, found.rhat, strict=True))
    assert measured[f"w[{apart}]"] > 1.5
    assert measured[f"w[{broken}]"] == np.inf
    assert found.least_ess == 0
    assert found.names[-1] == "tail[1]"
    gaps = np.diff([int(name[2:-1]) for name in found.names if name.startswith("w")])
    assert gaps.max() <= 6  # spread evenly
    assert any("measured of 5,002 quantities" in failure for failure in found.failures("weight space", 1.01, 400))


def test_function_values_are_named_by_their_input():
    model = models.mlp((3,), likelihood=models.Gaussian(outputs=2))
    x = _normal(1, 2)
    y = _normal(20, 2) ** 2
    posterior = inference.run(model, _normal(20, 2), y, method="nuts", chains=2, draws=10, warmup=10, progress=False)
    found = function_mixing(posterior, x)
    assert found.names == ("f(x_0)[0]", "f(x_0)[1]", "noise[0]", "noise[1]")
    np.testing.assert_allclose(found.draws[..., 3], posterior.draws["noise"][..., 1], rtol=1e-6)
    assert len(function_mixing(posterior).names) == 2 * len(posterior.probes) + 2


def test_probes_lie_in_between_and_outside_the_data(conjugate):
    probes = conjugate.run(method="map", steps=1).probes
    rows = {row.tobytes() for row in conjugate.x}
    inside = np.array([row.tobytes() in rows for row in probes])
    assert (inside[:30].all(), inside[30:].any(), len(probes)) == (True, False, 50)
    middle, farthest = conjugate.x.mean(axis=0), np.linalg.norm(conjugate.x - conjugate.x.mean(axis=0), axis=1)
    away = np.linalg.norm(probes - middle, axis=1)
    assert (away[30:40] < farthest.max()).all()
    assert away[40:].max() == pytest.approx(2 * np.linalg.norm(probes[:30] - middle, axis=1).max(), rel=1e-5)
    np.testing.assert_allclose(probes[30], (probes[0] + probes[15]) / 2, rtol=1e-6)


def test_a_few_rows_are_probes_enough():
    posterior = inference.run(
        models.linear(), np.array([[1.0]]), np.array([2.0]), method="map", steps=1, progress=False
    )
    np.testing.assert_array_equal(posterior.probes, [[1.0]])


def test_effective_draws_per_second_and_per_gradient():
    judged = convergence(_posterior({"w": _normal(4, 300, 2)}))
    assert judged.ess_per_second == pytest.approx(judged.weights.least_ess / 4.0)
    assert judged.ess_per_gradient == pytest.approx(judged.weights.least_ess / 800)


def test_advice_names_the_next_step():
    short = convergence(_posterior({"w": _normal(4, 50, 2)}))
    wanted = 50 * max(2.0, 1.5 * 400 / short.weights.least_ess)  # with a margin, because the least ESS is uncertain
    (advised,) = (int(found[1]) for step in short.advice if (found := re.search(r"about draws=(\d+) per chain", step)))
    assert wanted <= advised < 1.2 * wanted
    apart = convergence(_posterior({"w": _normal(4, 500, 2) + 5 * np.arange(4)[:, None, None]}))
    assert any("in a mode of its own" in step for step in apart.advice)
    assert "next: Each chain" in str(apart)
    frozen = convergence(_posterior({"w": np.ones((4, 50, 2))}))
    assert any("never moves" in step for step in frozen.advice)
    deep = _posterior({"w": _normal(4, 2000, 2)})
    deep = replace(
        deep, statistics={**deep.statistics, "reached_max_treedepth": np.arange(2000) % 4 == np.zeros((4, 1))}
    )
    judged = convergence(deep)
    assert judged.passed
    assert judged.saturated == 0.25
    assert any("25% of the trajectories were cut off at the largest tree depth" in step for step in judged.advice)
    diverging = np.zeros((4, 2000), bool)
    diverging[1:3, 5] = True
    judged = convergence(replace(deep, statistics={"lp": np.zeros((4, 2000)), "diverging": diverging}))
    assert (judged.divergences, judged.divergent_chains) == (2, 2)
    assert any("shorter steps, target_acceptance=0.9" in step for step in judged.advice)
    every = replace(deep, statistics={**deep.statistics, "reached_max_treedepth": np.ones((4, 2000), bool)})
    (said,) = convergence(every).advice
    assert "Every trajectory was cut off" in said
    assert "more than they need" not in said
    assert convergence(_posterior({"w": _normal(4, 2000, 2)})).advice == ()


LARGE = """
import resource, time
import numpy as np
import inference, models
from dataclasses import replace
from diagnostics import convergence

model = models.mlp((300, 100), likelihood=models.Categorical(10))
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 804)).astype(np.float32)
made = inference.run(model, x, rng.integers(0, 10, 64), method="nuts", chains=1, draws=1, warmup=1, progress=False,
                     max_tree_depth=1)
shapes = {name: values.shape[2:] for name, values in made.draws.items()}
draws = {name: rng.standard_normal((4, 200, *shape), np.float32) for name, shape in shapes.items()}
for values in draws.values():
    values *= 0.05
weights = sum(np.prod(shape, dtype=int) for shape in shapes.values())
statistics = {"lp": np.zeros((4, 200)), "diverging": np.zeros((4, 200), bool)}
posterior = replace(made, draws=draws, statistics=statistics)
began = time.perf_counter()
judged = convergence(posterior)
print(weights, time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, judged.verdict)
"""


@pytest.mark.validation
def test_a_large_network_is_judged_within_two_gibibytes_and_a_minute():
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", LARGE], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    print(run.stdout)
    weights, seconds, memory = map(float, run.stdout.split()[:3])
    assert weights > 272_000
    assert seconds < 60
    assert memory < 2
