"""Canaries: what the project uses of NumPyro and JAX that they don't promise to keep.

When a release breaks one of these, the test says which file of ours to mend (`models/effects.py`,
`inference/target/unstable.py` or `inference/host/hosts.py`) and what it relies on. Shapes and names alone are looked
at: nothing is compiled.
"""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax._src.lib import _jax
from numpyro import handlers

from inference.host import hosts
from inference.target import unstable
from models.effects import Messenger, ask


def _model(y=None):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.deterministic("twice", 2 * scale)
    numpyro.sample("y", dist.Normal(0.0, scale).expand([3]).to_event(1), obs=y)


POSITION = {"scale": jax.ShapeDtypeStruct((), np.float32)}
Y = np.zeros(3, np.float32)


def test_a_message_of_our_own_reaches_a_handler_and_is_answered():
    class Answer(Messenger):
        def process_message(self, msg):
            seen.append({key: msg[key] for key in ("type", "name", "args")})
            msg["value"] = "answered"

    seen: list[dict] = []
    assert ask("layer", "hidden", lambda x: x + 1, 1) == 2, "models/effects.py: a stack without handlers must compute"
    with Answer():
        assert ask("layer", "hidden", lambda x: x, 1) == "answered", "models/effects.py: apply_stack no longer asks"
    assert seen == [{"type": "layer", "name": "hidden", "args": (1,)}]


def test_handlers_of_numpyros_own_let_our_messages_pass():
    with handlers.trace() as trace, handlers.substitute(data={}), handlers.block():
        answer = ask("layer", "hidden", lambda x: x + 1, 1)
    assert answer == 2, "models/effects.py: a handler of NumPyro's answers a message that is not its own"
    assert not trace


def test_a_position_is_substituted_with_a_factor_for_its_jacobian():
    found = {}

    def look(position):
        by_site, trace = unstable.log_probs(unstable.at_position(_model, position), (Y,), {})
        found.update(names=set(by_site), observed={name for name in by_site if trace[name]["is_observed"]})
        return by_site

    shapes = jax.eval_shape(look, POSITION)
    said = "inference/target/unstable.py: _unconstrain_reparam names its factors otherwise, or compute_log_probs does"
    assert unstable.jacobian_sites(POSITION) == {"_scale_log_det"}
    assert found["names"] == {"scale", "y", "_scale_log_det"}, said
    assert found["observed"] == {"y", "_scale_log_det"}, said
    assert all(shape.shape == () for shape in shapes.values()), f"{said}: log densities are no longer summed"


def test_sites_and_positions_are_each_others_inverse():
    values = jax.eval_shape(lambda position: unstable.constrained(_model, (Y,), position), POSITION)
    said = "inference/target/unstable.py: constrain_fn or unconstrain_fn takes or gives something else"
    assert {"scale", "twice"} <= set(values), said
    back = jax.eval_shape(lambda sites: unstable.unconstrained(_model, (Y,), sites), {"scale": values["scale"]})
    assert {name: leaf.shape for name, leaf in back.items()} == {"scale": ()}, said


def test_a_masked_distribution_has_its_mask():
    mask = np.array([True, False])
    masked = jax.eval_shape(lambda: jnp.asarray(unstable.mask_of(dist.Normal(0.0, 1.0).expand([2]).mask(mask))))
    assert masked.shape == (2,), "inference/target/unstable.py: MaskedDistribution keeps its mask elsewhere"


def test_what_depends_on_the_position_carries_a_derivative():
    found = []

    def look(x):
        found.extend([unstable.carries_a_derivative(2 * x), unstable.carries_a_derivative(jnp.zeros(()))])
        return x

    jax.eval_shape(lambda x: jax.jvp(look, (x,), (x,)), jax.ShapeDtypeStruct((), np.float32))
    assert found == [True, False], "inference/target/unstable.py: jax.jvp traces with another class than JVPTracer"


def test_the_body_of_a_loop_is_at_another_level():
    levels = []

    def body(carry, _):
        levels.append(unstable.trace_level())
        return carry, None

    def outside(x):
        levels.append(unstable.trace_level())
        levels.append(unstable.trace_level())
        return jax.lax.scan(body, x, None, length=2)[0]

    jax.eval_shape(outside, jax.ShapeDtypeStruct((), np.float32))
    said = "inference/target/unstable.py: get_opaque_trace_state no longer tells the body of a loop from what is around"
    assert levels[0] == levels[1], said
    assert levels[0] != levels[2], said


def test_numpyros_hmc_still_takes_what_nuts_gives_it():
    said = "inference/target/unstable.py: numpyro.infer.hmc.hmc, around which inference/mcmc/nuts.py is built, changed"
    init_kernel, sample_kernel = unstable.hmc(lambda position: position["x"], algo="NUTS")
    taken = set(inspect.signature(init_kernel).parameters)
    wanted = {"num_warmup", "step_size", "adapt_step_size", "target_accept_prob", "trajectory_length", "max_tree_depth"}
    assert wanted | {"rng_key"} <= taken, said
    assert callable(sample_kernel), said
    kept = {"z", "z_grad", "potential_energy", "energy", "num_steps", "accept_prob", "diverging", "adapt_state"}
    assert kept | {"rng_key"} <= set(unstable.HMCState._fields), said
    assert unstable.ParamInfo._fields == ("z", "potential_energy", "z_grad"), said


def test_the_coordinators_store_can_be_written_and_read():
    said = "inference/host/hosts.py: jax._src.distributed.global_state.client, the coordinator's store, changed"
    assert hosts.global_state.client is None, said  # this process is no host
    named = {"key_value_set", "blocking_key_value_get", "key_value_dir_get", "key_value_delete"}
    assert named <= set(dir(_jax.DistributedRuntimeClient)), said
    taken = set(inspect.signature(jax.distributed.initialize).parameters)
    assert {"coordinator_bind_address", "heartbeat_timeout_seconds", "shutdown_timeout_seconds"} <= taken, said
