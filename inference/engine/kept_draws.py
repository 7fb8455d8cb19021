"""What is kept of a sampler's draws: all sites, the last layer's sites, or none.

Where not all is kept, the functions at the posterior's probes are kept, so that convergence can still be judged where
it counts. And predictions at given inputs can be averaged while the draws are made, whatever is kept of them.
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

FUNCTIONS = "functions"  # the name of the functions at the probes among the scalars of a draw


@dataclass(frozen=True, eq=False)
class Keeping:
    """What to keep of each draw.

    Attributes:
        keep: "all", "last_layer" or "none".
        model: the model whose draws they are.
        probes: inputs at which the functions are kept, unless `keep` is "all".
        inputs: inputs at which predictions are averaged; None averages nothing.
    """

    keep: str
    model: Callable[..., Any]
    probes: np.ndarray
    inputs: np.ndarray | None = None

    def __call__(self, draws: Values) -> tuple[Values, Values]:
        """What is kept of `draws`, (draw, ...), and the functions at the probes, unless all sites are kept."""
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
        """An average over no draws, in the shapes that the prediction of `draw` has; None without `inputs`."""
        if self.inputs is None:
            return None
        return next(Average.begin(self._prediction(*each)) for each in self._one_by_one(draw, self.inputs))

    def averaged(self, average: Average | None, draws: Values) -> Average | None:
        """`average` with the predictions of `draws` added to it."""
        if average is None or self.inputs is None:
            return average
        for each in self._one_by_one(draws, self.inputs):
            average = average.after(self._prediction(*each))
        return average

    def _one_by_one(self, draws: Values, inputs: np.ndarray) -> Iterator[tuple[Values, np.ndarray]]:
        """Each draw and its outputs, (1, 1, ...), computed alone, so that its bits don't depend on the other draws."""
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
        last = self.model.last_layer(self.probes)
        others = [site.layer for site in self.model.sites(self.probes) if site.layer != last]
        return not any(name.startswith(f"{layer}.") for layer in others)
