"""Symmetries: undoing them leaves the function, brings permuted chains together, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import inference
import models
from diagnostics import convergence
from diagnostics.convergences import symmetries
from diagnostics.convergences.spaces import aligned_mixing, weight_mixing
from diagnostics.convergences.symmetries import Alignment, is_odd

CHAINS, DRAWS, INPUTS = 4, 60, 3


def _shapes(hidden: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    widths = [INPUTS, *hidden, 1]
    layers = [*(f"hidden{i}" for i in range(len(hidden))), "output"]
    pairs = zip(layers, widths[:-1], widths[1:], strict=True)
    return {
        name: shape
        for layer, before, after in pairs
        for name, shape in ((f"{layer}.weight", (before, after)), (f"{layer}.bias", (after,)))
    }


def _posterior(hidden: tuple[int, ...], activation: str, spread: float, scramble: bool) -> inference.Posterior:
    """Chains around one set of weights, each draw of them with its units in another order, and other signs for tanh."""
    generator = np.random.default_rng(0)
    centre = {name: generator.normal(size=shape) for name, shape in _shapes(hidden).items()}
    draws = {
        name: value + spread * generator.normal(size=(CHAINS, DRAWS, *value.shape)) for name, value in centre.items()
    }
    if scramble:
        layers = [*(f"hidden{i}" for i in range(len(hidden))), "output"]
        for chain in range(CHAINS):
            for i, units in enumerate(hidden):
                order = generator.permutation(units)
                sign = generator.choice([-1.0, 1.0], units) if is_odd(activation) else np.ones(units)
                here, after = layers[i], layers[i + 1]
                for name in (f"{here}.weight", f"{here}.bias"):
                    draws[name][chain] = draws[name][chain][..., order] * sign
                draws[f"{after}.weight"][chain] = draws[f"{after}.weight"][chain][:, order] * sign[:, None]
    model = models.mlp(hidden, activation, likelihood=models.Gaussian(scale=1.0))
    return inference.Posterior(
        model=model,
        method=inference.NUTS(),
        seed=0,
        temperature=1.0,
        tempering="posterior",
        draws=draws,
        statistics={
            "lp": generator.normal(size=(CHAINS, DRAWS)),
            "diverging": np.zeros((CHAINS, DRAWS), bool),
        },
        curves={},
        observed={},
        probes=generator.normal(size=(5, INPUTS)).astype(np.float32),
        deterministic=(),
        cost=inference.host.machine.Cost(1.0, 1.0, 100, 1),
    )


@pytest.mark.parametrize(
    ("name", "odd"), [("tanh", True), ("relu", False), ("silu", False), ("sigmoid", False), (lambda z: z**3, True)]
)
def test_only_odd_activations_have_signs(name, odd):
    assert is_odd(name) == odd


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("hidden", [(6,), (6, 5), (4, 3, 5)])
def test_aligned_draws_are_those_before_the_scrambling(hidden, activation):
    before = weight_mixing(_posterior(hidden, activation, 0.02, scramble=False))
    scrambled = _posterior(hidden, activation, 0.02, scramble=True)
    after = aligned_mixing(scrambled)
    assert weight_mixing(scrambled).worst_rhat > 2
    assert after.worst_rhat < 1.1
    # In whatever order the pivot has its units, each is as spread as it was; nothing is lost or counted twice.
    np.testing.assert_allclose(
        np.sort(np.abs(after.draws.mean(axis=(0, 1)))), np.sort(np.abs(before.draws.mean(axis=(0, 1)))), atol=1e-6
    )
    assert after.names == before.names


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_aligned_draws_are_the_same_functions(activation):
    posterior = _posterior((6, 5), activation, 0.8, scramble=True)  # far apart: units do not correspond
    alignment = Alignment.of(posterior)
    moved = {
        name: alignment.gather(name, values, np.arange(values[0, 0].size)).reshape(values.shape)
        if name in alignment
        else values
        for name, values in posterior.draws.items()
    }
    assert not np.allclose(moved["hidden1.weight"], posterior.draws["hidden1.weight"])
    expected, found = posterior.predict(posterior.probes), replace(posterior, draws=moved).predict(posterior.probes)
    np.testing.assert_allclose(found.outputs, expected.outputs, rtol=2e-5, atol=2e-5)


def test_of_a_large_network_some_draws_are_aligned(monkeypatch):
    posterior = _posterior((6,), "tanh", 0.02, scramble=True)
    monkeypatch.setattr(symmetries, "_EFFORT", 30 * CHAINS * 6**3)
    found, every = aligned_mixing(posterior), symmetries.Alignment.of(posterior)
    assert found.draws.shape[1] == 30
    assert (every.draws[0], every.draws[-1], len(every.draws)) == (0, DRAWS - 1, 30)
    assert found.worst_rhat < 1.15
    bias = [name.startswith("output.bias") for name in found.names].index(True)
    np.testing.assert_array_equal(found.draws[..., bias], posterior.draws["output.bias"][:, every.draws, 0])
    weights = [i for i, name in enumerate(found.names) if name.startswith("hidden0.weight")]
    expected = np.sort(np.abs(posterior.draws["hidden0.weight"][:, every.draws].reshape(CHAINS, 30, -1)), axis=-1)
    np.testing.assert_allclose(np.sort(np.abs(found.draws[..., weights]), axis=-1), expected)  # in whatever order
    monkeypatch.setattr(symmetries, "_EFFORT", 5 * CHAINS * 6**3)
    assert symmetries.Alignment.of(posterior) is None


def test_chains_that_differ_in_their_function_stay_apart():
    posterior = _posterior((6,), "tanh", 0.02, scramble=True)
    posterior.draws["hidden0.weight"][0] *= 1.5
    assert aligned_mixing(posterior).worst_rhat > 1.5


def test_the_verdict_says_what_the_symmetries_explain():
    judged = convergence(_posterior((6,), "tanh", 0.02, scramble=True), ess=100, rhat=1.1)
    assert judged.passed
    assert "once the order and signs of units are undone" in judged.verdict
    assert judged.aligned.worst_rhat < 1.1 < judged.weights.worst_rhat


def test_weights_over_an_inferred_scale_are_aligned_too():
    posterior = _posterior((6,), "tanh", 0.02, scramble=True)
    plain = aligned_mixing(posterior)
    scales = {
        f"{layer}.scale": np.full((CHAINS, DRAWS), 2.0) + 0.1 * plain.draws[..., 0] for layer in ("hidden0", "output")
    }
    standard = {f"{name}.standard": values / 2.0 for name, values in posterior.draws.items()}
    layered = replace(posterior, draws={**posterior.draws, **standard, **scales}, deterministic=tuple(posterior.draws))
    after = aligned_mixing(layered)
    assert {name.partition("[")[0] for name in after.names} == {*standard, *scales}
    assert weight_mixing(layered).worst_rhat > 2
    assert after.worst_rhat < 1.1


@pytest.mark.parametrize("hidden", [(), (600,)])
def test_without_hidden_units_or_with_too_many_there_is_no_alignment(hidden):
    shapes = _shapes(hidden)
    posterior = replace(
        _posterior((2,), "relu", 1.0, scramble=False),
        model=models.mlp(hidden, likelihood=models.Gaussian(scale=1.0)),
        draws={name: np.ones((2, 4, *shape)) for name, shape in shapes.items()},
        statistics={"lp": np.zeros((2, 4))},
    )
    assert Alignment.of(posterior) is None
