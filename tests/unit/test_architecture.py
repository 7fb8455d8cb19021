"""The rules of the house, run: imports flow one way, every module says what it exports, files stay readable."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ORDER = ("data", "models", "inference", "diagnostics")
MOST_MODULES = 12  # in a room: more are two rooms

# The rooms from the bottom up. A room imports what is below it; two of one line do not import each other.
LAYERS = [
    ["data", "models"],
    ["inference.host", "inference.display"],
    ["inference.target", "inference.mixing", "inference.lanes"],
    ["inference.methods"],
    ["inference.samplers"],
    ["inference.optimisation", "inference.results"],
    ["inference.variational", "inference.laplace", "inference.mcmc", "inference.sgmcmc", "inference.engine"],
    ["inference.catalogue", "inference.disk"],
    ["inference.runs"],
    ["inference.sweeps", "inference.scikit_learn"],
    ["inference"],  # the door
    ["diagnostics.predictions", "diagnostics.convergences"],
    ["diagnostics.checks", "diagnostics.comparisons", "diagnostics.information"],
    ["diagnostics.plots"],
    ["diagnostics.reports"],
    ["diagnostics"],
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
USERS = ("touchstone", "experiments", "benchmarks", "notebooks")
# Files that may have more than 300 lines, and why.
LONG = {
    "inference/mcmc/mclmc.py": "two samplers, unadjusted and adjusted, share a kernel and its options",
    "inference/results/prediction.py": "predictions of numbers and of classes, which are read side by side",
}

MODULES = sorted(path for package in (*ORDER, *USERS) for path in (ROOT / package).rglob("*.py"))


def _imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    return names


def _package(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_imports_flow_one_way():
    wrong = []
    for path in MODULES:
        package = _package(path)
        allowed = ORDER[: ORDER.index(package) + 1] if package in ORDER else (*ORDER, package)
        allowed += ("notebooks",) if package == "benchmarks" else ()  # how long a cell takes is measured in a notebook
        allowed += ("experiments",) if package == "touchstone" else ()  # the studies that the command runs
        ours = _imported(ast.parse(path.read_text())) & {*ORDER, *USERS}
        wrong += [f"{_module(path)} imports {other}" for other in ours - set(allowed)]
    assert not wrong, wrong


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _room(module: str) -> str:
    """The room of a module: its folder, or the module itself where it is in none."""
    first, *rest = module.split(".")
    return f"{first}.{rest[0]}" if rest and first in ("inference", "diagnostics") else first


def _imported_rooms(path: Path) -> set[str]:
    """The rooms that a module imports when it is imported; names behind the door of a package count for the package."""
    rooms = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ORDER:
            for alias in node.names:
                inside = ROOT / node.module.replace(".", "/") / alias.name
                is_module = inside.is_dir() or inside.with_suffix(".py").exists()
                rooms.add(_room(f"{node.module}.{alias.name}" if is_module else node.module))
    return rooms


@pytest.mark.parametrize("package", ["inference", "diagnostics"])
def test_rooms_are_built_on_those_below(package):
    wrong = []
    for path in sorted((ROOT / package).rglob("*.py")):
        own = _room(_module(path))
        for other in _imported_rooms(path) - {own}:
            if LEVEL[other] >= LEVEL[own]:
                wrong.append(f"{_module(path)} imports {other}")
    assert not wrong, wrong


def test_rooms_are_small_enough_to_be_taken_in():
    rooms = {path.parent for package in ("inference", "diagnostics") for path in (ROOT / package).rglob("*.py")}
    for room in rooms:
        modules = [path for path in room.glob("*.py") if path.name != "__init__.py"]
        assert len(modules) <= MOST_MODULES, f"{room.name} has {len(modules)} modules"
        assert len(ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or "") > 60, room.name


def _exports(tree: ast.Module) -> list[ast.expr]:
    """What is assigned to `__all__`."""
    return [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        if any(getattr(t, "id", "") == "__all__" for t in getattr(node, "targets", [getattr(node, "target", None)]))
    ]


def _defined(tree: ast.Module) -> set[str]:
    names = {getattr(node, "name", "") for node in tree.body}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_every_module_says_what_it_exports():
    wrong = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        lists = _exports(tree)
        if len(lists) != 1:
            wrong.append(f"{_module(path)} must define __all__ once")
            continue
        missing = set(ast.literal_eval(lists[0])) - _defined(tree)
        wrong += [f"{_module(path)} exports {name}, which it does not have" for name in missing]
    assert not wrong, wrong


def test_slow_tests_exist():
    for line in (ROOT / "tests" / "slow.txt").read_text().splitlines():
        if not line.startswith("#"):
            path, name = line.split("::")
            assert f"def {name.split('[')[0]}(" in (ROOT / "tests" / path).read_text(), line


def test_files_stay_readable():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES}
    long = {name: lines for name, lines in lengths.items() if lines > 300 and name not in LONG}
    assert not long, f"one idea each: {long}"


def test_no_module_is_named_like_what_its_package_exports():
    wrong = []
    for path in MODULES:
        if path.stem != "__init__" and _package(path) in ORDER:
            door = ast.parse((path.parent / "__init__.py").read_text())
            exported = {alias.name for n in door.body if isinstance(n, ast.ImportFrom) for alias in n.names}
            wrong += [_module(path)] * (path.stem in exported)
    assert not wrong, wrong


def test_no_pickle_on_any_path():
    for path in MODULES:
        names = _imported(ast.parse(path.read_text()))
        assert not names & {"pickle", "cloudpickle", "joblib", "dill", "shelve", "marshal"}, path.name
        assert "allow_pickle=True" not in path.read_text(), path.name


def test_importing_has_no_side_effect():
    code = (
        "import sys, jax; before = jax.config.values.copy()\n"
        "import data, models, inference, diagnostics, touchstone\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge.backends_are_initialized(), 'a device was taken'\n"
        "assert jax.config.values == before, 'a JAX setting was changed'\n"
        "slow = {'arviz', 'matplotlib', 'sklearn', 'pandas', 'scipy.stats'} & set(sys.modules)\n"
        "assert slow <= {'scipy.stats'}, f'imported before they are used: {slow}'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_the_packages_and_nothing_else(tmp_path):
    build = ["-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(tmp_path)]
    subprocess.run([sys.executable, *build], check=True, cwd=ROOT, timeout=120, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        parts = {name.split("/")[0] for name in archive.namelist()}
        assert "diagnostics/reports/report.html.j2" in archive.namelist()
        assert {f"{package}/py.typed" for package in ORDER} <= set(archive.namelist())
    assert {part for part in parts if not part.endswith(".dist-info")} == {*ORDER, "touchstone", "experiments"}


PRIVATE = (
    "numpyro.primitives",
    "numpyro.infer.util",
    "numpyro.infer.hmc",
    "jax.interpreters",
    "jax.extend",
    "jax._src",
)
UNSTABLE = ("models/effects.py", "inference/target/unstable.py", "inference/host/hosts.py")


def test_what_a_release_may_change_is_imported_in_three_files():
    wrong = []
    for path in MODULES:
        if _package(path) not in ORDER or path.relative_to(ROOT).as_posix() in UNSTABLE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            wrong += [f"{_module(path)} imports {name}" for name in names if name.startswith(PRIVATE)]
    assert not wrong, wrong
