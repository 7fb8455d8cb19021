"""Which weights of a network can trade places: those of the units that no input and no output names.

Permuting the hidden units of a network permutes its weights and leaves its functions as they are. So whatever is known
of one hidden unit's weight, over all posterior draws, is the same for all units of the layer. The inputs of a layer
that reads the data are not such units, and neither are the outputs of the last layer.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from models.effects import Messenger
from models.layers import LinearMap
from models.networks import Network, Recorder

__all__ = ["shared_shapes"]

_STANDARD = ".standard"  # the suffix of sites that hold a weight in units of its scale


def shared_shapes(model: Network, x: np.ndarray, sites: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shapes of those `sites` that hold weights, with length 1 where an axis has units that trade places.

    The other axes are those of inputs, of the positions of a kernel and of outputs. Of a lifted network only the layers
    that announce themselves are known to read the data, and no layer is known to be the last one.
    """
    readers, recorder = _Readers(), Recorder()

    def record(x: Any) -> Any:
        readers.inputs = [x]
        with readers:
            return model.architecture(x, model.likelihood.heads, recorder)

    jax.eval_shape(record, x[:1])
    shapes = {site.name: (site, shape) for site, shape in recorder.asked}
    last = "" if hasattr(model.architecture, "values_of") else model.last_layer(x)
    shared = {}
    for name, shape in sites.items():
        if (weight := name.removesuffix(_STANDARD)) not in shapes or shapes[weight][1] != shape:
            continue
        site = shapes[weight][0]
        ends = site.layer == last
        if len(shape) < 2 or not site.inputs_first:
            shared[name] = shape if ends else (1,) * len(shape)
        else:
            inputs = shape[-2] if site.layer in readers.layers else 1
            shared[name] = (*shape[:-2], inputs, shape[-1] if ends else 1)
    return shared


class _Readers(Messenger):
    """Notes the layers that are applied to `inputs` themselves, or to what was made of them."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[Any] = []
        self.layers: set[str] = set()

    def process_message(self, message: dict[str, Any]) -> None:
        if message["type"] == "inputs":
            self.inputs.append(message["args"][0])
        if message["type"] == "layer" and isinstance(message["fn"], LinearMap):
            if any(message["args"][0] is each for each in self.inputs):
                self.layers.add(message["name"])
