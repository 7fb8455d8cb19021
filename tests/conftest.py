"""Shared fixtures. Shapes in annotations are checked at run time here, and only here."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import jax
import jaxtyping
import numpy as np
import pytest

import tests.helpers.shapes

# Most of the time of the tests is XLA's compiler and JAX's tracing. One piece a program is compiled with a tenth less
# work than several, and the older way to emit loops, which JAX 0.10 still has, takes two thirds of the time to compile;
# its programs are as fast. The flags are read when the first program is made. Traces are many small objects that live
# on: Python's collector, which looks through them after every 700, would take an eighth of the time. To keep a small
# program on disk takes longer than to compile it.
_FLAGS = ["--xla_cpu_parallel_codegen_split_count=1"]
if jax.__version__.startswith("0.10."):
    _FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join([*_FLAGS, os.environ.get("XLA_FLAGS", "")])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
gc.set_threshold(50_000, 20, 20)
os.environ.setdefault("MPLBACKEND", "agg")
_hook = jaxtyping.install_import_hook(tests.helpers.shapes.annotated(), "tests.helpers.shapes.checked")

import data  # noqa: E402 (after the hook)
import inference  # noqa: E402
import models  # noqa: E402
from inference.engine.pace import pace  # noqa: E402

pytest_plugins = ["tests.helpers.posteriors", "tests.helpers.run_directories"]

TIERS = ("unit", "runs", "accuracy", "survival", "examples", "validation")
SLOW = frozenset((Path(__file__).parent / "slow.txt").read_text().splitlines())
_EVENTS: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **details: _EVENTS.append(f"{name} of {details.get('fun_name')}")
)


_MOST_MAPS = 40_000  # Linux gives a process 65,530, of which every compiled program takes several; then it crashes


@pytest.fixture(autouse=True, scope="module")
def _programs_are_let_go():
    """A worker that has compiled the programs of many test files forgets them."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_bytes().splitlines()) > _MOST_MAPS:
        jax.clear_caches()
        gc.collect()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test is marked by its tier, the folder of `tests/` that it is in."""
    for item in items:
        tier = item.path.relative_to(Path(__file__).parent).parts[0]
        assert tier in TIERS, f"{item.path} is in none of the tiers {', '.join(TIERS)}"
        item.add_marker(tier)
        if item.nodeid.removeprefix("tests/") in SLOW:
            item.add_marker("slow")


@pytest.fixture
def at_pace() -> Iterator[Callable[..., None]]:
    """Sets fields of `inference.engine.pace.Pace` for the rest of the test."""
    with ExitStack() as stack:
        yield lambda **changes: stack.enter_context(pace(**changes))


_BEFORE = pytest.StashKey[int]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember what was compiled before the test, and before the fixtures that it is the first to ask for."""
    item.stash[_BEFORE] = len(_EVENTS)


@pytest.fixture
def compiled_for_the_test(request: pytest.FixtureRequest) -> Callable[[], int]:
    """Counts the programs that JAX has compiled for the test and for its fixtures."""
    return lambda: sum("backend_compile_duration" in event for event in _EVENTS[request.node.stash[_BEFORE] :])


@pytest.fixture
def counted() -> Callable[..., int]:
    """Counts the programs, or those of a name, that JAX has lowered ("lower") or compiled ("compile") in the test."""
    before = len(_EVENTS)
    names = {"lower": "jaxpr_to_mlir_module_duration", "compile": "backend_compile_duration"}
    return lambda what, of="": sum(names[what] in event and of in event for event in _EVENTS[before:])


class Conjugate:
    """Linear regression with known noise: its posterior is normal in closed form, tempered or not.

    The order of the unknowns is that of `stacked`: the bias first, then the weights.
    """

    noise, prior = 0.5, 0.8

    def __init__(self) -> None:
        split = data.load("linear", n=40, inputs=3, seed=4).whole()
        self.x, self.y = split.x, split.y
        self.design = np.column_stack([np.ones(len(self.x)), self.x]).astype(np.float64)
        self.model = models.linear(models.Normal(self.prior), models.Gaussian(scale=self.noise))

    def posterior(self, temperature: float = 1.0, tempering: str = "posterior") -> tuple[np.ndarray, np.ndarray]:
        """Mean and precision of the tempered posterior."""
        data_precision = self.design.T @ self.design / self.noise**2 / temperature
        prior_precision = np.eye(4) / self.prior**2 / (temperature if tempering == "posterior" else 1.0)
        precision = data_precision + prior_precision
        shift = self.design.T @ self.y.astype(np.float64) / self.noise**2 / temperature
        return np.linalg.solve(precision, shift), precision

    def run(self, **options: object) -> inference.Posterior:
        return inference.run(self.model, self.x, self.y, progress=False, **options)

    def exact(
        self, chains: int = 1, draws: int = 4000, seed: int = 0, temperature: float = 1.0, tempering: str = "posterior"
    ) -> inference.Posterior:
        """Independent draws of the tempered posterior, as if a perfect sampler had made them."""
        mean, precision = self.posterior(temperature, tempering)
        normal = np.random.default_rng(seed).normal(size=(chains, draws, 4))
        return self.of(mean + normal @ np.linalg.inv(np.linalg.cholesky(precision)), temperature, tempering)

    def of(
        self, unknowns: np.ndarray, temperature: float = 1.0, tempering: str = "posterior", **parts: object
    ) -> inference.Posterior:
        """The posterior with these draws, (chain, draw, 4), of NUTS unless the parts say otherwise."""
        record = {
            "model": self.model,
            "method": inference.NUTS(),
            "seed": 0,
            "temperature": temperature,
            "tempering": tempering,
            "draws": {
                "output.bias": unknowns[..., :1].astype(np.float32),
                "output.weight": unknowns[..., 1:, None].astype(np.float32),
            },
            "statistics": {},
            "curves": {},
            "observed": {"y": self.y},
            "probes": self.x[:1],
            "deterministic": (),
            "cost": inference.host.machine.Cost(1.0, 1.0, 1, 1),
        }
        return inference.Posterior(**{**record, **parts})

    @staticmethod
    def stacked(posterior: inference.Posterior) -> np.ndarray:
        """Draws as (chain, draw, 4)."""
        parts = [posterior.draws["output.bias"], posterior.draws["output.weight"][..., 0]]
        return np.concatenate(parts, axis=-1).astype(np.float64)


@pytest.fixture(scope="session")
def conjugate() -> Conjugate:
    return Conjugate()
