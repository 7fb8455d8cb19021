"""ArviZ's two worlds: the same numbers on the same draws, the same groups, and files that open in both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import arviz
import numpy as np
import pytest
import xarray

import diagnostics
import inference
from diagnostics.convergences.spaces import weight_mixing
from inference.host import arviz as seam

REFERENCES = Path(__file__).parents[2] / "references"


def _draws() -> np.ndarray:
    """Four chains of five quantities: plain, skewed, one chain apart, rounded, and without a mean."""
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(4, 500, 5))
    draws = np.zeros_like(noise)
    for i in range(1, 500):
        draws[:, i] = 0.8 * draws[:, i - 1] + noise[:, i]
    draws[..., 1] = np.exp(draws[..., 1])
    draws[0, :, 2] += 1
    draws[..., 3] = np.round(draws[..., 3])
    draws[..., 4] = generator.standard_cauchy(size=draws.shape[:2])
    return draws


def _log_weights() -> np.ndarray:
    """A thousand weights of each of four spreads."""
    return np.random.default_rng(1).normal(size=(4, 1000)) * np.array([0.1, 0.5, 1, 3])[:, None]


# As ArviZ 0.23.4, arviz-stats 0.8.0 and arviz-stats 1.3.3 computed them; k-hat and the weights as the last two.
STORED = {
    "rhat": [1.022131885, 1.007546903, 1.074353668, 1.02125833, 1.000694926],
    "rhat z_scale": [1.022131885, 1.007546903, 1.074353668, 1.02125833, 1.000694926],
    "rhat folded": [1.004162027, 1.005532955, 1.00531662, 1.000633458, 1.000047591],
    "ess bulk": [261.6939058, 248.0060722, 118.8441134, 244.6170879, 2034.015551],
    "ess tail": [448.4417943, 370.225093, 231.6581011, 392.4893466, 2025.08597],
    "ess mean": [261.4874001, 433.1074641, 109.7720422, 243.6377869, 1923.240073],
    "ess of one chain": [53.35481654, 72.86927116, 53.57378999, 54.65645659, 477.991314],
    "mcse": [0.1030626594, 1.090383353, 0.160431452, 0.1090262659, 1.200635251],
    "bfmi": [0.3992374184, 0.4411379511, 0.4417140534, 0.3651936091],
    "k-hat": [-0.04593989208, 0.09174703605, 0.310498237, 1.3233708],
    "largest log weight": [-6.532313819, -5.462163662, -4.218053871, -0.7107282644],
    "leave one out": [-0.1495866907, -0.7486928403, -1.413125382, -6.779317866],
}


def _computed() -> dict[str, np.ndarray]:
    draws, weights = _draws(), _log_weights()
    smoothed, shapes = zip(*(seam.pareto_smoothed(row, 0.7) for row in weights), strict=True)
    return {
        "rhat": seam.rhat(draws),
        "rhat z_scale": seam.rhat(draws, "z_scale"),
        "rhat folded": seam.rhat(draws, "folded"),
        "ess bulk": seam.ess(draws, "bulk"),
        "ess tail": seam.ess(draws, "tail"),
        "ess mean": seam.ess(draws, "mean"),
        "ess of one chain": seam.ess(draws[:1]),
        "mcse": seam.mcse(draws),
        "bfmi": seam.bfmi(draws[..., 0]),
        "k-hat": np.array(shapes),
        "largest log weight": np.array([row.max() for row in smoothed]),
        "leave one out": np.array(
            [np.log(np.exp(row - 2 * np.abs(log)).sum()) for row, log in zip(smoothed, weights, strict=True)]
        ),
    }


@pytest.mark.parametrize("name", STORED)
def test_numbers_are_the_same_in_both_worlds(name):
    np.testing.assert_allclose(_computed()[name], STORED[name], rtol=1e-6)


def test_numbers_are_those_that_a_user_of_arviz_computes():
    draws = _draws()
    dataset = arviz.convert_to_dataset({"q": draws})
    np.testing.assert_allclose(seam.rhat(draws), arviz.rhat(dataset)["q"])
    for kind, quantiles in (("bulk", {}), ("tail", {"prob": (0.05, 0.95)}), ("mean", {})):  # 1.x has others by default
        np.testing.assert_allclose(seam.ess(draws, kind), arviz.ess(dataset, method=kind, **quantiles)["q"])
    np.testing.assert_allclose(seam.mcse(draws), arviz.mcse(dataset, method="mean")["q"])


WITHOUT_A_TAIL = {
    "few draws": np.linspace(0, 1, 29),
    "all the same": np.zeros(1000),
    "all but one are the same": np.r_[np.zeros(999), 5.0],
    "all but ten are nothing": np.r_[np.full(990, -1e4), np.linspace(0, 1, 10)],
}


@pytest.mark.parametrize("case", WITHOUT_A_TAIL)
def test_weights_without_a_tail_are_left_as_they_are(case):
    smoothed, k = seam.pareto_smoothed(WITHOUT_A_TAIL[case])
    assert k == np.inf
    assert np.exp(smoothed).sum() == pytest.approx(1)
    np.testing.assert_allclose(np.diff(smoothed), np.diff(WITHOUT_A_TAIL[case]), atol=1e-9)


def test_groups_are_those_of_the_world_that_is_installed(conjugate):
    groups = replace(conjugate.exact(2, 30), statistics={"lp": np.zeros((2, 30))}).idata
    first_world = arviz.__version__.startswith("0.")
    assert type(groups).__name__ == ("InferenceData" if first_world else "DataTree")
    assert groups.posterior["output.weight"].dims == ("chain", "draw", "output.weight_dim_0", "output.weight_dim_1")
    assert groups.observed_data["y"].dims == ("y_dim_0",)
    assert groups.posterior.attrs["method"] == "nuts"
    assert set(seam.group_names(groups)) == {"posterior", "sample_stats", "observed_data"}


@pytest.mark.parametrize("world", ["0.23", "1.3"])
def test_a_file_opens_in_both_worlds(world, conjugate):
    groups = arviz.from_netcdf(REFERENCES / f"groups-{world}.nc")
    written, others = seam.by_chain_and_draw(groups["posterior"])
    posterior = conjugate.exact(2, 30)
    assert not others
    for name, values in posterior.draws.items():
        np.testing.assert_array_equal(written[name], values)
    np.testing.assert_array_equal(groups["observed_data"]["y"], posterior.observed["y"])
    assert diagnostics.convergence(groups).weights.names == weight_mixing(posterior).names


def test_chains_of_another_program_are_judged_as_ours(conjugate):
    posterior = conjugate.exact(4, 1000)
    as_groups = [
        posterior.idata,
        xarray.DataTree.from_dict({"posterior": xarray.Dataset(posterior.idata.posterior.data_vars)}),
    ]
    expected = weight_mixing(posterior)
    for groups in as_groups:
        found = diagnostics.convergence(groups)
        assert found.passed
        assert found.functions is None
        np.testing.assert_array_equal(found.weights.rhat, expected.rhat)
        np.testing.assert_array_equal(found.weights.ess_tail, expected.ess_tail)
    with pytest.raises(ValueError, match="needs a group 'posterior'"):
        diagnostics.convergence(xarray.DataTree.from_dict({"prior": xarray.Dataset()}))
    turned = xarray.Dataset({"w": (("draw", "chain"), posterior.draws["output.bias"][..., 0].T)})
    found = diagnostics.convergence(xarray.DataTree.from_dict({"posterior": turned}))
    np.testing.assert_array_equal(found.weights.rhat, expected.rhat[:1])
    flat = xarray.Dataset({"w": (("x", "sample"), np.zeros((4, 100)))})
    with pytest.raises(ValueError, match="chain and draw, and 'w' has not"):
        diagnostics.convergence(xarray.DataTree.from_dict({"posterior": flat}))
    with pytest.raises(ValueError, match="those of svi, which R-hat always passes"):
        diagnostics.convergence(replace(posterior, method=inference.SVI()).idata)
    with pytest.raises(TypeError, match=r"or ArviZ's groups of draws, got dict"):
        diagnostics.convergence({"w": np.zeros((4, 10))})


def test_what_another_program_says_of_its_draws_counts(conjugate):
    posterior = conjugate.exact(4, 1000)
    diverging = np.zeros((4, 1000), bool)
    diverging[:, ::10] = True
    groups = {
        "posterior": xarray.Dataset(posterior.idata.posterior.data_vars),
        "sample_stats": xarray.Dataset({"diverging": (("chain", "draw"), diverging)}),
    }
    found = diagnostics.convergence(xarray.DataTree.from_dict(groups))
    assert not found.passed
    assert found.divergences == 400
    short = diagnostics.convergence(conjugate.exact(4, 60).idata)
    assert "Run longer: about draws=" in str(short)
    assert "until=" not in str(short)
