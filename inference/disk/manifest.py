"""Manifests: what counts in a stage's folder, as JSON with its own SHA-256, in two places that take turns."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from data.files import read_regular, write_durably
from inference.host.telling import tell

__all__ = ["read_manifests", "write_manifest"]

_MOST = 2**28  # bytes: the hashes of 16 TB of draws


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest to its place."""
    text = json.dumps(manifest)
    sealed = json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "manifest": text})
    write_durably(folder / f"manifest-{manifest['place']}.json", sealed.encode())


def read_manifests(folder: Path) -> list[dict[str, Any]]:
    """The manifests of a stage that are whole, the newest first; warns of damaged ones."""
    found = []
    for place in (0, 1):
        path = folder / f"manifest-{place}.json"
        try:
            sealed = json.loads(read_regular(path, _MOST))
            if hashlib.sha256(sealed["manifest"].encode()).hexdigest() != sealed["sha256"]:
                raise ValueError("its SHA-256 is another")
            found.append(_checked(json.loads(sealed["manifest"]), place))
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            tell(f"{path} is damaged ({error}); the save before it is used")
    return sorted(found, key=lambda manifest: -manifest["number"])


def _checked(manifest: dict[str, Any], place: int) -> dict[str, Any]:
    """The manifest itself, after a check: whoever wrote it, its numbers must be possible."""
    columns, chains = manifest["columns"], manifest["chains"]
    sizes = {tuple(column["shape"][:2]) for column in columns}
    if len(sizes) != 1:
        raise ValueError("its arrays have several lengths, or there are none")
    (size,) = sizes
    counts = [manifest["number"], *(chain[name] for chain in chains for name in ("done", "kept"))]
    counts += [length for column in columns for length in (*column["shape"], column["chunk"])]
    seconds = [manifest["compile_seconds"], manifest["run_seconds"], *(chain["gradients"] for chain in chains)]
    texts = [manifest["state"], *(chain["stopped"] for chain in chains), *(column["name"] for column in columns)]
    texts += [digest for chain in chains for digests in chain["digests"] for digest in digests]
    possible = (
        manifest["place"] == place
        and all(type(count) is int and 0 <= count < 2**53 for count in counts)
        and all(type(second) in (int, float) and 0 <= second < 2**53 for second in seconds)
        and all(isinstance(text, str) for text in texts)
        and all(column["group"] in ("draws", "scalars") for column in columns)
        and all(np.dtype(column["dtype"]).kind in "biufc" for column in columns)
        and all(column["chunk"] > 0 for column in columns)
        and len(chains) == size[0] > 0
        and all(chain["kept"] <= size[1] and len(chain["digests"]) == len(columns) for chain in chains)
        and manifest["ended"] in ("", "draws", "until")
    )
    if not possible:
        raise ValueError("its numbers are impossible")
    return manifest
