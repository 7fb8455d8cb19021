"""How fast is the gradient of a large network inside a sampler, against one written by hand, and PyTorch's?

ResNet-20-FRN on 256 images of 32 x 32, and the CNN-LSTM on 256 rows of 100 tokens. A sampler is a loop, so ours is
timed inside one, as HMC takes it, prior and all; by hand there is only the network, with convolutions as products over
patches. PyTorch's is timed where it is installed. Then, what tracing and compiling a whole HMC run of ResNet-20-FRN
takes, start and all: the seconds of a first run less those of a second one, on small images, because the programs
don't grow with the images. Goals: at most 1.1 times the time by hand, for the ResNet at most 1.4 times PyTorch's, and
60 seconds.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import inference
import models
from benchmarks.timing import medians, table
from inference.target.binding import bind

__all__ = ["images", "inside_a_sampler", "main"]

_ROWS, _BLOCK, _REPEATS = 256, 16, 5
Weights = dict[str, jax.Array]


def images() -> tuple[np.ndarray, np.ndarray]:
    """Noise in the shape of images, and labels."""
    generator = np.random.default_rng(0)
    return generator.normal(size=(_ROWS, 32, 32, 3)).astype(np.float32), generator.integers(0, 10, _ROWS)


def _tokens() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.integers(0, 20_000, (_ROWS, 100)), generator.integers(0, 2, _ROWS)


def inside_a_sampler(
    model: Any, x: np.ndarray, y: np.ndarray, block: int | None = None
) -> tuple[Callable[[], Any], Weights]:
    """One gradient step of our log density in a loop, and the weights at which it is taken; `block` rows at a time."""
    target, data = bind(model, (x, y), 1.0, "posterior", block)[:2]
    data = jax.device_put(data)
    weights = jax.jit(lambda data: target.start(jax.random.key(0), data)[0])(data)
    return partial(_loop(lambda weights: jax.grad(target.log_density)(weights, data)), weights), weights


def _loop(gradient: Callable[[Weights], Weights]) -> Callable[[Weights], Weights]:
    """A compiled loop of one step along a gradient; the number of steps is an argument, so it stays a loop."""

    @jax.jit
    def steps(weights: Weights, count: jax.Array) -> Weights:
        def step(_: jax.Array, weights: Weights) -> Weights:
            return jax.tree.map(lambda leaf, slope: leaf + 1e-9 * slope, weights, gradient(weights))

        return lax.fori_loop(0, count, step, weights)

    return lambda weights: jax.block_until_ready(steps(weights, jnp.int32(1)))


def _convolved(x: jax.Array, weight: jax.Array, bias: jax.Array, stride: int = 1) -> jax.Array:
    side = weight.shape[0]
    count = -(-x.shape[1] // stride)
    missing = max((count - 1) * stride + side - x.shape[1], 0)
    edges = missing // 2, missing - missing // 2
    x = jnp.pad(x, ((0, 0), edges, edges, (0, 0)))
    end = (count - 1) * stride + 1
    seen = [x[:, i : i + end : stride, j : j + end : stride] for i, j in product(range(side), repeat=2)]
    return jnp.concatenate(seen, axis=-1) @ weight.reshape(-1, weight.shape[-1]) + bias


def _resnet(weights: Weights, x: jax.Array) -> jax.Array:
    """ResNet-20-FRN by hand."""

    def layer(name: str, x: jax.Array, stride: int = 1) -> jax.Array:
        x = _convolved(x, weights[f"{name}.weight"], weights[f"{name}.bias"], stride)
        x = weights[f"{name}.gain"] * x * lax.rsqrt(jnp.mean(x * x, axis=(1, 2), keepdims=True) + 1e-6)
        return jnp.maximum(x + weights[f"{name}.offset"], weights[f"{name}.threshold"])

    x = jax.nn.silu(layer("stem", x))
    for stage, block in product((1, 2, 3), repeat=2):
        name, stride = f"stage{stage}_block{block}", 2 if stage > 1 and block == 1 else 1
        inner = layer(f"{name}_conv2", jax.nn.silu(layer(f"{name}_conv1", x, stride)))
        x = jax.nn.silu(inner + (layer(f"{name}_shortcut", x, stride) if stride == 2 else x))
    return x.mean(axis=(1, 2)) @ weights["output.weight"] + weights["output.bias"]


def _cnn_lstm(weights: Weights, x: jax.Array) -> jax.Array:
    """The CNN-LSTM by hand."""
    embedded, kernel = weights["embedding.weight"][x], weights["conv.weight"]
    length = x.shape[1] - len(kernel) + 1
    patches = jnp.concatenate([embedded[:, i : i + length] for i in range(len(kernel))], axis=-1)
    convolved = jax.nn.relu(patches @ kernel.reshape(-1, kernel.shape[-1]) + weights["conv.bias"])
    pooled = convolved.reshape(len(x), length // 4, 4, -1).max(axis=2)

    def step(state: tuple[jax.Array, jax.Array], now: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        memory, output = state
        gates = jnp.concatenate([now, output], axis=-1) @ weights["lstm.weight"] + weights["lstm.bias"]
        enter, new, keep, leave = jnp.split(gates, 4, axis=-1)
        memory = jax.nn.sigmoid(keep + 1) * memory + jax.nn.sigmoid(enter) * jnp.tanh(new)
        return (memory, jax.nn.sigmoid(leave) * jnp.tanh(memory)), None

    nothing = jnp.zeros((len(x), weights["lstm.bias"].size // 4))
    (_, output), _ = lax.scan(step, (nothing, nothing), pooled.swapaxes(0, 1))
    return output @ weights["output.weight"] + weights["output.bias"]


def _by_hand(network: Callable[..., jax.Array], x: np.ndarray, y: np.ndarray, block: int) -> Callable[..., Any]:
    inputs, labels = jnp.asarray(x).reshape(-1, block, *x.shape[1:]), jnp.asarray(y).reshape(-1, block)

    def log_likelihood(weights: Weights, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.take_along_axis(jax.nn.log_softmax(network(weights, x)), y[:, None], axis=1).sum()

    def gradient(weights: Weights) -> Weights:
        def add(total: Weights, rows: tuple[jax.Array, jax.Array]) -> tuple[Weights, None]:
            return jax.tree.map(jnp.add, total, jax.grad(log_likelihood)(weights, *rows)), None

        if len(inputs) == 1:
            return jax.grad(log_likelihood)(weights, inputs[0], labels[0])
        return lax.scan(add, jax.tree.map(jnp.zeros_like, weights), (inputs, labels))[0]

    return _loop(gradient)


def _pytorch(x: np.ndarray, y: np.ndarray) -> Callable[[], Any] | None:
    """ResNet-20-FRN's gradient by PyTorch, channels last; None where PyTorch is not installed."""
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return None
    functional = torch.nn.functional
    parameters: list[Any] = []

    def layer(inputs: int, filters: int, side: int = 3, stride: int = 1) -> Callable[[Any], Any]:
        convolution = torch.nn.Conv2d(inputs, filters, side, stride, side // 2).to(memory_format=torch.channels_last)
        norm = [torch.full((1, filters, 1, 1), value, requires_grad=True) for value in (1.0, 0.0, -1.0)]
        parameters.extend([*convolution.parameters(), *norm])

        def call(x: Any) -> Any:
            x = convolution(x)
            x = norm[0] * x * torch.rsqrt((x * x).mean((2, 3), keepdim=True) + 1e-6) + norm[1]
            return torch.maximum(x, norm[2])

        return call

    stem, blocks, inputs = layer(3, 16), [], 16
    for stage, block in product(range(3), repeat=2):
        filters, stride = 16 * 2**stage, 2 if stage and not block else 1
        shortcut = layer(inputs, filters, 1, stride) if stride == 2 else lambda x: x
        blocks.append((layer(inputs, filters, 3, stride), layer(filters, filters), shortcut))
        inputs = filters
    output = torch.nn.Linear(64, 10)
    parameters.extend(output.parameters())
    images = torch.tensor(np.moveaxis(x, -1, 1).copy()).to(memory_format=torch.channels_last)
    labels = torch.tensor(y)

    def call() -> None:
        hidden = functional.silu(stem(images))
        for first, second, shortcut in blocks:
            hidden = functional.silu(second(functional.silu(first(hidden))) + shortcut(hidden))
        loss = functional.cross_entropy(output(hidden.mean((2, 3))), labels, reduction="sum")
        torch.autograd.grad(loss, parameters)

    return call


def _compiling() -> float:
    """Seconds of a first HMC run of ResNet-20-FRN less those of a second one, without programs kept on disk."""
    jax.config.update("jax_enable_compilation_cache", False)
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(128, 8, 8, 3)).astype(np.float32), generator.integers(0, 10, 128)
    method = inference.HMC(chains=1, draws=1, warmup=1, step_size=1e-3, trajectory_length=2e-3)
    seconds = []
    for seed in range(2):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", inference.TouchstoneWarning)  # two iterations are no sampling
            inference.run(models.resnet20_frn(), x, y, method=method, seed=seed, progress=False)
        seconds.append(time.perf_counter() - began)
    return seconds[0] - seconds[1]


