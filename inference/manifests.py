"""Manifests: what counts in a stage's folder, as JSON with its own SHA-256, in two places that take turns."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from data.files import write_durably

__all__ = ["read_manifests", "write_manifest"]


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest to its place."""
    text = json.dumps(manifest)
    sealed = json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "manifest": text})
    write_durably(folder / f"manifest-{manifest['place']}.json", sealed.encode())


def read_manifests(folder: Path) -> list[dict[str, Any]]:
    """The saves of a stage that are whole, the newest first."""
    found = []
    for path in sorted(folder.glob("manifest-[01].json")):
        try:
            if path.is_symlink():
                raise ValueError("it is a link, which a run has none of")
            sealed = json.loads(path.read_bytes())
            if hashlib.sha256(sealed["manifest"].encode()).hexdigest() != sealed["sha256"]:
                raise ValueError("its SHA-256 is another")
            found.append(_checked(json.loads(sealed["manifest"])))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            warnings.warn(f"{path} is damaged ({error}); the save before it is used", stacklevel=3)
    return sorted(found, key=lambda manifest: -manifest["number"])


def _checked(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest, if it is one: whoever wrote it, its numbers must be possible."""
    columns, chains = manifest["columns"], manifest["chains"]
    sizes = {tuple(column["shape"][:2]) for column in columns}
    possible = (
        isinstance(manifest["number"], int)
        and manifest["place"] in (0, 1)
        and len(sizes) == 1
        and all(isinstance(size, int) and size >= 0 for column in columns for size in column["shape"])
        and all(column["group"] in ("draws", "scalars") and isinstance(column["name"], str) for column in columns)
        and all(np.dtype(column["dtype"]).kind in "biufc" for column in columns)
        and len(chains) == next(iter(sizes))[0] > 0
        and all(0 <= chain["kept"] <= next(iter(sizes))[1] and chain["done"] >= 0 for chain in chains)
        and all(len(chain["digests"]) == len(columns) for chain in chains)
        and all(isinstance(chain["stopped"], str) and chain["gradients"] >= 0 for chain in chains)
        and manifest["compile_seconds"] + manifest["run_seconds"] >= 0
        and isinstance(manifest["state"], str)
        and manifest["ended"] in ("", "draws", "until")
    )
    if not possible:
        raise ValueError("its numbers are impossible")
    return manifest
