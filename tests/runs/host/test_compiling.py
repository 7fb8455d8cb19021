"""The persistent compilation cache: a second process compiles nothing, and the user's settings are respected."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
CODE = """
import collections, jax, numpy as np
events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **details: events.update([name]))
import inference, models
x = np.linspace(-1, 1, 8).reshape(-1, 1)
inference.run(models.linear(), x, x[:, 0] ** 2, method="map", steps=3, progress=False)
print(events["/jax/compilation_cache/cache_hits"], events["/jax/compilation_cache/cache_misses"])
print(jax.config.jax_compilation_cache_dir)
"""


def _process(**environment: str) -> tuple[int, int, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "TOUCHSTONE_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, cwd=ROOT, timeout=120, env={**kept, **environment}
    )
    assert done.returncode == 0, done.stderr
    counts, folder = done.stdout.splitlines()
    hits, misses = map(int, counts.split())
    return hits, misses, folder


def test_second_process_compiles_nothing(tmp_path):
    hits, misses, folder = _process(XDG_CACHE_HOME=str(tmp_path))
    assert (hits, misses > 0) == (0, True)
    assert Path(folder) == tmp_path / "touchstone" / "jax"
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    again = _process(XDG_CACHE_HOME=str(tmp_path))
    assert again[:2] == (misses, 0)


def test_switched_off(tmp_path):
    hits, misses, folder = _process(XDG_CACHE_HOME=str(tmp_path), TOUCHSTONE_COMPILATION_CACHE="off")
    assert (hits, misses, folder) == (0, 0, "None")
    assert not list(tmp_path.iterdir())


def test_the_users_own_folder_is_respected(tmp_path):
    settings = {"XDG_CACHE_HOME": str(tmp_path / "xdg"), "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "mine")}
    _, misses, folder = _process(**settings)
    assert folder == str(tmp_path / "mine")
    assert not (tmp_path / "xdg").exists()
    assert _process(**settings)[:2] == (misses, 0)  # and small programs are kept there too