def main() -> None:
    """Print the time of each gradient, and ours as a multiple of the others; then the time of compiling."""
    rows: list[tuple[str, ...]] = [("network", "ours, in a sampler", "by hand", "ratio", "PyTorch", "ratio")]
    for name, model, (x, y), network, block in (
        ("ResNet-20-FRN", models.resnet20_frn(), images(), _resnet, _BLOCK),
        ("CNN-LSTM", models.cnn_lstm(), _tokens(), _cnn_lstm, _ROWS),
    ):
        ours, weights = inside_a_sampler(model, x, y)
        cases: dict[str, Callable[[], object]] = {"ours": ours}
        cases["hand"] = partial(_by_hand(network, x, y, block), weights)
        if network is _resnet and (pytorch := _pytorch(x, y)):
            cases["PyTorch"] = pytorch
        seconds = medians(cases, _REPEATS)
        others: list[str] = []
        for peer in ("hand", "PyTorch"):
            known = peer in seconds
            others += [f"{seconds[peer]:.3f} s", f"{seconds['ours'] / seconds[peer]:.2f}"] if known else ["-", "-"]
        rows.append((name, f"{seconds['ours']:.3f} s", *others))
    table(rows)
    print(f"tracing and compiling an HMC run of ResNet-20-FRN: {_compiling():.0f} s")


if __name__ == "__main__":
    main()
