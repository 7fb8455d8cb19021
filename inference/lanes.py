"""Branches and loops for steps of which one program may make many at once, one for each of its chains.

Under `jax.vmap`, a branch with a condition for each chain always makes both sides, and the longest loop keeps all other
chains waiting. In a program of one chain these functions are `lax.cond` and `lax.fori_loop` and nothing else. In a
program whose chains are the axis `CHAINS` of a `jax.vmap`, they ask all chains first: a branch is made if one of them
takes it, and a loop ends early once going on would keep many waiting. What a chain computes is the same either way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

__all__ = ["CHAINS", "most", "repeated", "selected", "when"]

CHAINS = "chains"
"""The name of the axis of chains that one program advances together."""

_PATIENCE = 3  # steps that a chain waits on average: what the end of a trajectory costs, in gradients


def when(condition: jax.Array, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any) -> Any:
    """`then(*operands)` where `condition` holds, else `otherwise(*operands)`."""
    if _alone():
        return lax.cond(condition, then, otherwise, *operands)
    return lax.cond(
        _count(condition) > 0,
        lambda *operands: selected(condition, then(*operands), otherwise(*operands)),
        otherwise,
        *operands,
    )


def most(count: jax.Array) -> jax.Array:
    """`count`, or the largest of the counts of the chains in one program."""
    return count if _alone() else lax.pmax(count, CHAINS)


def repeated(steps: jax.Array, waits: jax.Array, body: Callable[[Any], Any], carry: Any) -> tuple[jax.Array, Any]:
    """Apply `body` to `carry` `steps` times, or less often if too many other chains of the program wait meanwhile.

    Args:
        steps: how often.
        waits: whether this chain, once it has made its steps, has something else to do.
        body: what is done.
        carry: what it is done to.

    Returns:
        How often it was done, at least once for one of the chains that have steps to make, and what has come of it.
    """
    if _alone():
        return steps, lax.fori_loop(0, steps, lambda _, carry: body(carry), carry)
    patience = _PATIENCE * lax.axis_size(CHAINS)

    def turn(loop: tuple[Any, ...]) -> tuple[Any, ...]:
        made, waited, _, carry = loop
        moves = made < steps
        waiting = _count(waits & ~moves)
        fewest = lax.pmin(jnp.where(moves, steps - made, jnp.iinfo(steps.dtype).max), CHAINS)
        bearable = (patience - waited + waiting - 1) // jnp.maximum(waiting, 1)
        count = jnp.where(waiting > 0, jnp.minimum(fewest, bearable), fewest)
        # All chains together, without a choice at each step; those that have made theirs take theirs back.
        carry = selected(moves, lax.fori_loop(0, count, lambda _, carry: body(carry), carry), carry)
        made, waited = made + jnp.where(moves, count, 0), waited + count * waiting
        return made, waited, (_count(made < steps) > 0) & (waited < patience), carry

    # Ends: each turn makes a step of a chain that has steps left, and their number is bounded.
    begin = jnp.zeros_like(steps), jnp.int32(0), _count(steps > 0) > 0, carry
    made, _, _, carry = lax.while_loop(lambda loop: loop[2], turn, begin)
    return made, carry


def selected(condition: jax.Array, new: Any, old: Any) -> Any:
    """The tree of arrays `new` if `condition` holds, else `old`; float64 arrays stay so in a float32 program."""
    return jax.tree.map(partial(lax.select, condition), new, old)


def _count(condition: jax.Array) -> jax.Array:
    """For how many of the chains `condition` holds."""
    return lax.psum(condition.astype(jnp.int32), CHAINS)


def _alone() -> bool:
    """Whether the program that is being traced has one chain."""
    try:
        lax.axis_size(CHAINS)
    except NameError:  # how JAX says that no such axis is bound
        return True
    return False
