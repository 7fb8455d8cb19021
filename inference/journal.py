"""A stage of a run on disk: what its chains have emitted, and where they are, so that a crash loses a few seconds.

A stage has a folder:

    draws-000.npy, scalars-000.npy, ...    one array per site and per scalar; see `inference.columns`
    state-0.bin, state-1.bin               all chains' states, the bytes of their arrays one after the other
    manifest-0.json, manifest-1.json       how many draws count, the SHA-256 of their chunks and of the state

Saving writes first the arrays, then the state, then the manifest, each to the disk before the next begins, and the two
places of state and manifest in turn. So a kill at any moment leaves the last save whole; a damaged one is told by its
SHA-256, and the one before it takes its place. Names of files are fixed: no text of a manifest becomes a path.
"""

from __future__ import annotations

import hashlib
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data.files import write_durably
from inference.columns import Column
from inference.ledgers import Ledger, Saved, Values, cut
from inference.manifests import read_manifests, write_manifest
from inference.packing import packed, unpacked

__all__ = ["Journal"]

_SHARE = 50  # saving may take one part in so many of the time ...
_LONGEST = 60.0  # ... unless more than this many seconds would be lost


class Journal(Ledger):
    """What the chains of a stage have emitted, on disk.

    Args:
        folder: of the stage; what it holds already is gone on with.
        every: seconds between two saves.
    """

    durable = True

    def __init__(self, folder: Path, every: float = 10.0) -> None:
        super().__init__()
        self._folder, self._every = folder, every
        self._columns: dict[tuple[str, str], Column] = {}
        self._manifests = read_manifests(folder)
        self._number = max((manifest["number"] for manifest in self._manifests), default=-1) + 1
        self._saved = time.monotonic()
        self._pause = every

    @property
    def manifest(self) -> dict[str, Any] | None:
        """The last save; None if there is none."""
        return self._manifests[0] if self._manifests else None

    def restore(self, chains: int, template: Callable[[], Any]) -> list[Saved | None]:
        """Each chain as it was last saved; None where there is nothing to go on with.

        A damaged save gives way to the one before it. A chain whose draws are damaged begins anew.
        """
        chosen = next(((manifest, state) for manifest in self._manifests if (state := self._state(manifest))), None)
        if chosen is None:
            if self._manifests:
                warnings.warn(f"{self._folder}: no state is whole; the stage begins anew", stacklevel=2)
            self._manifests = []
            return [None] * chains
        manifest, state = chosen
        self._open(manifest["columns"])
        self._manifests = [manifest]
        self.compile_seconds, self.run_seconds = manifest["compile_seconds"], manifest["run_seconds"]
        self.ended = manifest["ended"]
        trees = unpacked(state, template(), len(manifest["chains"]), self._folder)
        found: list[Saved | None] = []
        for i, (chain, arrays) in enumerate(zip(manifest["chains"], trees, strict=True)):
            sound = self._sound(i, chain, "it is computed anew from its beginning")
            kept = chain["kept"] if sound == chain["kept"] else 0
            for column, digests in zip(self._columns.values(), chain["digests"], strict=True):
                column.go_on(i, kept, digests)
            whole = sound == chain["kept"]
            found.append(Saved(arrays, chain["done"], chain["gradients"], chain["stopped"]) if whole else None)
        if None in found:
            self.ended = ""
        for column in self._columns.values():
            if not column.readable():  # then all its chains begin anew
                column.create()
        return found

    def begin(self, chains: int, length: int, emission: tuple[Any, Any]) -> None:
        """Make the files, unless they are there."""
        groups = zip(("draws", "scalars"), emission, strict=True)
        described = [
            {"group": group, "name": name, "dtype": np.dtype(leaf.dtype).str, "shape": [chains, length, *leaf.shape]}
            for group, leaves in groups
            for name, leaf in leaves.items()
        ]
        if self.manifest is None:
            self._open(described)
            self._folder.mkdir(exist_ok=True)
            self.size, free = (
                sum(column.size for column in self._columns.values()),
                shutil.disk_usage(self._folder).free,
            )
            if self.size > free:
                raise OSError(
                    f"{self._folder.parent} needs {self.size / 1e6:,.1f} MB for all draws, and its disk has "
                    f"{free / 1e6:,.1f} MB left; keep fewer (draws, thin, keep) or use another disk"
                )
            for column in self._columns.values():
                column.create()
        elif described != self.manifest["columns"]:
            raise ValueError(f"{self._folder} holds other sites or shapes than this run has")

    def add(self, chain: int, draws: Values, scalars: Values) -> None:
        """Write the next draws of a chain; they count from the next save on."""
        for group, values in (("draws", draws), ("scalars", scalars)):
            for name, each in values.items():
                self._columns[group, name].append(chain, each)

    def due(self) -> bool:
        """Whether the last save is long enough ago."""
        return time.monotonic() - self._saved >= self._pause

    def save(self, chains: Sequence[Saved], compile_seconds: float, run_seconds: float, ended: str) -> None:
        """Make all that was added, and the chains as they are now, outlive a crash."""
        began = time.monotonic()
        for column in self._columns.values():
            column.sync()
        place = 1 - self.manifest["place"] if self.manifest else 0
        state = packed([chain.arrays for chain in chains])
        write_durably(self._folder / f"state-{place}.bin", state)
        manifest = {
            "number": self._number,
            "place": place,
            "columns": [
                {"group": group, "name": name, "dtype": column.dtype.str, "shape": list(column.shape)}
                for (group, name), column in self._columns.items()
            ],
            "chains": [
                {
                    "done": chain.done,
                    "kept": max((column.count(i) for column in self._columns.values()), default=0),
                    "gradients": chain.gradients,
                    "stopped": chain.stopped,
                    "digests": [column.digests(i) for column in self._columns.values()],
                }
                for i, chain in enumerate(chains)
            ],
            "state": hashlib.sha256(state).hexdigest(),
            "compile_seconds": compile_seconds,
            "run_seconds": run_seconds,
            "ended": ended,
        }
        write_manifest(self._folder, manifest)
        self._manifests, self._number = [manifest], self._number + 1
        self._saved = time.monotonic()
        self._pause = max(self._every, min(_SHARE * (self._saved - began), _LONGEST))

    def values(self, chains: Sequence[int]) -> tuple[Values, Values]:
        """Draws and scalars of some chains, cut to the shortest; they stay on disk until they are looked at."""
        groups: tuple[Values, Values] = {}, {}
        for (group, name), column in self._columns.items():
            count = min((column.count(chain) for chain in chains), default=0)
            groups[group == "scalars"][name] = cut(column.values(), chains, count)
        return groups

    def look(self) -> tuple[Values, Values, dict[int, str]]:
        """Draws and scalars so far for one who only reads, and which chains have stopped and why.

        A chain whose draws are damaged is cut off before the damage.
        """
        if self.manifest is None:
            return {}, {}, {}
        self._open(self.manifest["columns"])
        for i, chain in enumerate(self.manifest["chains"]):
            sound = self._sound(i, chain, "they and what follows are cut off")
            for column in self._columns.values():
                column.look(i, sound)
        stopped = {i: chain["stopped"] for i, chain in enumerate(self.manifest["chains"]) if chain["stopped"]}
        return *self.values([i for i in range(len(self.manifest["chains"])) if i not in stopped]), stopped

    def states(self, template: Any) -> list[Any]:
        """The states of the last save, for one who only reads."""
        assert self.manifest is not None
        state = self._state(self.manifest)
        if state is None:
            raise ValueError(f"{self._folder}: the state is damaged, or was being replaced; try again")
        return unpacked(state, template, len(self.manifest["chains"]), self._folder)

    def close(self) -> None:
        """Close the files."""
        for column in self._columns.values():
            column.close()

    def _open(self, described: list[dict[str, Any]]) -> None:
        counts = {"draws": 0, "scalars": 0}
        for each in described:
            group = each["group"]
            path = self._folder / f"{group}-{counts[group]:03}.npy"
            self._columns[group, each["name"]] = Column(path, tuple(each["shape"]), np.dtype(each["dtype"]))
            counts[group] += 1

    def _sound(self, chain: int, saved: dict[str, Any], consequence: str) -> int:
        """How many of the draws of a chain are as they were written; the damage is named."""
        least = saved["kept"]
        for column, digests in zip(self._columns.values(), saved["digests"], strict=True):
            sound = column.sound(chain, saved["kept"], digests)
            if sound < saved["kept"]:
                last = min(sound + column.length, saved["kept"]) - 1
                warnings.warn(
                    f"{column.path}: draws {sound} to {last} of chain {chain} are damaged; {consequence}", stacklevel=3
                )
            least = min(least, sound)
        return least

    def _state(self, manifest: dict[str, Any]) -> bytes | None:
        path = self._folder / f"state-{manifest['place']}.bin"
        state = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        if hashlib.sha256(state).hexdigest() == manifest["state"]:
            return state
        warnings.warn(f"{path} is damaged; the save before it is used", stacklevel=3)
        return None
