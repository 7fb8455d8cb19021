"""Writing a file in one step: a reader sees the old file or the new one, never a part of it."""

from __future__ import annotations

import mmap
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["read_regular", "release", "replacing", "sync", "write_durably"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` when the block ends, and is removed if the block fails.

    Raises:
        ValueError: if `path` is a device or a pipe, in place of which a file would be put.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ValueError(f"{path} is a device or a pipe; name a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_regular(path: Path, most: int) -> bytes:
    """The contents of a file that somebody else may have made.

    Raises:
        OSError: if there is no file at `path`.
        ValueError: if it is a link, a pipe, a device or a folder, or has more than `most` bytes.
    """
    state = path.lstat()
    if not stat.S_ISREG(state.st_mode):
        raise ValueError("it is a link, or not a regular file")
    if state.st_size > most:
        raise ValueError(f"it has {state.st_size} bytes, more than such a file can have")
    return path.read_bytes()


def write_durably(path: Path, contents: bytes) -> None:
    """Replace a file in one step that a crash of the machine does not undo."""
    with replacing(path) as temporary:
        temporary.write_bytes(contents)
        sync(temporary)
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def release(values: np.ndarray) -> None:
    """Free the memory that caches what was read of an array on disk, so that reading a large array needs little."""
    base: Any = values
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    if base is not None and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)
