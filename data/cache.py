"""The cache of data sets: one `.npz` of plain arrays per set, and the official files it was made from.

The folder is `TOUCHSTONE_DATA`, or `data` in the project's folder of the user's cache directory. A set that is not
there is fetched: each of its official files is taken from `downloads/` in the cache or downloaded, checked against its
size and SHA-256, converted once, and written in one step. Nothing is unpickled, and an archive can't write outside its
target.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import sys
import tarfile
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from data.files import replacing

__all__ = ["Archive", "File", "cache_directory", "load_arrays", "read_members", "user_cache"]

_BLOCK = 2**18
_SECONDS = 30.0  # a download that receives nothing for this long is given up


@dataclass(frozen=True)
class File:
    """One official file.

    Attributes:
        url: where the file is published.
        size: its size in bytes.
        sha256: the SHA-256 of its contents, in hexadecimal.
    """

    url: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name, the last part of `url`."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Archive:
    """Where a set comes from.

    Attributes:
        name: the set's name; the cache holds the set as `<name>.npz`.
        keys: what each array of that file is, in words.
        files: the official files; empty for a set that can only be put into the cache by hand.
        convert: makes the arrays from the paths of the official files, given by file name.
        checksums: where sizes and hashes are published; for a set without `files`, why it has none.
    """

    name: str
    keys: Mapping[str, str]
    files: tuple[File, ...]
    convert: Callable[[Mapping[str, Path]], dict[str, np.ndarray]] | None
    checksums: str

    def advice(self) -> str:
        """Advice for error messages: which file to put where."""
        path = cache_directory() / f"{self.name}.npz"
        keys = "; ".join(f"{key}: {meaning}" for key, meaning in self.keys.items())
        words = f"put the set there as {path}, with the arrays {keys}"
        if self.files:
            names = ", ".join(f"{file.name} from {file.url}" for file in self.files)
            words += f"; or put its official files into {cache_directory() / 'downloads' / self.name}: {names}"
        return words + "; TOUCHSTONE_DATA names another folder"


def user_cache() -> Path:
    """The project's folder in the user's cache directory (`XDG_CACHE_HOME`, or what the system uses)."""
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "touchstone"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "touchstone"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "touchstone"
    return Path.home() / ".cache" / "touchstone"


def cache_directory() -> Path:
    """Where data sets are kept: `TOUCHSTONE_DATA`, or the user's cache."""
    chosen = os.environ.get("TOUCHSTONE_DATA")
    return Path(chosen).expanduser() if chosen else user_cache() / "data"


def load_arrays(archive: Archive) -> dict[str, np.ndarray]:
    """The arrays of a set, from the cache or, the first time, from its official files.

    Raises:
        FileNotFoundError: if the set is neither in the cache nor available; the message says which file to put where.
        ValueError: if the cached file is damaged, or an official file is cut short or has another size or hash than the
            published one.
    """
    path = cache_directory() / f"{archive.name}.npz"
    if path.exists():
        return _read(path, archive)
    if archive.convert is None:
        raise FileNotFoundError(
            f"'{archive.name}' is not in the cache, and not downloaded, because {archive.checksums}; {archive.advice()}"
        )
    downloads = cache_directory() / "downloads" / archive.name
    files = {file.name: _fetch(file, downloads, archive) for file in archive.files}
    arrays = archive.convert(files)
    with replacing(path) as temporary, open(temporary, "wb") as out:
        np.savez_compressed(out, allow_pickle=False, **arrays)
    return arrays


def _read(path: Path, archive: Archive) -> dict[str, np.ndarray]:
    remedy = f"remove {path} and load '{archive.name}' again, or {archive.advice()}"
    try:
        with open(path, "rb") as raw:
            file = np.load(raw, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("it is not an .npz file")
            with file:
                arrays = {name: file[name] for name in file.files}
    except Exception as error:  # a damaged zip, header or stream can fail in many ways
        raise ValueError(f"the cached file {path} is damaged ({error}); {remedy}") from error
    missing = [key for key in archive.keys if key not in arrays]
    if missing:
        raise ValueError(f"the cached file {path} has no array '{missing[0]}'; {remedy}")
    return arrays


def _fetch(file: File, folder: Path, archive: Archive) -> Path:
    """The path of the official file in `folder`, checked; the file is downloaded if it is not there."""
    path = folder / file.name
    if path.exists():
        _check(file, path, f"{path}; remove it, it")
        return path
    with replacing(path) as temporary, open(temporary, "wb") as out:
        try:
            _download(file, out)
        except (OSError, http.client.HTTPException) as error:  # no network or host, a time-out, a broken connection
            raise FileNotFoundError(
                f"'{archive.name}' is not in the cache, and {file.url} can't be had ({error!r}); {archive.advice()}"
            ) from error
        out.flush()
        _check(file, temporary, "what was downloaded")
    return path


def _download(file: File, out: IO[bytes]) -> None:
    from rich import progress
    from rich.console import Console

    request = urllib.request.Request(file.url, headers={"User-Agent": "touchstone-bnn"})
    with (
        urllib.request.urlopen(request, timeout=_SECONDS) as response,
        progress.Progress(
            *progress.Progress.get_default_columns(), progress.DownloadColumn(), console=Console(stderr=True)
        ) as bars,
    ):
        task = bars.add_task(file.name, total=file.size)
        received = 0
        while block := response.read(_BLOCK):
            received += len(block)
            if received > file.size:
                raise ValueError(f"{file.url} sent more than the {file.size} bytes that it is published with")
            out.write(block)
            bars.update(task, completed=received)


def _check(file: File, path: Path, what: str) -> None:
    size = path.stat().st_size
    if size != file.size:
        raise ValueError(f"{what} is not {file.url}: it has {size} bytes, not {file.size}")
    with open(path, "rb") as contents:
        digest = hashlib.file_digest(contents, "sha256").hexdigest()
    if digest != file.sha256:
        raise ValueError(f"{what} is not {file.url}: its SHA-256 is {digest}, not {file.sha256}")


def read_members(path: Path, wanted: str) -> dict[str, bytes]:
    """The contents of the members of a tar archive whose names match `wanted`; nothing is written to disk.

    An archive is refused as a whole if one of its members would land outside the folder it is unpacked into, or is a
    link or a device.
    """
    found = {}
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                parts = PurePosixPath(member.name)
                if parts.is_absolute() or ".." in parts.parts or not (member.isfile() or member.isdir()):
                    raise ValueError(f"the archive {path.name} is malicious: it has the member '{member.name}'")
                if member.isfile() and re.fullmatch(wanted, str(parts)):
                    contents = archive.extractfile(member)
                    assert contents is not None  # it is a file
                    found[str(parts)] = contents.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"the archive {path.name} is damaged ({error}); remove {path}") from error
    return found
