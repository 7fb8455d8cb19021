"""Networks for images, (n, height, width, channels): `lenet` and `resnet20_frn`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from models.architectures.convolutions import average_pool, convolution, filter_response
from models.classifiers import Categorical
from models.layers import Activation, Batch, activated, check_activation, dense
from models.likelihoods import Likelihood
from models.networks import Network
from models.priors import Normal, Prior
from models.validation import in_precision, positive_integer

__all__ = ["LeNet", "ResNet", "lenet", "resnet20_frn"]

_UNPADDED = 32  # sides from which LeNet's first layer needs no padding


@dataclass(frozen=True)
class LeNet:
    """Convolutions, then dense layers (LeCun et al. 1998).

    The convolutions "conv0", "conv1", ... are each followed by the activation and a mean over blocks of 2 x 2, the
    dense layers "hidden0", "hidden1", ... by the activation; the last one is "output".

    Attributes:
        channels: the filters of each convolution.
        hidden: the units of each hidden dense layer.
        kernel: the side of the convolutions' kernels.
        activation: the name of one of `models.layers.ACTIVATIONS`, or a function of one array.
    """

    channels: tuple[int, ...] = (6, 16)
    hidden: tuple[int, ...] = (120, 84)
    kernel: int = 5
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        for name in ("channels", "hidden"):
            object.__setattr__(self, name, _sizes(f"lenet: {name}", getattr(self, name)))
        positive_integer("lenet: kernel", self.kernel)
        check_activation(self.activation)

    def __call__(self, x: Float[Batch, "n height width c"], outputs: int, prior: Prior) -> Float[Array, "n k"]:
        """Convolve, activate and pool; then dense layers on all that is left."""
        for i, filters in enumerate(self.channels):
            padding = "same" if i == 0 and x.shape[1] < _UNPADDED else "valid"
            x = activated(self.activation, convolution(f"conv{i}", x, filters, self.kernel, prior, padding=padding))
            x = average_pool(x, 2)
        x = x.reshape(len(x), -1)
        for i, units in enumerate(self.hidden):
            x = activated(self.activation, dense(f"hidden{i}", x, units, prior))
        return dense("output", x, outputs, prior)

    def prepared(self, x: np.ndarray, precision: str) -> np.ndarray:
        """`x` as images in `precision`, large enough for all layers."""
        images = _images(x, precision)
        side = min(images.shape[1:3])
        for i in range(len(self.channels)):
            side = (side if i == 0 and images.shape[1] < _UNPADDED else side - self.kernel + 1) // 2
        if side < 1:
            raise ValueError(
                f"x has images of {images.shape[1]} x {images.shape[2]}, too small for {len(self.channels)} "
                f"convolutions with kernel={self.kernel}; use a smaller kernel or fewer channels"
            )
        return images

    def rows_at_once(self, x: np.ndarray) -> int | None:
        """Patches of a block of rows fit the processor's cache."""
        return 64


