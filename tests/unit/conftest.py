"""The unit tier: nothing is compiled here, so that it stays as quick as it is."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _nothing_is_compiled(compiled_for_the_test):
    """A test that compiles a program fails."""
    yield
    programs = compiled_for_the_test()
    assert not programs, (
        f"this test compiled {programs} programs, and this tier compiles none: look at shapes by jax.eval_shape, use "
        "a posterior that is made up (`conjugate.exact`), or move the test to tests/runs"
    )
