"""A run's directory: what was asked for, the data, and a folder for each stage; all of it JSON and plain arrays.

    run.json               model, method, seed, temperature, versions, and the shapes and SHA-256 of the data
    arguments-0.npy, ...   the arrays among the model's arguments
    run.lock               held, by the operating system, by the process that runs
    start, pilot, pilot1, ..., chains   the stages; see `inference.disk.journal`

`run.json` is written once, last, before anything compiles; from then on the run can be resumed. A built-in model
comes back from its recipe; a user's own function is passed again and compared, by its code and by a fingerprint of
what it computes. Nothing that is read here can run code, and links are refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import numpy as np

from data.files import read_regular, write_durably
from inference.disk.journal import Journal
from inference.host.arithmetic import precision_of_products
from inference.host.versions import version_of

__all__ = ["RunDirectory", "described", "differences", "surroundings"]

_FORMAT = 1
_LONG = 500  # characters of a value in a message
_PACKAGES = ("touchstone-bnn", "jax", "jaxlib", "numpyro", "optax", "numpy")
_ASKED = (
    "model", "identity", "method", "seed", "temperature", "tempering", "arguments", "arrays", "versions"
)  # fmt: skip
_HALF_WRITTEN = (".arguments-", ".run.json.", ".state-", ".manifest-")
_OURS = ("run.lock", "arguments-", *_HALF_WRITTEN)  # what a run that never began may leave
_MOST = 2**36  # bytes that an array of data may have
PILOTS = ("pilot", *(f"pilot{i}" for i in range(1, 8)))
"""The stages of a pilot, one for each of its rounds."""

_LONGER, _GONE = "chains.longer", "chains.gone"  # folders that stand beside "chains" while it is lengthened

STAGES = ("start", *PILOTS, "chains")
"""All stages of a run, in order."""


class RunDirectory:
    """A run on disk. As a context it holds the lock.

    Args:
        path: the directory.
        every: seconds between two saves.
    """

    def __init__(self, path: str | Path, every: float = 10.0) -> None:
        self.path, self._every = Path(path).expanduser().resolve(), every
        self._lock = -1

    def exists(self) -> bool:
        """Whether a run has begun here."""
        return (self.path / "run.json").exists()

    def create(self, asked: dict[str, Any], arrays: list[np.ndarray]) -> None:
        """Write down `asked`, what was asked for, and `arrays`, the arrays among the model's arguments."""
        for i, array in enumerate(arrays):
            write_durably(self.path / f"arguments-{i}.npy", _npy(array))
        write_durably(self.path / "run.json", _described(asked))

    def lengthen(self, draws: int, asked: dict[str, Any], template: Callable[[], Any]) -> None:
        """Make room for more `draws` per chain, and write down what is `asked` for now.

        The draws are copied to a folder beside the old one, which takes its place when it is whole: see `_take_over`.
        """
        old, new = self.stage("chains"), Journal(self.path / _LONGER, self._every)
        if old.manifest is not None:
            old.copy_to(new, draws, template)
        else:
            (self.path / _LONGER).mkdir()
        write_durably(self.path / _LONGER / "run.json", _described(asked))
        self._take_over()

    def _take_over(self) -> None:
        """Let the longer chains, if they are whole, take the place of the old ones; every step may be made again."""
        new, old, gone = (self.path / name for name in (_LONGER, "chains", _GONE))
        if (new / "run.json").exists() and not new.is_symlink():
            write_durably(self.path / "run.json", read_regular(new / "run.json", _MOST))
            if old.exists():
                os.rename(old, gone)
            os.rename(new, old)
        elif new.exists() and not new.is_symlink():  # a copy that was never completed
            shutil.rmtree(new)
        if old.is_dir() and not old.is_symlink():
            (old / "run.json").unlink(missing_ok=True)
        if gone.exists() and not gone.is_symlink():
            shutil.rmtree(gone)

    def asked(self) -> dict[str, Any]:
        """What was asked for when the run began.

        Raises:
            FileNotFoundError: if there is no run here.
            ValueError: if `run.json` can't be read.
        """
        path = self.path / "run.json"
        if not path.exists():
            raise FileNotFoundError(f"{self.path} holds no run: it has no run.json")
        try:
            asked = json.loads(read_regular(path, _MOST))
            if asked.pop("format") != _FORMAT:
                raise ValueError(f"it has another format than this version's, {_FORMAT}")
            if asked.pop("sha256") != _digest(asked):
                raise ValueError("its SHA-256 is another")
            missing = [name for name in _ASKED if name not in asked]
            if missing:
                raise ValueError(f"it says nothing about {', '.join(missing)}")
            return asked
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path} can't be read, or it is damaged: {error}") from error

    def arguments(self, asked: Mapping[str, Any]) -> tuple[Any, ...]:
        """The model's arguments, from their description in `asked` and the arrays on disk.

        Raises:
            ValueError: if an array is missing or is not as it was written.
        """
        arrays = []
        for i, expected in enumerate(asked["arrays"]):
            path = self.path / f"arguments-{i}.npy"
            try:
                array = _array(read_regular(path, _MOST), expected)
            except (OSError, ValueError) as error:
                raise ValueError(f"{path} can't be read, or it is damaged: {error}") from error
            arrays.append(array)
        return tuple(_restored(each, arrays) for each in asked["arguments"])

    def stage(self, name: str) -> Journal:
        """The journal of a stage."""
        assert name in STAGES
        folder = self.path / name
        if folder.is_symlink():
            raise ValueError(f"{folder} is a link, which a run has none of")
        return Journal(folder, self._every)

    def __enter__(self) -> RunDirectory:
        import fcntl  # Unix only, as the lock is: a crash can't leave it behind

        self.path.mkdir(parents=True, exist_ok=True)
        foreign = [path.name for path in self.path.iterdir() if not path.name.startswith(_OURS)]
        if foreign and not self.exists():
            raise ValueError(f"{self.path} is not empty ({foreign[0]}); a run needs a directory of its own")
        self._lock = os.open(self.path / "run.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(self._lock, 0)
            os.write(self._lock, str(os.getpid()).encode())
            self._tidy()
        except BlockingIOError as error:
            who = os.read(self._lock, 20).decode(errors="replace").strip()
            os.close(self._lock)
            raise BlockingIOError(f"{self.path} is in use by another process{f' ({who})' if who else ''}") from error
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def _tidy(self) -> None:
        """Remove what a kill has left half written, and complete what it has left undone."""
        self._take_over()
        for folder in (self.path, *(self.path / stage for stage in STAGES)):
            for path in folder.glob(".*"):
                if path.name.startswith(_HALF_WRITTEN) and not folder.is_symlink():
                    path.unlink()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._lock)