@dataclass(frozen=True)
class ResNet:
    """A residual network with filter response normalisation (He et al. 2016; Izmailov et al. 2021).

    A layer is a convolution, its normalisation and the activation. "stem" is followed by three stages of blocks; stage
    s has `width` 2^s channels, and stages after the first halve the sides. A block adds two layers,
    "stage1_block1_conv1" and "stage1_block1_conv2", to its input; where the shape changes the input goes through the
    1 x 1 layer "stage2_block1_shortcut". The mean over all places goes to the dense layer "output". Every convolution
    has a bias, and every normalisation its gain, offset and threshold.

    Attributes:
        depth: the number of layers, 6 b + 2 with b blocks in each stage.
        width: the channels of the first stage.
        activation: the name of one of `models.layers.ACTIVATIONS`, or a function of one array.
    """

    depth: int = 20
    width: int = 16
    activation: Activation = "silu"

    def __post_init__(self) -> None:
        positive_integer("resnet20_frn: depth", self.depth)
        positive_integer("resnet20_frn: width", self.width)
        if self.depth < 8 or (self.depth - 2) % 6:
            raise ValueError(
                f"resnet20_frn: depth must be 8, 14, 20, ... (6 b + 2 for b blocks a stage), got {self.depth}"
            )
        check_activation(self.activation)

    def __call__(self, x: Float[Batch, "n height width c"], outputs: int, prior: Prior) -> Float[Array, "n k"]:
        """x <- activation(layer(layer(x)) + x) in every block, then the mean over places and h W + b."""
        x = activated(self.activation, self._normalised("stem", x, self.width, prior))
        for stage in range(3):
            for block in range((self.depth - 2) // 6):
                name, filters = f"stage{stage + 1}_block{block + 1}", self.width * 2**stage
                first = stage > 0 and block == 0
                stride = 2 if first else 1
                inner = activated(self.activation, self._normalised(f"{name}_conv1", x, filters, prior, stride=stride))
                inner = self._normalised(f"{name}_conv2", inner, filters, prior)
                if first:
                    x = self._normalised(f"{name}_shortcut", x, filters, prior, kernel=1, stride=stride)
                x = activated(self.activation, x + inner)
        return dense("output", x.mean(axis=(1, 2)), outputs, prior)

    def _normalised(
        self, layer: str, x: Batch, filters: int, prior: Prior, kernel: int = 3, stride: int = 1
    ) -> Float[Array, "n height width k"]:
        prior = prior.for_layer(layer)
        return filter_response(layer, convolution(layer, x, filters, kernel, prior, stride), prior)

    def prepared(self, x: np.ndarray, precision: str) -> np.ndarray:
        """`x` as images in `precision`."""
        return _images(x, precision)

    def rows_at_once(self, x: np.ndarray) -> int | None:
        """Patches of a block of rows fit the processor's cache."""
        return 16


def lenet(
    channels: Sequence[int] = (6, 16),
    hidden: Sequence[int] = (120, 84),
    kernel: int = 5,
    activation: Activation = "relu",
    prior: Any = Normal(1.0),  # noqa: B008 (frozen)
    likelihood: Likelihood = Categorical(10),  # noqa: B008 (frozen)
) -> Network:
    """LeNet-5 for images such as 28 x 28, whose first layer is padded, and 32 x 32.

    Args:
        channels: the filters of each convolution.
        hidden: the units of each hidden dense layer.
        kernel: the side of the convolutions' kernels.
        activation: "relu", "tanh", "silu" or another name of `models.mlp`, or a function of one array.
        prior: one prior for all weights and biases, or several by layer and kind; see `models.Rules`.
        likelihood: the distribution of the targets given the outputs.
    """
    return Network(LeNet(tuple(channels), tuple(hidden), kernel, activation), prior, likelihood)


def resnet20_frn(
    depth: int = 20,
    width: int = 16,
    activation: Activation = "silu",
    prior: Any = Normal(1.0),  # noqa: B008 (frozen)
    likelihood: Likelihood = Categorical(10),  # noqa: B008 (frozen)
) -> Network:
    """ResNet-20 with filter response normalisation, as Izmailov et al. (2021) ran HMC on it.

    It has no batch statistics and no augmentation, so the posterior is well defined. Gains, offsets and thresholds have
    the same prior as all weights.

    Args:
        depth: the number of layers: 8, 14, 20, 32, ...
        width: the channels of the first of three stages; the next ones have twice and four times as many.
        activation: "silu", "relu" or another name of `models.mlp`, or a function of one array.
        prior: one prior for all weights, or several by layer and kind; see `models.Rules`.
        likelihood: the distribution of the targets given the outputs.
    """
    return Network(ResNet(depth, width, activation), prior, likelihood)


def _images(x: np.ndarray, precision: str) -> np.ndarray:
    """`x` as images in `precision`; raise ValueError with a remedy if it is not that."""
    if x.ndim == 3:
        raise ValueError(f"x must have shape (n, height, width, channels), got {x.shape}; add channels: x[..., None]")
    if x.ndim != 4 or 0 in x.shape:
        raise ValueError(
            f"x must have shape (n, height, width, channels), got {x.shape}; for flat rows use x.reshape(n, height, "
            "width, channels)"
        )
    if x.dtype.kind in "iu":
        raise ValueError(
            f"x holds {x.dtype} images with values up to {x.max()}, and a network takes floats; scale them first, for "
            "instance by x / 255, or load them with data.load, whose splits standardise them"
        )
    if x.shape[1] <= 4 < x.shape[3]:
        raise ValueError(
            f"x has shape {x.shape}, which looks like channels first; put them last: np.moveaxis(x, 1, -1)"
        )
    return in_precision("x", x, precision)


def _sizes(name: str, values: Any) -> tuple[int, ...]:
    for value in values:
        positive_integer(f"{name}: the size of a layer", value)
    return tuple(int(value) for value in values)
