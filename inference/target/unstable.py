"""Those parts of NumPyro and JAX in use that they don't promise to keep; `models.effects` has the stack of handlers.

All of them are here, under names that say what they are for, and `tests/unit/test_releases.py` says what broke when a
release changes one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax.extend.core import get_opaque_trace_state
from jax.interpreters.ad import JVPTracer
from numpyro import handlers
from numpyro.distributions import MaskedDistribution
from numpyro.infer.hmc import HMCState, hmc
from numpyro.infer.util import ParamInfo, _unconstrain_reparam, compute_log_probs, constrain_fn, unconstrain_fn

__all__ = [
    "HMCState",
    "ParamInfo",
    "at_position",
    "carries_a_derivative",
    "constrained",
    "hmc",
    "jacobian_sites",
    "log_probs",
    "mask_of",
    "trace_level",
    "unconstrained",
]


def at_position(model: Callable[..., Any], position: dict[str, Any]) -> Callable[..., Any]:
    """The model with its latent sites at an unconstrained position, and a factor for each log-Jacobian."""
    return handlers.substitute(model, substitute_fn=partial(_unconstrain_reparam, position))


def jacobian_sites(position: dict[str, Any]) -> set[str]:
    """The names of the factors that `at_position` adds."""
    return {f"_{name}_log_det" for name in position}


def log_probs(
    model: Callable[..., Any], args: tuple[Any, ...], sites: dict[str, Any]
) -> tuple[dict[str, jax.Array], dict[str, Any]]:
    """The log density of each site, summed over its values, and the trace, with some sites at the values in `sites`."""
    return compute_log_probs(model, args, {}, sites)


def constrained(model: Callable[..., Any], args: tuple[Any, ...], position: dict[str, Any]) -> dict[str, jax.Array]:
    """The sites' own values at an unconstrained position, and the model's deterministic sites."""
    return constrain_fn(model, args, {}, position, return_deterministic=True)


def unconstrained(model: Callable[..., Any], args: tuple[Any, ...], sites: dict[str, Any]) -> dict[str, jax.Array]:
    """The unconstrained position at which the sites have the values in `sites`."""
    return unconstrain_fn(model, args, {}, sites)


def mask_of(distribution: MaskedDistribution) -> Any:
    """Which observations of a masked distribution count."""
    return distribution._mask


def carries_a_derivative(value: Any) -> bool:
    """Whether `value` depends on the inputs that `jax.jvp` differentiates by, within a function that it traces."""
    return isinstance(value, JVPTracer)


def trace_level() -> Any:
    """A value that tells the body of a loop or a branch, which is traced once, from the code around it."""
    return get_opaque_trace_state(convention="nnx")
