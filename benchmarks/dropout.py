"""How fast are MC dropout's training and its prediction, against loops by hand and PyTorch?

A 1x50 relu network on 1,000 rows of 8 inputs. Training drops inputs of both layers at rate 0.1 with a mask per example,
in batches of 128 that are slices of one permutation an epoch. Prediction makes 1,000 passes at 1,000 points. Ours has a
mask per pass, which is a whole set of weights, drawn when the fit ends; dropout as PyTorch has it draws one per pass
and point. Loops by hand are timed with both, and so is PyTorch, where it is installed; where the first layer drops
nothing they compute it once. Goals: training at least 0.85 of the speed of the loop by hand and 8 times that of
PyTorch's; prediction at least 2.2 times as fast as PyTorch's best with a mask per pass and point.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

import inference
import models
from benchmarks.timing import medians, slopes, table

__all__ = ["main"]

_ROWS, _INPUTS, _UNITS, _NOISE, _LEARNING_RATE = 1000, 8, 50, 0.3, 0.01
_BATCH = 128
_BATCHES = _ROWS // _BATCH  # of an epoch
_PASSES = 1000
_RATE = 0.1
_SHORT, _LONG = 100, 2100  # epochs of a fit
_FEWER_PYTORCH = 10  # so many times fewer epochs, because each takes that much longer
_REPEATS = 5
_MODEL = models.mlp((_UNITS,), "relu", likelihood=models.Gaussian(scale=_NOISE))
_OPTIONS: dict[str, Any] = dict(
    method="svi", guide="dropout", batch_size=_BATCH, learning_rate=_LEARNING_RATE, progress=False
)

Weights = tuple[jax.Array, jax.Array, jax.Array, jax.Array]
Rates = tuple[float, float]


def _data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(_ROWS, _INPUTS)).astype(np.float32)
    return x, (np.sin(2 * x[:, 0]) + _NOISE * generator.normal(size=_ROWS)).astype(np.float32)


def _start() -> Weights:
    first_key, last_key = jax.random.split(jax.random.key(0))
    first = jax.random.normal(first_key, (_INPUTS, _UNITS)) / np.sqrt(_INPUTS)
    last = jax.random.normal(last_key, (_UNITS, 1)) / np.sqrt(_UNITS)
    return first, jnp.zeros(_UNITS), last, jnp.zeros(1)


def _dense(x: jax.Array, matrix: jax.Array, bias: jax.Array, rate: float, key: jax.Array, per: str) -> jax.Array:
    """A layer that drops its inputs, with a mask per "point" or per "pass"."""
    if rate == 0:
        return x @ matrix + bias
    if per == "pass":
        return x @ (jax.random.bernoulli(key, 1 - rate, (len(matrix), 1)) * matrix) + bias
    return (x * jax.random.bernoulli(key, 1 - rate, x.shape)) @ matrix + bias


@partial(jax.jit, static_argnames="epochs")
def _fit_by_hand(weights: Weights, x: jax.Array, y: jax.Array, key: jax.Array, epochs: int) -> Any:
    optimiser = optax.adam(optax.cosine_decay_schedule(_LEARNING_RATE, epochs * _BATCHES))

    def loss(weights: Weights, x: jax.Array, y: jax.Array, key: jax.Array) -> jax.Array:
        first_key, last_key = jax.random.split(key)
        hidden = jax.nn.relu(_dense(x, *weights[:2], _RATE, first_key, "point"))
        residual = (y - _dense(hidden, *weights[2:], _RATE, last_key, "point")[:, 0]) / _NOISE
        matrices, biases = (sum(jnp.sum(leaf**2) for leaf in leaves) for leaves in (weights[::2], weights[1::2]))
        return 0.5 * (_ROWS / _BATCH * jnp.sum(residual**2) + (1 - _RATE) * matrices + biases)

    def step(carry: Any, batch: Any) -> Any:
        weights, state = carry
        value, gradient = jax.value_and_grad(loss)(weights, *batch)
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(weights, updates), state), value

    def epoch(carry: Any, key: jax.Array) -> Any:
        order_key, key = jax.random.split(key)
        order = jax.random.permutation(order_key, _ROWS)[: _BATCHES * _BATCH]
        batches = x[order].reshape(_BATCHES, _BATCH, _INPUTS), y[order].reshape(_BATCHES, _BATCH)
        return lax.scan(step, carry, (*batches, jax.random.split(key, _BATCHES)))

    return lax.scan(epoch, (weights, optimiser.init(weights)), jax.random.split(key, epochs))


def _pytorch_network(torch: Any, rates: Rates = (_RATE, _RATE)) -> Any:
    nn = torch.nn
    layers = nn.Dropout(rates[0]), nn.Linear(_INPUTS, _UNITS), nn.ReLU(), nn.Dropout(rates[1]), nn.Linear(_UNITS, 1)
    return nn.Sequential(*layers)


def _pytorch_fit(torch: Any, x: np.ndarray, y: np.ndarray, fused: bool, epochs: int) -> int:
    network, all_x, all_y = _pytorch_network(torch), torch.from_numpy(x), torch.from_numpy(y)
    decay = _NOISE**2 / _ROWS
    optimiser = torch.optim.Adam(network.parameters(), _LEARNING_RATE, weight_decay=decay, fused=fused)
    for _ in range(epochs // _FEWER_PYTORCH):
        for rows in torch.randperm(_ROWS)[: _BATCHES * _BATCH].reshape(_BATCHES, _BATCH):
            optimiser.zero_grad()
            torch.nn.functional.mse_loss(network(all_x[rows])[:, 0], all_y[rows]).backward()
            optimiser.step()
    return epochs // _FEWER_PYTORCH * _BATCHES


def _training(torch: Any, x: np.ndarray, y: np.ndarray) -> dict[str, Callable[[int], int]]:
    arrays = _start(), jnp.asarray(x), jnp.asarray(y), jax.random.key(1)

    def ours(epochs: int) -> int:
        inference.run(_MODEL, x, y, rate=_RATE, steps=epochs * _BATCHES, draws=1, **_OPTIONS)
        return epochs * _BATCHES

    def by_hand(epochs: int) -> int:
        jax.block_until_ready(_fit_by_hand(*arrays, epochs))
        return epochs * _BATCHES

    cases: dict[str, Callable[[int], int]] = {"touchstone": ours, "hand-written": by_hand}
    if torch is not None:
        cases |= {
            "PyTorch": partial(_pytorch_fit, torch, x, y, False),
            "PyTorch, fused Adam": partial(_pytorch_fit, torch, x, y, True),
        }
    return cases


@partial(jax.jit, static_argnames=("rates", "per", "together"))
def _passes(weights: Weights, x: jax.Array, key: jax.Array, rates: Rates, per: str, together: bool) -> jax.Array:
    """Outputs (pass, point), all passes together or one after the other."""
    same = jax.nn.relu(x @ weights[0] + weights[1])

    def one(key: jax.Array) -> jax.Array:
        first_key, last_key = jax.random.split(key)
        hidden = jax.nn.relu(_dense(x, *weights[:2], rates[0], first_key, per)) if rates[0] else same
        return _dense(hidden, *weights[2:], rates[1], last_key, per)[:, 0]

    keys = jax.random.split(key, _PASSES)
    return jax.vmap(one)(keys) if together else lax.map(one, keys)


def _pytorch_passes(torch: Any, network: Any, x: np.ndarray, how: str) -> np.ndarray:
    """Outputs (pass, point), with a mask per point in a "loop" or one "batch"; or with "whole" sets of weights."""
    inputs, (drop, first, relu, drop_hidden, last) = torch.from_numpy(x), network
    with torch.no_grad():
        if how == "whole":
            sizes = (_INPUTS, drop.p), (_UNITS, drop_hidden.p)
            inner, outer = (torch.bernoulli(torch.full((_PASSES, size, 1), 1 - rate)) for size, rate in sizes)
            hidden = relu(inputs @ (inner * first.weight.T) + first.bias if drop.p else first(inputs))
            return (hidden @ (outer * last.weight.T) + last.bias)[..., 0].numpy()
        start, rest = (inputs, network) if drop.p else (relu(first(inputs)), network[3:])
        if how == "batch":
            return rest(start.expand(_PASSES, *start.shape))[..., 0].numpy()
        return torch.stack([rest(start)[:, 0] for _ in range(_PASSES)]).numpy()


def _prediction(torch: Any, x: np.ndarray, y: np.ndarray, rates: Rates) -> dict[str, Callable[[], object]]:
    rate = {"hidden0": rates[0], "output": rates[1]}
    posterior = inference.run(_MODEL, x, y, rate=rate, steps=700, draws=_PASSES, **_OPTIONS)
    arrays, key = (_start(), jnp.asarray(x)), jax.random.key(1)

    def by_hand(per: str, together: bool) -> np.ndarray:
        return np.asarray(_passes(*arrays, key, rates, per, together))

    cases: dict[str, Callable[[], object]] = {
        "touchstone": lambda: posterior.predict(x).outputs,
        "hand-written, lax.map, per pass": partial(by_hand, "pass", False),
        "hand-written, vmap, per pass": partial(by_hand, "pass", True),
        "hand-written, lax.map, per point": partial(by_hand, "point", False),
        "hand-written, vmap, per point": partial(by_hand, "point", True),
    }
    if torch is not None:
        network = _pytorch_network(torch, rates)
        cases |= {
            "PyTorch, one batch, per pass": partial(_pytorch_passes, torch, network, x, "whole"),
            "PyTorch, loop, per point": partial(_pytorch_passes, torch, network, x, "loop"),
            "PyTorch, one batch, per point": partial(_pytorch_passes, torch, network, x, "batch"),
        }
    return cases


def _best(found: dict[str, float], whose: str, per: str = "") -> float:
    return min(value for name, value in found.items() if name.startswith(whose) and name.endswith(per))


def main() -> None:
    """Print microseconds per step, milliseconds per prediction, and ratios."""
    x, y = _data()
    try:
        torch: Any = importlib.import_module("torch")
    except ModuleNotFoundError:
        torch = None
        print("PyTorch: can't be imported")
    found = slopes(_training(torch, x, y), _SHORT, _LONG, _REPEATS)
    steps = {name: slope for name, (slope, _) in found.items()}
    ours = steps["touchstone"]
    rows = [("training", "us per step", "this / touchstone", "s beyond the steps, second call")]
    rows += [(name, f"{each * 1e6:.1f}", f"{each / ours:.2f}", f"{rest:.2f}") for name, (each, rest) in found.items()]
    table(rows)
    print(f"training, hand-written: {steps['hand-written'] / ours:.2f} (goal: at least 0.85)")
    if torch is not None:
        print(f"training, PyTorch: {_best(steps, 'PyTorch') / ours:.2f} (goal: at least 8)")
    for what, rates in {"hidden layer": (0.0, _RATE), "both layers": (_RATE, _RATE)}.items():
        seconds = medians(_prediction(torch, x, y, rates), _REPEATS)
        ours = seconds["touchstone"]
        print()
        table(
            [(f"prediction, dropout on {what}", "ms", "this / touchstone")]
            + [(name, f"{each * 1e3:.0f}", f"{each / ours:.2f}") for name, each in seconds.items()]
        )
        for per in ("pass", "point"):
            print(f"hand-written, a mask per {per}: {_best(seconds, 'hand-written', per) / ours:.2f}")
        if torch is not None:
            print(f"PyTorch, a mask per pass: {_best(seconds, 'PyTorch', 'pass') / ours:.2f}")
            print(f"PyTorch, a mask per point: {_best(seconds, 'PyTorch', 'point') / ours:.2f} (goal: at least 2.2)")
    draw = partial(inference.run, _MODEL, x, y, rate=_RATE, steps=1, **_OPTIONS)
    drawn = medians({"all": partial(draw, draws=_PASSES), "one": partial(draw, draws=1)}, _REPEATS)
    print(
        f"\n{_PASSES} draws of the weights take {1e3 * (drawn['all'] - drawn['one']):.0f} ms more than one, at the fit"
    )


if __name__ == "__main__":
    main()
