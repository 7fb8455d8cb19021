"""Branches and loops of many chains in one program: none is made for nothing, and none keeps all others waiting."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference.lanes import CHAINS, most, repeated, selected, when


def _together(function, *arguments):
    return jax.jit(jax.vmap(function, axis_name=CHAINS))(*arguments)


@pytest.mark.parametrize("taken", [[False, False], [True, False], [True, True]])
def test_a_branch_is_made_where_a_chain_takes_it(taken):
    calls = []

    def one(condition, x):
        def then():
            jax.debug.callback(lambda x: calls.append(x), x)
            return x + 1

        return when(condition, then, lambda: x)

    found = _together(one, jnp.array(taken), jnp.array([1.0, 2.0]))
    jax.effects_barrier()
    np.testing.assert_array_equal(found, np.array([1.0, 2.0]) + taken)
    assert bool(calls) == any(taken)


def test_a_program_of_one_chain_has_plain_branches_and_loops():
    assert int(jax.jit(lambda: when(jnp.bool_(True), lambda: 1, lambda: 2))()) == 1
    assert int(most(jnp.int32(3))) == 3
    made, total = jax.jit(lambda steps: repeated(steps, jnp.bool_(True), lambda x: x + 2, 0))(5)
    assert (int(made), int(total)) == (5, 10)


def test_chains_that_wait_end_a_loop_early():
    def one(steps, waits):
        return repeated(steps, waits, lambda x: x + 1.0, jnp.float32(0))

    steps = jnp.array([2, 4, 1000, 0], jnp.int32)
    made, total = _together(one, steps, jnp.array([True, True, False, False]))
    np.testing.assert_array_equal(made, total)
    assert list(made[jnp.array([0, 1, 3])]) == [2, 4, 0]
    assert 4 < int(made[2]) < 20  # two of four chains waited
    made, _ = _together(one, steps, jnp.zeros(4, bool))
    assert list(made) == [2, 4, 1000, 0]


def test_each_turn_makes_a_step():
    def one(steps):
        return repeated(steps, jnp.bool_(True), lambda x: x + 1.0, jnp.float32(0))[0]

    assert int(_together(one, jnp.array([0, 0, 0, 0, 0, 9], jnp.int32))[5]) >= 1


def test_float64_stays_float64_in_a_float32_program():
    with jax.enable_x64(True):
        new, old = jnp.float64(1) / 3, jnp.float64(2) / 3
    assert selected(jnp.bool_(True), new, old).dtype == jnp.float64
