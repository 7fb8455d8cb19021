"""Which arrangement is taken, and what is said of it."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest

import diagnostics
import inference
from inference.engine.arrangements import arrange, for_hosts
from inference.host import arithmetic
from inference.host.machine import Cost, device_memory


@pytest.mark.parametrize(
    ("platform", "devices", "chains", "asked", "name", "why"),
    [
        ("cpu", 1, 4, "auto", "threads", "on a CPU"),
        ("cpu", 8, 4, "auto", "threads", "on a CPU"),
        ("gpu", 1, 4, "auto", "vectorised", "the accelerator is busy only with many chains"),
        ("gpu", 1, 1, "auto", "threads", "one chain and one accelerator"),
        ("tpu", 4, 8, "auto", "sharded", "there are 4 accelerators"),
        ("tpu", 4, 1, "auto", "sharded", "there are 4 accelerators"),
        ("cpu", 1, 2, "sharded", "sharded", "asked for"),
        ("gpu", 1, 4, "threads", "threads", "asked for"),
        ("cpu", 1, 1, "vectorised", "vectorised", "asked for"),
    ],
)
def test_what_fits_the_machine_is_taken(monkeypatch, platform, devices, chains, asked, name, why):
    for function in ("devices", "local_devices"):
        monkeypatch.setattr(jax, function, lambda: [SimpleNamespace(platform=platform)] * devices)
    arrangement, said = arrange(inference.HMC(chains=chains, arrangement=asked))
    assert arrangement.name == name
    assert why in said


def test_several_hosts_share_one_program(monkeypatch):
    assert for_hosts(inference.HMC()).arrangement == "auto"
    monkeypatch.setattr("inference.engine.arrangements.count", lambda: 2)
    monkeypatch.setattr("inference.host.hosts.count", lambda: 2)
    for method in (inference.HMC(), inference.SGLD(arrangement="sharded")):
        assert for_hosts(method).record()["options"]["arrangement"] == "sharded"  # so another number of hosts knows
    for method in (inference.HMC(), inference.SVI(), inference.Ensemble()):
        arrangement, why = arrange(for_hosts(method))
        assert (arrangement.name, why) == ("sharded", "there are 2 hosts")
    for method, said in ((inference.NUTS(arrangement="threads"), "threads"), (inference.SVI(restarts=3), "restarts=3")):
        with pytest.raises(ValueError, match=f"{said}.* on 2 hosts, which is not supported"):
            for_hosts(method)


def test_what_has_no_chains_of_its_own_runs_in_threads():
    assert arrange(inference.SVI())[0].name == "threads"
    assert arrange(inference.Ensemble())[0].name == "threads"


@pytest.mark.parametrize("method", ["hmc", "nuts", "mclmc", "sgld", "sghmc"])
def test_every_sampler_has_the_option(method):
    for name in ("auto", "threads", "vectorised", "sharded"):
        assert inference.METHODS[method](arrangement=name).arrangement == name
    with pytest.raises(ValueError, match=rf"{method}: arrangement must be one of .* got 'pmap'"):
        inference.METHODS[method](arrangement="pmap")


def test_a_pilot_is_arranged_as_its_chains(conjugate):
    for method in (inference.HMC, inference.NUTS, inference.MCLMC):
        options = {} if method is inference.HMC else {"mass": "tuned"}
        asked = method(arrangement="vectorised", **options)
        bound = inference.target.binding.bind(conjugate.model, (conjugate.x, conjugate.y), 1.0, "posterior")
        assert asked.pilot(asked.settings(bound.target, bound.data)).arrangement == "vectorised"


def test_cost_and_report_say_which_and_why(conjugate, tmp_path):
    posterior = conjugate.run(method="hmc", chains=2, draws=10, warmup=0, step_size=0.05, start="random")
    assert (posterior.cost.arrangement, posterior.cost.arranged[:9]) == ("threads", "on a CPU,")
    assert posterior.cost.products == ""
    text = diagnostics.report(posterior, path=tmp_path / "r.html").read_text()
    assert "chains in threads: on a CPU, chains in threads are faster than chains in one program." in text
    posterior.save(tmp_path / "p.npz")
    assert inference.load(tmp_path / "p.npz").cost == posterior.cost


def test_a_run_says_how_precise_its_products_are(conjugate, tmp_path, monkeypatch):
    options = dict(method="hmc", chains=1, draws=20, warmup=0, step_size=0.05, start="random")
    monkeypatch.setattr(
        arithmetic, "_platform", lambda: "tpu"
    )  # its float64 is dear, and its products are not float32's
    posterior = conjugate.run(**options, directory=tmp_path / "run")
    assert posterior.cost.products == "highest"
    assert posterior.statistics["acceptance_rate"].mean() > 0.9
    assert posterior.statistics["energy_noise"].max() < 1e-3
    assert '"jax_default_matmul_precision": "highest"' in (tmp_path / "run" / "run.json").read_text()
    text = diagnostics.report(posterior, path=tmp_path / "r.html").read_text()
    assert "Products of float32 numbers have JAX&#39;s precision &#39;highest&#39;." in text
    with (
        jax.default_matmul_precision("high"),
        pytest.raises(ValueError, match="matmul_precision: 'highest' there, 'high'"),
    ):
        inference.resume(tmp_path / "run", progress=False)


def test_costs_add_up_to_the_arrangement_of_the_chains():
    one, other = Cost(1.0, 1.0, 1, 1, "threads", "a"), Cost(1.0, 1.0, 1, 1, "vectorised", "b")
    assert (one + other).arranged == "b"
    assert (one + Cost(1.0, 1.0, 1, 1)).arrangement == "threads"


def test_the_memory_of_a_device_is_what_it_says_or_the_machines():
    stats = {"bytes_limit": 1000, "bytes_in_use": 300}
    assert device_memory(SimpleNamespace(memory_stats=lambda: stats)) == 700.0
    assert device_memory(SimpleNamespace(memory_stats=lambda: None)) > 2**20
