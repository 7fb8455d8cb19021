"""`touchstone data`: the data sets that are known."""

from __future__ import annotations

import data
from touchstone.answers import AsJSON, answering

__all__ = ["list_data"]


def list_data(as_json: AsJSON = False) -> None:
    """List the data sets; those that are not at hand are downloaded, or asked for, when they are first loaded."""
    with answering(as_json) as answer:
        listed: list[dict[str, object]] = []
        for name in data.names():
            if not data.at_hand(name):
                listed.append({"name": name, "at_hand": False})
                answer.say(f"{name:22}not in the cache")
                continue
            dataset = data.load(name)
            task = "regression" if dataset.classes is None else f"{dataset.classes} classes"
            shape = "x".join(map(str, dataset.x.shape[1:]))
            listed.append({"name": name, "at_hand": True, "rows": len(dataset), "inputs": dataset.x.shape[1:],
                           "classes": dataset.classes, "source": dataset.source})  # fmt: skip
            answer.say(f"{name:22}{len(dataset):>6} rows x {shape:<8} {task:12} {dataset.source}")
        answer.say(sets=listed)
