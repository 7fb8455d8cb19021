"""One array of a run on disk: the values of all chains, (chain, draw, ...), in one `.npy` file that fills up.

The file has its full length from the beginning and takes no space where nothing has been written (it is sparse), so
anyone can open it with `numpy.load(path, mmap_mode="r")`, even while the run goes on. Each chain's part is only ever
appended to. How many of its draws count is not in the file: a manifest says so, with the SHA-256 of every chunk of
draws, so that what a crash left half written is never read.
"""

from __future__ import annotations

import hashlib
import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from data.files import release, sync
from inference.engine.pace import current_pace

__all__ = ["Column"]


class Column:
    """An array on disk.

    Args:
        path: the file.
        shape: the shape of the whole array, (chain, draw, ...).
        dtype: the type of its numbers.
        length: draws per chunk; None takes as many as `inference.engine.pace` allows.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype, length: int | None = None) -> None:
        self.path, self.shape, self.dtype = path, shape, dtype
        self._draw_bytes = math.prod(shape[2:]) * dtype.itemsize
        self.length = length or max(1, current_pace().chunk_bytes // max(self._draw_bytes, 1))
        self._digests: list[list[str]] = [[] for _ in range(shape[0])]
        self._open: list[Any] = [hashlib.sha256() for _ in range(shape[0])]
        self._counts = [0] * shape[0]
        self._file: int | None = None
        self._begins = 0
        self._written = False

    @property
    def size(self) -> int:
        """Bytes of the whole array."""
        return math.prod(self.shape) * self.dtype.itemsize

    def create(self) -> None:
        """Make the file, without any draws, in place of whatever is there."""
        self.path.unlink(missing_ok=True)
        with open(self.path, "xb") as file:
            header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": self.shape}
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + self.size)
        self._written = True

    def append(self, chain: int, values: np.ndarray) -> None:
        """Write the next draws of a chain."""
        if not len(values):
            return
        values = np.ascontiguousarray(values, self.dtype)
        self._write(chain, values)
        while len(values):
            room = self.length - self._counts[chain] % self.length
            self._open[chain].update(values[:room].data)
            self._counts[chain] += len(values[:room])
            if self._counts[chain] % self.length == 0:
                self._digests[chain].append(self._open[chain].hexdigest())
                self._open[chain] = hashlib.sha256()
            values = values[room:]

    def count(self, chain: int) -> int:
        """How many draws of a chain there are."""
        return self._counts[chain]

    def digests(self, chain: int) -> list[str]:
        """The SHA-256 of every chunk of a chain, including the last one, which may not be full."""
        under_way = self._counts[chain] % self.length
        return self._digests[chain] + ([self._open[chain].hexdigest()] if under_way else [])

    def sound(self, chain: int, count: int, digests: list[str]) -> int:
        """How many of a chain's first `count` draws are as they were written, by their chunks' SHA-256."""
        chunks = range(0, count, self.length)
        if len(digests) != len(chunks):
            return 0
        if not self.readable():
            return 0
        values = self.values()
        for first, digest in zip(chunks, digests, strict=True):
            chunk = np.ascontiguousarray(values[chain, first : min(first + self.length, count)])
            if hashlib.sha256(chunk.data).hexdigest() != digest:
                return first
            release(values)
        return count

    def readable(self) -> bool:
        """Whether the file is there and holds this array."""
        try:
            self.values()
        except (OSError, ValueError):  # gone, cut off, or another file in its place
            return False
        return True

    def go_on(self, chain: int, count: int, digests: list[str]) -> None:
        """Continue writing after a chain's first `count` draws, whose chunks are sound."""
        whole = count // self.length
        rest = np.ascontiguousarray(self.values()[chain, whole * self.length : count]) if count else np.zeros(0)
        self._digests[chain] = list(digests[:whole])
        self._open[chain] = hashlib.sha256(rest.tobytes())
        self._counts[chain] = count

    def look(self, chain: int, count: int) -> None:
        """Read a chain's first `count` draws only; none will be written."""
        self._counts[chain] = count

    def values(self) -> np.ndarray:
        """The whole array, memory-mapped, so that only what is used is read from the disk.

        Raises:
            ValueError: if the file does not hold this array.
        """
        if not stat.S_ISREG(self.path.lstat().st_mode):
            raise ValueError(f"{self.path} is a link, or not a regular file")
        if not self.size:
            return np.zeros(self.shape, self.dtype)
        values = np.load(self.path, mmap_mode="r", allow_pickle=False)
        if values.shape != self.shape or values.dtype != self.dtype:
            raise ValueError(f"{self.path} holds {values.dtype} {values.shape}, not {self.dtype} {self.shape}")
        return values

    def sync(self) -> None:
        """Wait until what was written is on the disk."""
        if self._written:
            sync(self.path)
            self._written = False

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, chain: int, contents: np.ndarray) -> None:
        if self._file is None:
            self._begins = self.path.stat().st_size - self.size  # after the header
            self._file = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW)
        place = self._begins + (chain * self.shape[1] + self._counts[chain]) * self._draw_bytes
        left = contents.reshape(-1).view(np.uint8).data
        while len(left):
            written = os.pwrite(self._file, left, place)
            left, place = left[written:], place + written
        self._written = True
