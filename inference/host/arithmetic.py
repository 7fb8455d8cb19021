"""The arithmetic of a run: float32 or float64, how precise float32 products are, and whether the device has float64.

Left to themselves, accelerators round the factors of a float32 matrix product or convolution first: TPUs to 8 bits,
GPUs with TensorFloat-32 to 11. Float32 has 24. A gradient of such products is no longer that of the log density, so
HMC's energies drift however short its steps are. So products have JAX's precision "highest" on an accelerator, which is
float32's own. A user's own setting wins, and the word "default" stands for what the device does by itself:

    jax.config.update("jax_default_matmul_precision", "high")

On a CPU products have 24 bits in any case, and nothing is set there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

__all__ = ["arithmetic", "has_float64", "precision_of_products"]

_EMULATED = ("tpu",)  # platforms whose compiler makes pairs of float32 of a float64


@contextmanager
def arithmetic(precision: str, products: str | None = None) -> Iterator[None]:
    """Numbers have `precision`, "float32" or "float64", and float32 products the precision `products`.

    Worker threads have a JAX configuration of their own, so they are told `products`; None finds it.
    """
    with jax.enable_x64(precision == "float64"), jax.default_matmul_precision(products or precision_of_products()):
        yield


def precision_of_products() -> str | None:
    """The precision of float32 products in this thread: the user's, else "highest" on an accelerator, None on a CPU."""
    config: Any = jax.config
    chosen: str | None = config.jax_default_matmul_precision
    return "highest" if chosen is None and _platform() != "cpu" else chosen


def has_float64() -> bool:
    """Whether the device computes in float64 by itself."""
    return _platform() not in _EMULATED


def _platform() -> str:
    return jax.default_backend()
