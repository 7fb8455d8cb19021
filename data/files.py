"""Writing a file in one step: whoever looks sees the old one or the new one, never a part."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing", "sync", "write_durably"]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside a file, which takes the file's place when the block ends, and is removed if it fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


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
