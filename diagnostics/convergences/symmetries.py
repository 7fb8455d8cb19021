r"""Symmetries of a perceptron, and draws with them undone.

Hidden units can trade places and, under an odd activation, change sign, and the function stays the same. Draws are
aligned by relabelling: the units of each draw are matched with those of a pivot. A unit u of layer l is what goes into
and comes out of it, (W_l[:, u], b_l[u], W_{l+1}[u, :]). The permutation pi and the signs s that bring the units w of a
draw closest to those v of the pivot are the assignment that maximises

    sum_u  c[u, pi(u)],    c[u, t] = <v_u, w_t>,   or |<v_u, w_t>| with s = its sign where the activation is odd.

Several hidden layers are matched in turn, given the others, until nothing changes. The pivot is first the draw of the
highest density, then the mean of some draws aligned with that one. The map is the same for all chains, so the R-hat of
aligned draws is a fair comparison.

References: Marin & Robert 2007, section 6.4 (pivotal reordering); Stephens 2000 (relabelling),
https://doi.org/10.1111/1467-9868.00265.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from data.rows import spaced
from inference import Posterior
from models import Network
from models.architectures.perceptrons import Perceptron
from models.architectures.tables import perceptron_of
from models.layers import ACTIVATIONS, Activation

__all__ = ["Alignment", "is_odd"]

_SWEEPS = 3  # sweeps over the hidden layers of one draw
_PIVOT_DRAWS = 100  # draws, over all chains, whose mean is the pivot
_EFFORT, _LEAST_DRAWS = 5e8, 20  # an assignment takes time like the cube of a layer's units: seconds in all

Weights = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Alignment:
    """Which hidden unit of each draw corresponds to each unit of the pivot, and with which sign.

    Attributes:
        draws: which draws of each chain are aligned.
        order: for each hidden layer (chain, draw, units), the numbers of the draw's units in the pivot's order.
        sign: for each hidden layer (chain, draw, units), the signs of these units, 1 or -1.
    """

    draws: Int[np.ndarray, " draw"]
    order: tuple[Int[np.ndarray, "chain draw _"], ...]
    sign: tuple[Float[np.ndarray, "chain draw _"], ...]

    @classmethod
    def of(cls, posterior: Posterior) -> Alignment | None:
        """Align the draws of a perceptron; None for other models, and for no hidden units or too many of them.

        For a large network fewer draws are aligned, evenly spaced, so that this takes seconds.
        """
        model = posterior.model
        perceptron = perceptron_of(model) if isinstance(model, Network) else None
        if perceptron is None or not perceptron.hidden or not posterior.complete:
            return None
        chains, draws = posterior.shape
        effort = _sweeps(perceptron) * sum(units**3 for units in perceptron.hidden)
        count = min(draws, int(_EFFORT / effort / chains))
        if count < min(draws, _LEAST_DRAWS):
            return None
        names = [name for layer in _layers(perceptron) for name in (f"{layer}.weight", f"{layer}.bias")]
        if not all(name in posterior.draws for name in names):  # some are fixed, so units can't trade places
            return None
        odd = is_odd(perceptron.activation)

        def draw_at(place: tuple[int, ...]) -> Weights:
            return {name: posterior.draws[name][place].astype(np.float64) for name in names}

        pivot = draw_at(divmod(int(np.argmax(posterior.statistics["lp"])), draws))
        some = spaced(draws, -(-_PIVOT_DRAWS // chains))
        total = {name: np.zeros_like(value) for name, value in pivot.items()}
        for place in product(range(chains), some):
            draw = draw_at(place)
            for name, value in _relabelled(perceptron, draw, _match(perceptron, pivot, draw, odd)).items():
                total[name] += value / (chains * len(some))
        kept = spaced(draws, count)
        found = [_match(perceptron, total, draw_at(place), odd) for place in product(range(chains), kept)]
        order, sign = (
            tuple(np.stack([labels[layer][part] for labels in found]).reshape(chains, len(kept), -1)
                  for layer in range(len(perceptron.hidden)))
            for part in (0, 1)
        )  # fmt: skip
        return cls(kept, order, sign)

    def __contains__(self, name: str) -> bool:
        """Whether a site is moved by the alignment."""
        layer, kind = _layer_and_kind(name)
        return (layer == "output" and kind == "weight") or (layer.startswith("hidden") and kind in ("weight", "bias"))

    def gather(self, name: str, values: np.ndarray, indices: Int[np.ndarray, " k"]) -> np.ndarray:
        """Entries of a site after the alignment, (chain, draw, k), from its values in all draws, (chain, draw, ...)."""
        layer, kind = _layer_and_kind(name)
        after = len(self.order) if layer == "output" else int(layer.removeprefix("hidden"))
        chain, draw, _ = np.ogrid[: values.shape[0], : len(self.draws), :1]
        places = list(np.unravel_index(indices, values.shape[2:]))
        sign = np.ones((1, 1, len(indices)))
        # The rows of a weight matrix follow the units of the layer before, its columns and the biases its own layer's.
        axes = [(0, after)] if kind == "bias" else [(0, after - 1), (1, after)]
        for axis, number in axes:
            if 0 <= number < len(self.order):
                sign = sign * self.sign[number][chain, draw, places[axis]]
                places[axis] = self.order[number][chain, draw, places[axis]]
        return values[(chain, self.draws[draw], *places)] * sign


def _layer_and_kind(name: str) -> tuple[str, str]:
    """The layer and the kind of a site, also of one such as "hidden0.weight.standard".

    There a hierarchical prior draws weights divided by a scale that units share, so they move with the units too.
    """
    layer, _, kind = name.removesuffix(".standard").rpartition(".")
    return layer, kind


def is_odd(activation: Activation) -> bool:
    """Whether f(-z) = -f(z)."""
    function = activation if callable(activation) else ACTIVATIONS[activation]
    z = jnp.linspace(0.0, 5.0, 41)
    return bool(jnp.allclose(function(-z), -function(z), rtol=1e-5, atol=1e-6))


def _layers(perceptron: Perceptron) -> list[str]:
    return [*(f"hidden{i}" for i in range(len(perceptron.hidden))), "output"]


def _sweeps(perceptron: Perceptron) -> int:
    """The number of sweeps over the hidden layers; a single layer is matched in one."""
    return 1 if len(perceptron.hidden) == 1 else _SWEEPS


Labels = list[tuple[np.ndarray, np.ndarray]]


def _match(perceptron: Perceptron, pivot: Weights, draw: Weights, odd: bool) -> Labels:
    """The order and sign of each hidden layer's units that bring a draw closest to the pivot."""
    layers = _layers(perceptron)
    found: Labels = []
    for sweep in range(_sweeps(perceptron)):
        before = list(found)
        for i in range(len(perceptron.hidden)):
            here, after = layers[i], layers[i + 1]
            incoming = draw[f"{here}.weight"]
            if i > 0:
                order, sign = found[i - 1]
                incoming = incoming[order] * sign[:, None]
            likeness = pivot[f"{here}.weight"].T @ incoming + np.outer(pivot[f"{here}.bias"], draw[f"{here}.bias"])
            if i + 1 == len(perceptron.hidden):
                likeness += pivot[f"{after}.weight"] @ draw[f"{after}.weight"].T
            elif sweep > 0:  # in the first sweep, the units of the next layer have not been matched yet
                order, sign = found[i + 1]
                likeness += pivot[f"{after}.weight"] @ (draw[f"{after}.weight"][:, order] * sign).T
            order = linear_sum_assignment(np.abs(likeness) if odd else likeness, maximize=True)[1]
            sign = np.where(odd & (likeness[np.arange(len(order)), order] < 0), -1.0, 1.0)
            found[i : i + 1] = [(order, sign)]
        if before and all(np.array_equal(new, old) for new, old in zip(found, before, strict=True)):
            break
    return found


def _relabelled(perceptron: Perceptron, draw: Weights, labels: Labels) -> Weights:
    """A draw with its hidden units in another order and with other signs: the same function."""
    moved = dict(draw)
    layers = _layers(perceptron)
    for i, (order, sign) in enumerate(labels):
        moved[f"{layers[i]}.weight"] = moved[f"{layers[i]}.weight"][:, order] * sign
        moved[f"{layers[i]}.bias"] = moved[f"{layers[i]}.bias"][order] * sign
        moved[f"{layers[i + 1]}.weight"] = moved[f"{layers[i + 1]}.weight"][order] * sign[:, None]
    return moved
