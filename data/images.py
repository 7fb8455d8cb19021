"""Images: MNIST, Fashion-MNIST and CIFAR-10, with their official test parts.

A cached file holds `x_train`, `y_train`, `x_test` and `y_test`, all uint8: images (n, 28, 28) or (n, 32, 32, 3), and
labels (n,). Images are standardised by channel, with mean and standard deviation over all training pixels, because a
single pixel may be constant, or nearly so, over the training part.

Official formats: the IDX files of MNIST (a big-endian header, then bytes), gzipped; the binary version of CIFAR-10 (per
image one byte of label, then 1,024 bytes of each of red, green and blue), in a gzipped tar file.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from data.cache import Archive, File, load_arrays, read_members
from data.datasets import Dataset, official_split

__all__ = ["ARCHIVES", "images"]

_TFDS = "TensorFlow Datasets, tensorflow_datasets/url_checksums"
_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"


def _keys(shape: str) -> dict[str, str]:
    return {
        "x_train": f"uint8 (n, {shape})",
        "y_train": "uint8 (n,)",
        "x_test": f"uint8 (n, {shape})",
        "y_test": "uint8 (n,)",
    }


def _convert_idx(files: Mapping[str, Path]) -> dict[str, np.ndarray]:
    return {
        "x_train": _idx(files["train-images-idx3-ubyte.gz"], 3),
        "y_train": _idx(files["train-labels-idx1-ubyte.gz"], 1),
        "x_test": _idx(files["t10k-images-idx3-ubyte.gz"], 3),
        "y_test": _idx(files["t10k-labels-idx1-ubyte.gz"], 1),
    }


def _idx(path: Path, dimensions: int) -> np.ndarray:
    """An IDX file of unsigned bytes: two zero bytes, type 8, the number of dimensions, their sizes, the values."""
    contents = gzip.decompress(path.read_bytes())
    if contents[:4] != bytes([0, 0, 8, dimensions]):
        raise ValueError(f"{path.name} is not an IDX file of bytes with {dimensions} dimensions")
    shape = np.frombuffer(contents, ">u4", dimensions, offset=4).astype(int)
    values = np.frombuffer(contents, np.uint8, offset=4 + 4 * dimensions)
    if values.size != shape.prod():
        raise ValueError(f"{path.name} should hold {shape.prod()} values, it holds {values.size}")
    return values.reshape(shape)


def _convert_cifar10(files: Mapping[str, Path]) -> dict[str, np.ndarray]:
    batches = read_members(files["cifar-10-binary.tar.gz"], r"cifar-10-batches-bin/(data_batch_\d|test_batch)\.bin")
    train = [_cifar_batch(batches, f"data_batch_{i}.bin") for i in range(1, 6)]
    x_test, y_test = _cifar_batch(batches, "test_batch.bin")
    x_train, y_train = (np.concatenate(parts) for parts in zip(*train, strict=True))
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


def _cifar_batch(batches: Mapping[str, bytes], name: str) -> tuple[np.ndarray, np.ndarray]:
    if f"cifar-10-batches-bin/{name}" not in batches:
        raise ValueError(f"the archive of CIFAR-10 lacks {name}")
    contents = np.frombuffer(batches[f"cifar-10-batches-bin/{name}"], np.uint8)
    if contents.size % 3073:
        raise ValueError(f"{name} should hold images of 3,073 bytes, it holds {contents.size} bytes")
    rows = contents.reshape(-1, 3073)
    return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).copy(), rows[:, 0].copy()


ARCHIVES: dict[str, Archive] = {
    "mnist": Archive(
        "mnist",
        _keys("28, 28"),
        (
            File(f"{_MNIST}/train-images-idx3-ubyte.gz", 9912422,
                 "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            File(f"{_MNIST}/train-labels-idx1-ubyte.gz", 28881,
                 "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            File(f"{_MNIST}/t10k-images-idx3-ubyte.gz", 1648877,
                 "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            File(f"{_MNIST}/t10k-labels-idx1-ubyte.gz", 4542,
                 "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
        _convert_idx,
        f"{_TFDS}/mnist.txt",
    ),
    "fashion_mnist": Archive(
        "fashion_mnist",
        _keys("28, 28"),
        (
            File(f"{_FASHION}/train-images-idx3-ubyte.gz", 26421880,
                 "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            File(f"{_FASHION}/train-labels-idx1-ubyte.gz", 29515,
                 "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            File(f"{_FASHION}/t10k-images-idx3-ubyte.gz", 4422102,
                 "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            File(f"{_FASHION}/t10k-labels-idx1-ubyte.gz", 5148,
                 "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        ),
        _convert_idx,
        f"{_TFDS}/fashion_mnist.txt",
    ),
    "cifar10": Archive(
        "cifar10",
        _keys("32, 32, 3"),
        (
            File("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", 170052171,
                 "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"),
        ),
        _convert_cifar10,
        f"{_TFDS}/cifar10.txt",
    ),
}  # fmt: skip
"""Where each set comes from, by its name."""

_SOURCES = {
    "mnist": "MNIST, handwritten digits (LeCun et al. 1998)",
    "fashion_mnist": "Fashion-MNIST, articles of clothing (Xiao et al. 2017)",
    "cifar10": "CIFAR-10, small colour photographs (Krizhevsky 2009)",
}


def images(name: str) -> Dataset:
    """Load the image set `name`: 10 classes, training rows first, then the official test part."""
    arrays = load_arrays(ARCHIVES[name])
    shape = (32, 32, 3) if name == "cifar10" else (28, 28)
    return official_split(name, arrays, shape, classes=10, source=_SOURCES[name], scaling="channel")
