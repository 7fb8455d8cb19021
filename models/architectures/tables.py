r"""What a dense network needs in front of it for a table with missing numbers or embedded columns: `for_table`.

A row of inputs is (plain numbers, places, codes), see `data.tabular.schema`. With z the site "missing", one unknown for
each number that is missing in the training rows, and E_c the table of the embedded column c, the network is given

    [ plain + z at the places,   1 where there is a place, else 0,   E_1[code_1], E_2[code_2], ... ]

z has the prior N(0, 1), which is the distribution of a standardised number as far as its first two moments tell. So the
posterior is the joint one of the weights and what is missing,

    p(w, z | x, y)  \propto  p(y | x, z, w) p(z) p(w),

and every sampler that is exact for the weights is exact for both. The unknowns belong to the model and not to rows: a
row's place says which one it needs. So the log-likelihood can be taken over any rows, a minibatch or a block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from data import Schema, Split
from models.architectures.perceptrons import Perceptron
from models.architectures.sequences import embedding
from models.layers import Batch, from_data
from models.networks import Network
from models.priors import Prior
from models.validation import in_precision

__all__ = ["TableInputs", "for_table", "perceptron_of"]


@dataclass(frozen=True)
class TableInputs:
    """A dense network whose inputs are rows of a table.

    Attributes:
        network: the layers behind.
        plain: how many inputs of a row are plain numbers; they are the first.
        incomplete: which of these may be missing; each has a place, in this order, behind the plain numbers.
        unknowns: how many are missing in the training rows.
        embedded: for each embedded column, whose codes are the last inputs, its number of categories and of units.
    """

    network: Perceptron
    plain: int
    incomplete: tuple[int, ...] = ()
    unknowns: int = 0
    embedded: tuple[tuple[int, int], ...] = ()

    @property
    def codes(self) -> tuple[int, ...]:
        """The inputs of a row that are places or codes."""
        return tuple(range(self.plain, self.plain + len(self.incomplete) + len(self.embedded)))

    @property
    def places(self) -> slice:
        """The inputs of a row that are places."""
        return slice(self.plain, self.plain + len(self.incomplete))

    def __call__(self, x: Float[Batch, "n d"], outputs: int, prior: Prior) -> Float[Array, "n k"]:
        """The network's outputs, with unknowns in their places and embeddings for codes."""
        parts = [jnp.asarray(x[:, : self.plain])]
        if self.incomplete:
            places = jnp.asarray(x[:, self.places]).astype(jnp.int32)
            if self.unknowns:
                values = jnp.take(prior.sample_unknowns(self.unknowns), jnp.maximum(places - 1, 0))
                missing = jnp.where(places > 0, values, 0.0).astype(x.dtype)
                parts = [parts[0].at[:, jnp.array(self.incomplete)].add(missing)]
            parts.append((places > 0).astype(x.dtype))
        codes = jnp.asarray(x[:, self.places.stop :]).astype(jnp.int32)
        for i, (categories, units) in enumerate(self.embedded):
            code = from_data(codes[:, i : i + 1])
            parts.append(embedding(f"embedding{i}", code, categories, units, prior)[:, 0])
        return self.network(from_data(jnp.concatenate(parts, axis=1)), outputs, prior)

    def prepared(self, x: np.ndarray, precision: str) -> np.ndarray:
        """`x` in `precision`; raise ValueError unless it is rows of this table, with places that the network has."""
        width = self.plain + len(self.codes)
        if x.ndim != 2 or x.shape[1] != width:
            raise ValueError(f"x must have shape (n, {width}), as the rows of the table, got {x.shape}")
        places, codes = x[:, self.places], x[:, self.places.stop :]
        if (places < 0).any():
            raise ValueError(
                f"x has a missing number in row {int((places < 0).any(axis=1).argmax())}, for which the network has no "
                "unknown, because the row is not one that it was trained on; predict draws it from its prior"
            )
        most = np.array([[self.unknowns] * len(self.incomplete) + [size - 1 for size, _ in self.embedded]])
        every = np.concatenate([places, codes], axis=1)
        if ((every != np.round(every)) | (every < 0) | (every > most)).any():
            raise ValueError("x has places or codes that are not those of the table; take x from a split of it")
        return in_precision("x", x, precision)

    def rows_at_once(self, x: np.ndarray) -> int | None:
        """As many as the sampler takes by default."""
        return None

    def extended(self, unknowns: int) -> TableInputs:
        """The same network with more unknowns."""
        return replace(self, unknowns=unknowns)


def for_table(network: Network, train: Any) -> Network:
    """A dense network with what a table needs in front of it: unknowns for missing numbers, and embeddings.

    Args:
        network: `models.linear`, `models.logistic` or `models.mlp`.
        train: the training split of a table, or its schema.

    Returns:
        The network for this table; `network` as it is if the table has neither missing numbers nor embedded columns.

    Raises:
        TypeError: if the network is another one, or `train` is not the split of a table.
    """
    schema = (
        train
        if isinstance(train, Schema)
        else train.origin.schema
        if isinstance(train, Split) and train.origin
        else None
    )
    if schema is None:
        raise TypeError("for_table needs the training split of a table, data.table(...).split()[0], or its schema")
    if not schema.codes:
        return network
    architecture: Any = network.architecture
    if not isinstance(architecture, Perceptron):
        raise TypeError(f"for_table needs models.linear, logistic or mlp, got {type(architecture).__name__}")
    embedded = tuple((len(column.categories), column.units) for column in schema.embedded)
    inputs = TableInputs(architecture, schema.plain, schema.incomplete_inputs, schema.unknowns, embedded)
    return replace(network, architecture=inputs)


def perceptron_of(network: Network) -> Perceptron | None:
    """The dense layers of a network, behind what a table needs in front of them; None if it has others."""
    architecture: Any = network.architecture
    layers = architecture.network if isinstance(architecture, TableInputs) else architecture
    return layers if isinstance(layers, Perceptron) else None
