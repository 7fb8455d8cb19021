"""The persistent compilation cache: a second process does not compile again what the first one did.

It is switched on by the first run, not by an import. What the user has set (`JAX_COMPILATION_CACHE_DIR`, or any of
JAX's own settings) is left as it is; `TOUCHSTONE_COMPILATION_CACHE=off` switches it off. The folder holds native code,
so it is readable by its owner only, and a folder that belongs to somebody else is not used.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import jax

from data.cache import user_cache

__all__ = ["enable_compilation_cache"]


def enable_compilation_cache() -> None:
    """Switch the cache on, unless the user has chosen a folder, or none."""
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None or not config.jax_enable_compilation_cache:
        return
    if os.environ.get("TOUCHSTONE_COMPILATION_CACHE", "on").lower() in ("off", "0", "false", "no"):
        return
    folder = user_cache() / "jax"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:  # a read-only home, or a folder of somebody else's: go on without a cache
        warnings.warn(f"compiled programs are not cached: {folder} can't be made private ({error})", stacklevel=3)
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # JAX's 1.0 would skip most programs
    if "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES" not in os.environ:
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
