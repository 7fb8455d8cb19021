"""The rules of the house, run: imports flow one way, every module says what it exports, files stay readable."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ORDER = ("data", "models", "inference", "diagnostics")
MOST_MODULES = 12  # in a room: more are two rooms

# The rooms from the bottom up. A room imports what is below it; two of one line do not import each other.
LAYERS = [
    ["data", "models"],
    ["inference.host", "inference.display"],
    ["inference.target", "inference.mixing"],
    ["inference.methods"],
    ["inference.optimisation", "inference.results"],
    ["inference.variational", "inference.laplace", "inference.mcmc", "inference.sgmcmc", "inference.engine"],
    ["inference.catalogue", "inference.disk"],
    ["inference.runs"],
    ["inference.sweeps"],
    ["inference"],  # the door
    ["diagnostics.predictions", "diagnostics.convergences"],
    ["diagnostics.checks", "diagnostics.comparisons", "diagnostics.information"],
    ["diagnostics.plots"],
    ["diagnostics.reports"],
    ["diagnostics"],
]
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
USERS = ("touchstone", "experiments", "benchmarks")
LONG: dict[str, str] = {}  # file -> why it may have more than 300 lines

MODULES = [ROOT / "touchstone.py"]
MODULES += sorted(path for package in (*ORDER, *USERS[1:]) for path in (ROOT / package).rglob("*.py"))
every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))


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


@every_module
def test_imports_flow_one_way(path):
    package = _package(path)
    allowed = ORDER[: ORDER.index(package) + 1] if package in ORDER else (*ORDER, package)
    ours = _imported(ast.parse(path.read_text())) & {*ORDER, *USERS}
    assert ours <= set(allowed), f"{path.name} imports {ours - set(allowed)}"


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


@every_module
def test_all_is_there_and_true(path):
    tree = ast.parse(path.read_text())
    lists = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and any(getattr(t, "id", "") == "__all__" for t in getattr(node, "targets", [getattr(node, "target", None)]))
    ]
    assert len(lists) == 1, f"{path.name} must define __all__ once"
    exported = {ast.literal_eval(item) for item in lists[0].elts}
    defined = {getattr(node, "name", None) for node in tree.body}
    defined |= {alias.asname or alias.name for n in tree.body if isinstance(n, ast.ImportFrom) for alias in n.names}
    defined |= {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(target, ast.Name)
    }
    assert exported <= defined, f"{path.name} exports {exported - defined}, which it does not have"


@every_module
def test_files_stay_readable(path):
    lines = len(path.read_text().splitlines())
    assert lines <= 300 or str(path.relative_to(ROOT)) in LONG, f"{path.name} has {lines} lines: one idea each"


@every_module
def test_no_module_is_named_like_what_its_package_exports(path):
    if path.stem == "__init__" or _package(path) not in ORDER:
        return
    package = ast.parse((path.parent / "__init__.py").read_text())
    exported = {alias.name for n in package.body if isinstance(n, ast.ImportFrom) for alias in n.names}
    assert path.stem not in exported - {"information", "plots"}  # which are exported as the modules they are


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
    assert {part for part in parts if not part.endswith(".dist-info")} == {*ORDER, "touchstone.py"}
