"""The one record that every method gives back.

Nothing downstream asks which method ran: a point estimate is one draw, a guide gives independent draws, a sampler gives
chains of them. `Posterior.kind` says which of these the draws are, because they are judged differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from data import Origin
from data.pairs import inputs_of
from data.rows import spaced
from data.tabular.reading import is_frame
from inference.display.cards import card
from inference.display.tables import Table
from inference.host.arithmetic import arithmetic
from inference.host.arviz import grouped
from inference.host.compiling import TRACING, tracing
from inference.host.hosts import is_first
from inference.host.machine import Cost
from inference.host.seeds import Stream, as_key
from inference.methods import Method
from inference.results.network_outputs import ROWS, network_outputs
from inference.results.prediction import Prediction
from inference.results.running_averages import Averages
from inference.results.simulation import simulated
from inference.results.table_predictions import encoded
from inference.results.unknown_inputs import Completed, completed, enough_draws, has_new_unknowns
from models import Network
from models.architectures.tables import perceptron_of
from models.validation import positive_integer

__all__ = ["Posterior"]

_ENDED = {
    "draws": "all draws were made", "until": "enough draws were made", "interrupted": "stopped early by Ctrl-C",
    "unfinished": "not finished",
}  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Draws of a model's sites given data, and how they came about.

    Attributes:
        model: the model that was run.
        method: the method that ran, a record of its options.
        seed: the integer, or the words of the key, that `run` was given.
        temperature: T.
        tempering: what the temperature divides.
        draws: each site's values, (chain, draw, ...), deterministic sites included.
        statistics: scalars of each draw, (chain, draw), under ArviZ's names.
        curves: scalars of each step of a method that optimises, (chain, step).
        observed: what the model observed.
        probes: for a network, inputs at which its functions are judged, in, between and outside its data; else empty.
        deterministic: the names of the sites that follow from the others.
        cost: seconds, gradients and memory.
        start: how the chains started: "ensemble", "map", "random", "prior", or "given" by the user.
        ended: why the run ended: "draws", all were made; "until", enough were; "interrupted", by Ctrl-C; "unfinished",
            it has not, or a crash has ended it.
        stopped: the chains that stopped before their end, by number, and why; their draws are left out.
        functions: where not all draws were kept, the functions at the probes, (chain, draw, k).
        guide: for a guide, its fitted parameters by name, such as "hidden0.weight.mean" and "hidden0.weight.std".
        averages: the predictions that were averaged while the draws were made, if `predict_at` asked for them.
        notes: what the run warned of before it began, such as data that lose digits; no verdict depends on it.
        concerns: what the run warned of when it was over; `diagnostics.convergence` counts each as a failure.
        origin: where the data came from, and for a table its schema; None if `run` was not given a `Split`.
        further: where the chains are, from which `inference.extend` goes on; None if that is not known.
    """

    model: Callable[..., Any]
    method: Method
    seed: int | tuple[int, ...]
    temperature: float
    tempering: str
    draws: dict[str, np.ndarray]
    statistics: dict[str, np.ndarray]
    curves: dict[str, np.ndarray]
    observed: dict[str, np.ndarray]
    probes: np.ndarray
    deterministic: tuple[str, ...]
    cost: Cost
    start: str = "random"
    ended: str = "draws"
    stopped: dict[int, str] = field(default_factory=dict)
    functions: np.ndarray | None = None
    averages: Averages | None = None
    guide: dict[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    concerns: tuple[str, ...] = ()
    origin: Origin | None = None
    further: Any = None

    def __repr__(self) -> str:
        return (
            f"<Posterior by {self.method.name}: {self._amount} of {len(self.draws)} sites, {self.cost.seconds:.1f} s, "
            f"ended by {self.ended!r}; predict, idata, draws and statistics have its numbers>"
        )

    def _repr_html_(self) -> str:
        spent = (
            f"{self._amount} in {self.cost.seconds:.1f} s, {self.cost.compile_seconds:.1f} s of it for compiling and "
            f"starts; {self.cost.gradients:,} gradients; {_ENDED.get(self.ended, self.ended)}."
        )
        tempered = f"Temperature {self.temperature:g} of the {self.tempering}." if self.temperature != 1 else ""
        stopped = [f"Chain {chain} stopped before its end: {why}" for chain, why in self.stopped.items()]
        told = [*stopped, *self.concerns, *self.notes]
        sites = Table(
            "", ("site", "shape", "values", "mean ± standard deviation"), [_row(*site) for site in self.draws.items()]
        )
        note = "predict, idata, draws and statistics have its numbers; diagnostics.convergence judges it."
        return card(f"Posterior by {self.method.name}", self.model_in_words, spent, tempered, told, sites, note=note)

    @property
    def _amount(self) -> str:
        """How many draws there are, in words."""
        chains, draws = self.shape
        each = f"{draws:,} draw{'' if draws == 1 else 's'}"
        return each if chains == 1 else f"{chains} {'members' if self.kind == 'point' else 'chains'} of {each}"

    @property
    def model_in_words(self) -> str:
        """The architecture and the kind of likelihood of a network, or the name of another model."""
        if isinstance(self.model, Network):
            layers: Any = perceptron_of(self.model) or self.model.architecture
            table = ", with the columns of a table in front" if layers is not self.model.architecture else ""
            return f"{layers}{table}, {type(self.model.likelihood).__name__} likelihood"
        return str(getattr(self.model, "__name__", "a NumPyro model"))

    @property
    def linearised(self) -> bool:
        """Whether the network predicts linearised at the mean of the draws, "<site>.mean" in `guide`."""
        return isinstance(self.model, Network) and self.method.options().get("linearised", False) is not False

    @property
    def partial(self) -> bool:
        """Whether the run was stopped before its end, or has not come to it yet."""
        return self.ended in ("interrupted", "unfinished")

    @property
    def complete(self) -> bool:
        """Whether all sites of each draw were kept, so that the draws can predict."""
        return self._keep == "all"

    @property
    def _keep(self) -> str:
        return self.method.options().get("keep", "all")

    @property
    def kind(self) -> str:
        """What the draws are: "chains", "guide" or "point"."""
        return self.method.kind

    @property
    def shape(self) -> tuple[int, int]:
        """The number of chains and of draws per chain."""
        chain, draw = next(iter((self.draws or self.statistics).values()), np.empty((0, 0))).shape[:2]
        return chain, draw

    @cached_property
    def idata(self) -> Any:
        """The draws as ArviZ has them, in the groups posterior, sample_stats and observed_data.

        An `arviz.InferenceData` where ArviZ 0.23 is installed, an `xarray.DataTree` where 1.x is.
        """
        attributes = {
            "inference_library": "touchstone",
            "method": self.method.name,
            "temperature": self.temperature,
            "tempering": self.tempering,
            "start": self.start,
            "ended": self.ended,
            "partial": int(self.partial),
        }
        every = range(self.shape[0] + len(self.stopped))
        chains = [chain for chain in every if chain not in self.stopped]
        draws = {"posterior": self.draws, "sample_stats": self.statistics}
        return grouped(draws, self.curves, self.observed, chains, attributes)

    def predict(self, *args: Any, draws: int | None = None, batch_size: int | None = None) -> Prediction:
        """What the posterior says at new inputs.

        Args:
            args: for a network, the inputs `x`, or a `Split` whose inputs are taken; if it was run on a table, also a
                data frame or a mapping with the same columns; for any other model, its arguments with the observed
                ones left out or None.
            draws: how many draws per chain to use, evenly spaced; None uses all.
            batch_size: rows at a time, to bound the memory; for networks.

        Returns:
            A `Prediction` in the units of the `y` that was given to `run`; for a data frame in the target's own units,
            with the frame's index. For a model that is not a network, what `simulate` gives.
        """
        if not isinstance(self.model, Network):
            if batch_size is not None:
                raise ValueError("batch_size needs a network of models, whose rows are known; leave it out")
            sites: Any = self.simulate(*args, draws=draws)
            return sites
        chosen = self._chosen(draws)
        x = _inputs(args)
        schema = self.origin.schema if self.origin is not None else None
        if schema is None or not (is_frame(x) or isinstance(x, Mapping)):
            with TRACING:
                return self._predict_network(x, chosen, batch_size)
        x, rows = encoded(x, schema)
        with TRACING:
            prediction = self._predict_network(x, chosen, batch_size)
        target = schema.target
        return replace(prediction.rescaled(np.asarray(target.location), np.asarray(target.scale)), rows=rows)

    def simulate(self, *args: Any, draws: int | None = None) -> dict[str, np.ndarray]:
        """The observed and deterministic sites of any model, run once with each draw of its latent sites.

        Args:
            args: the model's arguments, with the observed ones left out or None.
            draws: how many draws per chain to use, evenly spaced; None uses all.

        Returns:
            The sites by name, each (chain, draw, ...).
        """
        chosen = self._chosen(draws)
        with tracing(self.method.precision):
            key = jax.random.fold_in(as_key(self.seed), Stream.PREDICTIONS)
            latent = {name: values for name, values in chosen.items() if name not in self.deterministic}
            return simulated(self.model, args, latent, key)

    def _chosen(self, draws: int | None) -> dict[str, np.ndarray]:
        """The draws to predict with, `draws` per chain."""
        if not self.complete:
            raise ValueError(
                f"the draws can't predict, because the run kept {'none' if not self.draws else 'some'} of them "
                f'(keep="{self._keep}"); give run the inputs (predict_at=x), or keep="all"'
            )
        return self._thinned(draws)

    def save(self, path: str | Path) -> None:
        """Write the posterior to one file that `inference.load` reads, of several hosts on the first one alone."""
        from inference.results.npz import save

        if is_first():
            save(self, path)

    def _thinned(self, draws: int | None) -> dict[str, np.ndarray]:
        if draws is None:
            return self.draws
        positive_integer("draws", draws)
        available = self.shape[1]
        if draws > available:
            raise ValueError(f"draws must be at most the {available} draws per chain there are, got {draws}")
        chosen = spaced(available, draws)
        return {name: values[:, chosen] for name, values in self.draws.items()}

    def _predict_network(self, x: Any, draws: dict[str, np.ndarray], batch_size: int | None) -> Prediction:
        model = self.model
        assert isinstance(model, Network)
        if batch_size is not None:
            positive_integer("batch_size", batch_size)
        around = self.guide if self.linearised else {}
        parts = [Completed(model, draws, x, around)]
        if has_new_unknowns(model, x):
            draws = enough_draws(draws) if self.kind == "point" else draws
            random = np.random.default_rng((Stream.PREDICTIONS, *np.atleast_1d(self.seed)))
            size = batch_size or ROWS
            pieces = (np.asarray(x)[first : first + size] for first in range(0, len(x), size))
            parts = [completed(model, draws, piece, around, random) for piece in pieces]
        outputs = []
        for network, weights, rows, centre in parts:
            (inputs,) = network.validate(rows, precision=self.method.precision)
            with arithmetic(self.method.precision):
                outputs.append(network_outputs(network, weights, inputs, batch_size, centre))
        return Prediction.of(model.likelihood, np.concatenate(outputs, axis=2), draws)


def _inputs(args: tuple[Any, ...]) -> Any:
    if len(args) != 1:
        raise TypeError(f"predict takes the inputs x of a network and nothing else, got {len(args)} arguments")
    return inputs_of(args[0])


def _row(name: str, values: np.ndarray) -> tuple[str, ...]:
    """A site's row of a table; only a scalar's draws are so few that they are summed up just to be looked at."""
    shape = values.shape[2:]
    moments = ""
    if not shape and values.size:
        with np.errstate(all="ignore"):
            moments = f"{values.mean(dtype=np.float64):.3g}"
            moments += f" ± {values.std(dtype=np.float64):.2g}" if values.size > 1 else ""
    return name, " x ".join(map(str, shape)) or "scalar", f"{math.prod(shape):,}", moments
