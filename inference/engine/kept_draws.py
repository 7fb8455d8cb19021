"""What is kept of a sampler's draws: all sites, those of the last layer, or none.

Where not all is kept, the functions at the posterior's probes are, so that convergence can still be judged where it
counts. And predictions at given inputs can be averaged while the draws are made, whatever is kept of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from inference.engine.ledger import Values
from inference.host.compiling import TRACING
from inference.results.network_outputs import function_values, network_outputs
from inference.results.prediction import Prediction
from inference.results.running_averages import Average
from models import Network

__all__ = ["FUNCTIONS", "Keeping"]

FUNCTIONS = "functions"  # what the functions at the probes are called among the scalars of a draw


@dataclass(frozen=True, eq=False)
class Keeping:
    """What to keep.

    Attributes:
        keep: "all", "last_layer" or "none".
        model: whose draws they are.
        probes: inputs at which functions are kept, if not all is.
        inputs: at which predictions are averaged; None averages none.
    """

    keep: str
    model: Callable[..., Any]
    probes: np.ndarray
    inputs: np.ndarray | None = None

    def __call__(self, draws: Values) -> tuple[Values, Values]:
        """What is kept of some draws, (draw, ...), and the functions, if not all is."""
        if self.keep == "all":
            return draws, {}
        kept = {name: values for name, values in draws.items() if self._keeps(name)}
        if not isinstance(self.model, Network):
            return kept, {}
        functions = [
            function_values(self.model, outputs, draw)[0, 0] for draw, outputs in self._one_by_one(draws, self.probes)
        ]
        return kept, {FUNCTIONS: np.array(functions, next(iter(draws.values())).dtype)}

    def begin(self, draw: Values) -> Average | None:
        """Averages of nothing, in the shapes that a draw like this one gives."""
        if self.inputs is None:
            return None
        return next(Average.begin(self._prediction(*each)) for each in self._one_by_one(draw, self.inputs))

    def averaged(self, average: Average | None, draws: Values) -> Average | None:
        """The averages with some more draws."""
        if average is None or self.inputs is None:
            return average
        for each in self._one_by_one(draws, self.inputs):
            average = average.after(self._prediction(*each))
        return average

    def _one_by_one(self, draws: Values, inputs: np.ndarray) -> Iterator[tuple[Values, np.ndarray]]:
        """Each draw and its outputs, (1, 1, ...), alone: its bits so don't depend on its company."""
        assert isinstance(self.model, Network)
        for i in range(len(next(iter(draws.values())))):
            draw = {name: values[None, i : i + 1] for name, values in draws.items()}
            with TRACING:
                outputs = network_outputs(self.model, draw, inputs)
            yield draw, outputs

    def _prediction(self, draw: Values, outputs: np.ndarray) -> Any:
        assert isinstance(self.model, Network)
        return Prediction.of(self.model.likelihood, outputs, draw)

    def _keeps(self, name: str) -> bool:
        if self.keep == "none":
            return False
        assert isinstance(self.model, Network)
        layers = [site.layer for site in self.model.sites(self.probes)]
        return not any(name.startswith(f"{layer}.") for layer in layers if layer != layers[-1])