def described(args: tuple[Any, ...]) -> tuple[list[Any], list[np.ndarray]]:
    """A model's arguments as JSON, with numbers in place of their arrays, and the arrays.

    Raises:
        TypeError: for an argument that is neither an array, nor a plain value, nor a list, tuple or dict of them.
    """
    arrays: list[np.ndarray] = []

    def describe(value: Any) -> Any:
        if type(value) in (tuple, list):  # a named tuple would come back as a plain one
            return {type(value).__name__: [describe(item) for item in value]}
        if type(value) is dict and all(isinstance(name, str) for name in value):
            return {"dict": {name: describe(item) for name, item in value.items()}}
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return {"value": value}
        if hasattr(value, "__array__") and np.asarray(value).dtype.kind in "biufc":
            arrays.append(np.asarray(value))
            return {"array": len(arrays) - 1}
        raise TypeError(
            f"an argument of the model is a {type(value).__name__}, which a directory can't hold without code; pass "
            "arrays, numbers, strings, None, or lists and dicts of them, or leave directory out"
        )

    return [describe(value) for value in args], arrays


def _restored(description: Any, arrays: list[np.ndarray]) -> Any:
    ((kind, content),) = description.items()
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {name: _restored(item, arrays) for name, item in content.items()}
    if kind in ("tuple", "list"):
        return {"tuple": tuple, "list": list}[kind](_restored(item, arrays) for item in content)
    return content


def surroundings(arrays: list[np.ndarray]) -> dict[str, Any]:
    """What else the numbers of a run depend on: fingerprints of the arrays, versions and platform."""
    config: Any = jax.config
    return {
        "arrays": [_fingerprint(array) for array in arrays],
        "versions": {
            **{package: version_of(package) for package in _PACKAGES},
            "python": platform.python_version().rpartition(".")[0],
            "platform": f"{platform.machine()} {jax.default_backend()}",
            "jax_default_matmul_precision": precision_of_products(),
            "jax_threefry_partitionable": bool(config.jax_threefry_partitionable),
        },
    }


def differences(theirs: Any, ours: Any, name: str = "") -> list[str]:
    """What differs between two runs, given as JSON values; one line per difference."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        names = [*theirs, *(each for each in ours if each not in theirs)]
        missing = "nothing"
        return [
            line
            for each in names
            for line in differences(
                theirs.get(each, missing), ours.get(each, missing), f"{name}.{each}" if name else each
            )
        ]
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [
            line for i, pair in enumerate(zip(theirs, ours, strict=True)) for line in differences(*pair, f"{name}[{i}]")
        ]
    return [] if repr(theirs) == repr(ours) else [f"{name}: {_brief(theirs)} there, {_brief(ours)} here"]


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) < _LONG else f"{text[:_LONG]}..."


def _fingerprint(array: np.ndarray) -> dict[str, Any]:
    digest = hashlib.sha256(array.tobytes()).hexdigest()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": digest}


def _described(asked: dict[str, Any]) -> bytes:
    """The text of `run.json`."""
    return json.dumps({"format": _FORMAT, "sha256": _digest(asked), **asked}, indent=1).encode()


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array, order="C"), allow_pickle=False)
    return buffer.getvalue()


def _array(contents: bytes, expected: dict[str, Any]) -> np.ndarray:
    """The array in an `.npy` file, if it is the `expected` one; its header is checked before its numbers are read."""
    file = io.BytesIO(contents)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    if [dtype.str, list(shape)] != [expected["dtype"], expected["shape"]] or dtype.kind not in "biufc":
        raise ValueError(f"it holds {dtype} {shape}")
    array = np.frombuffer(contents, dtype, offset=file.tell()).reshape(shape)
    if _fingerprint(array) != expected:
        raise ValueError("it is not the array that the run was given")
    return array


def _digest(asked: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()
