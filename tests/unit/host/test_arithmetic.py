"""The precision of products, and what is asked of a device that has no float64."""

from __future__ import annotations

import threading

import jax
import pytest

from inference.host import arithmetic
from inference.host.machine import Cost


@pytest.mark.parametrize(
    ("platform", "chosen", "expected"),
    [
        ("cpu", None, None),
        ("gpu", None, "highest"),
        ("tpu", None, "highest"),
        ("tpu", "high", "high"),
        ("gpu", "default", "default"),
        ("cpu", "bfloat16", "bfloat16"),
    ],
)
def test_products_are_float32s_unless_the_user_chooses(monkeypatch, platform, chosen, expected):
    monkeypatch.setattr(arithmetic, "_platform", lambda: platform)
    with jax.default_matmul_precision(chosen):
        assert arithmetic.precision_of_products() == expected
        for precision in ("float32", "float64"):
            with arithmetic.arithmetic(precision):
                assert jax.config.jax_default_matmul_precision == expected
                assert jax.config.jax_enable_x64 == (precision == "float64")
        assert jax.config.jax_default_matmul_precision == chosen
    assert arithmetic.has_float64() == (platform != "tpu")


def test_a_worker_is_told_what_the_users_thread_chose():
    seen = []

    def work(products):
        with arithmetic.arithmetic("float32", products):
            seen.append(jax.config.jax_default_matmul_precision)

    with jax.default_matmul_precision("high"):
        for products in (arithmetic.precision_of_products(), None):
            thread = threading.Thread(target=work, args=(products,))
            thread.start()
            thread.join()
    assert seen == ["high", None]  # on its own, a thread has the defaults of the process


def test_costs_add_up_to_the_products_of_the_chains():
    one, other = Cost(1.0, 1.0, 1, 1, products="highest"), Cost(1.0, 1.0, 1, 1, products="high")
    assert (one + other).products == "high"
    assert (one + Cost(1.0, 1.0, 1, 1)).products == "highest"
