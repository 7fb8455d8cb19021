"""A stage of a run on disk: what its chains have emitted, and where they are, so that a crash loses a few seconds.

A stage has a folder:

    draws-000.npy, scalars-000.npy, ...    one array per site and per scalar; see `inference.disk.array_file`
    state-0.bin, state-1.bin               all chains' states, the bytes of their arrays one after the other
    manifest-0.json, manifest-1.json       how many draws count, the SHA-256 of their chunks and of the state

Saving writes first the arrays, then the state, then the manifest, each to the disk before the next begins; the two
places of state and manifest take turns. So a kill at any moment leaves the last save whole. A damaged save is known by
its SHA-256, and the save before it takes its place. Names of files are fixed: no text of a manifest becomes a path.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from data.files import read_regular, write_durably
from inference.disk.array_file import Column
from inference.disk.manifest import read_manifests, write_manifest
from inference.disk.state_bytes import packed, packed_size, unpacked
from inference.engine.ledger import Ledger, Saved, Values, cut
from inference.engine.pace import current_pace
from inference.host.telling import tell

__all__ = ["Journal"]

_COPIED = 64  # draws at a time
_LONGEST = 60.0  # seconds between two saves, whatever share of the time they take


class Journal(Ledger):
    """What the chains of a stage have emitted, on disk.

    Args:
        folder: the stage's folder; the stage is resumed from what the folder already holds.
        every: seconds between two saves.
    """

    durable = True

    def __init__(self, folder: Path, every: float = 10.0) -> None:
        super().__init__()
        self._folder, self._every, self._share = folder, every, current_pace().saving_share
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
        """Each chain as it was last saved; None where there is nothing to resume.

        A damaged save gives way to the one before it. A chain whose draws are damaged starts over.
        """
        if not self._manifests:
            return [None] * chains
        form = template()
        state = self._choose(form)
        if state is None:
            tell(f"{self._folder}: no state is whole; the stage begins anew")
            return [None] * chains
        manifest = self._manifests[0]
        self._open(manifest["columns"])
        self.compile_seconds, self.run_seconds = manifest["compile_seconds"], manifest["run_seconds"]
        self.ended = manifest["ended"]
        found: list[Saved | None] = []
        for i, arrays in enumerate(unpacked(state, form, len(manifest["chains"]))):
            chain = manifest["chains"][i]
            whole = self._sound(i, chain, "it is computed anew from its beginning") == chain["kept"]
            for column, digests in zip(self._columns.values(), chain["digests"], strict=True):
                column.go_on(i, chain["kept"] if whole else 0, digests)
            found.append(Saved(arrays, chain["done"], chain["gradients"], chain["stopped"]) if whole else None)
        if None in found:
            self.ended = ""
        return found

    def begin(self, chains: int, length: int, emission: tuple[Any, Any]) -> None:
        """Make the files for `chains` x `length` draws shaped like `emission`, unless they are there."""
        described = [
            {"group": group, "name": name, "dtype": _dtype(name, leaf), "shape": [chains, length, *leaf.shape]}
            for group, leaves in zip(("draws", "scalars"), emission, strict=True)
            for name, leaf in leaves.items()
        ]
        if self.manifest is None:
            self._open(described)
            self._make_room()
        elif described != [{key: column[key] for key in described[0]} for column in self.manifest["columns"]]:
            raise ValueError(f"{self._folder} holds other sites or shapes than this run has")
        for column in self._columns.values():
            if self.manifest is None or not column.readable():  # then all its chains start over
                column.create()

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
                {
                    "group": group,
                    "name": name,
                    "dtype": column.dtype.str,
                    "shape": list(column.shape),
                    "chunk": column.length,
                }
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
        self._pause = max(self._every, min(self._share * (self._saved - began), _LONGEST))

    def values(self, chains: Sequence[int], most: int | None = None) -> tuple[Values, Values]:
        """Draws and scalars of `chains`, cut to the shortest and to `most`; they stay on disk until they are used."""
        groups: tuple[Values, Values] = {}, {}
        for (group, name), column in self._columns.items():
            count = min((column.count(chain) for chain in chains), default=0)
            groups[group == "scalars"][name] = cut(column.values(), chains, count if most is None else min(count, most))
        return groups

    def copy_to(self, other: Journal, draws: int, template: Callable[[], Any]) -> None:
        """Copy all that the chains have emitted, and where they are, to a journal with room for more `draws`."""
        chains = self.restore(len(self._manifests[0]["chains"]), template)
        if None in chains:
            raise ValueError(f"{self._folder}: draws are damaged; inference.resume computes them again, then extend")
        emission: tuple[dict[str, Any], dict[str, Any]] = {}, {}
        for (group, name), column in self._columns.items():
            emission[group == "scalars"][name] = np.empty(column.shape[2:], column.dtype)
        other.begin(len(chains), draws, emission)
        for i in range(len(chains)):
            groups = self.values([i])
            count = min(values.shape[1] for group in groups for values in group.values())
            for first in range(0, count, _COPIED):
                some = slice(first, first + _COPIED)
                other.add(i, *({name: values[0, some] for name, values in group.items()} for group in groups))
        self.close()
        other.save([chain for chain in chains if chain], self.compile_seconds, self.run_seconds, "")
        other.close()

    def look(self, template: Callable[[], Any] | None) -> tuple[Values, Values, list[Any]]:
        """Read, and only read, what the chains that have not stopped have drawn so far.

        A chain whose draws are damaged is cut off before the damage.

        Returns:
            Draws, scalars, and the chains' states in the form of `template()`; no states if `template` is None.
        """
        if self.manifest is None:
            return {}, {}, []
        ends: list[Any] = []
        if template is not None:
            form = template()
            state = self._choose(form)  # before the draws are checked, which may take long
            if state is None:
                raise ValueError(f"{self._folder}: no state is whole")
            ends = unpacked(state, form, len(self.manifest["chains"]))
        self._open(self.manifest["columns"])
        for i, chain in enumerate(self.manifest["chains"]):
            sound = self._sound(i, chain, "they and what follows are cut off")
            for column in self._columns.values():
                column.look(i, sound)
        going = [i for i in range(len(self.manifest["chains"])) if i not in self.stopped]
        if not all(column.readable() for column in self._columns.values()):
            return {}, {}, []
        return *self.values(going), [ends[i] for i in going] if ends else []

    @property
    def stopped(self) -> dict[int, str]:
        """The chains that had stopped before their end at the last save, and why."""
        chains = self.manifest["chains"] if self.manifest else []
        return {i: chain["stopped"] for i, chain in enumerate(chains) if chain["stopped"]}

    def close(self) -> None:
        """Close the files."""
        for column in self._columns.values():
            column.close()

    def _open(self, described: list[dict[str, Any]]) -> None:
        counts = {"draws": 0, "scalars": 0}
        for each in described:
            group = each["group"]
            path = self._folder / f"{group}-{counts[group]:03}.npy"
            shape, dtype, length = tuple(each["shape"]), np.dtype(each["dtype"]), each.get("chunk")
            self._columns[group, each["name"]] = Column(path, shape, dtype, length)
            counts[group] += 1

    def _sound(self, chain: int, saved: dict[str, Any], consequence: str) -> int:
        """How many of a chain's first draws are as they were written; warns of damage, and of its `consequence`."""
        least = saved["kept"]
        for column, digests in zip(self._columns.values(), saved["digests"], strict=True):
            sound = column.sound(chain, saved["kept"], digests)
            if sound < saved["kept"]:
                last = min(sound + column.length, saved["kept"]) - 1
                tell(f"{column.path}: draws {sound} to {last} of chain {chain} are damaged; {consequence}")
            least = min(least, sound)
        return least

    def _choose(self, form: Any) -> bytes | None:
        """The state of the newest save that is whole, which becomes the only save; warns of damaged ones."""
        while self._manifests:
            manifest = self._manifests[0]
            path = self._folder / f"state-{manifest['place']}.bin"
            try:
                state = read_regular(path, len(manifest["chains"]) * packed_size(form))
                if hashlib.sha256(state).hexdigest() == manifest["state"]:
                    self._manifests = [manifest]
                    return state
            except (OSError, ValueError):  # gone, or something else in its place
                pass
            tell(f"{path} is damaged; the save before it is used")
            self._manifests = self._manifests[1:]
        return None

    def _make_room(self) -> None:
        """Make the folder, and check that all draws will fit on its disk.

        Raises:
            OSError: if the draws won't fit.
        """
        self._folder.mkdir(exist_ok=True)
        self.size = sum(column.size for column in self._columns.values())
        free = shutil.disk_usage(self._folder).free
        if self.size > free:
            raise OSError(
                f"{self._folder.parent} needs {self.size / 1e6:,.1f} MB for all draws, and its disk has "
                f"{free / 1e6:,.1f} MB left; keep fewer (draws, thin, keep) or use another disk"
            )


def _dtype(name: str, leaf: Any) -> str:
    dtype = np.dtype(leaf.dtype)
    if dtype.kind not in "biufc":
        raise TypeError(f"the site '{name}' has the dtype {dtype}, which a file of draws can't hold; make it float32")
    return dtype.str
