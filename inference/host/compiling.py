"""How programs are traced and compiled: one thread at a time, kept on disk, and in a hurry where they run once.

NumPyro's stack of handlers is one list for all threads of a process, so two models that are traced at the same time
would get into each other's handlers. Whatever runs a model's Python code holds `TRACING`; compiled programs run without
it.

The persistent compilation cache spares a second process the compiling that the first one did. It is switched on by the
first run, not by an import. The user's own folder (`JAX_COMPILATION_CACHE_DIR`) and thresholds are respected;
`TOUCHSTONE_COMPILATION_CACHE=off` switches all of this off. Our folder holds native code, so it is readable by its
owner only, and a folder that belongs to somebody else is not used.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

import jax

from data.cache import user_cache
from inference.host.arithmetic import arithmetic
from inference.host.telling import tell

__all__ = ["TRACING", "enable_compilation_cache", "in_a_hurry", "tracing"]

TRACING = threading.RLock()
"""Held by the thread that runs a model's Python code."""

_SECONDS = 1.0  # JAX's default threshold
_HURRIED = (("xla_backend_optimization_level", 0), ("xla_cpu_use_fusion_emitters", False))


@contextmanager
def tracing(precision: str) -> Iterator[None]:
    """Run a model's Python code in `precision`, while no other thread runs any model's."""
    with TRACING, arithmetic(precision):
        yield


def enable_compilation_cache() -> None:
    """Switch the cache on, unless the user has switched it off; a folder that the user has chosen is used."""
    config: Any = jax.config
    if not config.jax_enable_compilation_cache:
        return
    if os.environ.get("TOUCHSTONE_COMPILATION_CACHE", "on").lower() in ("off", "0", "false", "no"):
        return
    if config.jax_compilation_cache_dir is None:
        folder = user_cache() / "jax"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
        except OSError as error:  # a read-only home, or a folder of somebody else's: continue without a cache
            tell(f"compiled programs are not cached: {folder} can't be made private ({error})")
            return
        config.update("jax_compilation_cache_dir", str(folder))
    # JAX's default thresholds would leave out most programs; any other value is the user's, and stays.
    if config.jax_persistent_cache_min_compile_time_secs == _SECONDS:
        config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if config.jax_persistent_cache_min_entry_size_bytes == 0:
        config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def in_a_hurry(static_argnames: tuple[str, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator like `jax.jit` for functions that run once: they compile faster, without optimisation."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @cache
        def compiled() -> Callable[..., Any]:  # made at the first call, so that an import touches no device
            return jax.jit(function, static_argnames=static_argnames, compiler_options=_known(_HURRIED))

        @wraps(function)
        def call(*args: Any) -> Any:
            return compiled()(*args)

        return call

    return decorate


@cache
def _known(options: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Those of the compiler's `options` that this version of it knows."""
    try:
        jax.jit(lambda: 0, compiler_options=dict(options))()
    except jax.errors.JaxRuntimeError as error:
        if "No such compile option" not in str(error):
            raise
        return _known(options[:-1])
    return dict(options)
