"""The temperature and prior studies: what they compare is alike, and what they print."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

import inference
from experiments import cold_posteriors, priors
from models import Normal
from models.priors import Site
from models.rules import as_prior

SITES = (
    Site("hidden0", "weight", 30),
    Site("hidden0", "bias", 30),
    Site("output", "weight", 10),
    Site("output", "bias", 10),
)


@pytest.mark.parametrize("family", priors.FAMILIES)
def test_every_family_has_the_standard_deviations_of_the_normal_prior(family):
    prior = as_prior(priors.families(2.0, 30, 10)[family])
    for site in SITES:
        assert prior.scale_of(site) == pytest.approx(Normal(2.0, fan_in=True).scale_of(site), rel=1e-5)


def test_what_is_printed(monkeypatch, tmp_path):
    # The sweeps themselves are tested elsewhere; here a MAP point stands in for HMC.
    real = inference.sweep

    def quick(model, *args, method, chains, draws, **options):
        return real(model, *args, method="map", steps=3, tempering="likelihood", **options)

    monkeypatch.setattr(inference, "sweep", quick)
    app = typer.Typer()
    app.command()(cold_posteriors.cold_posteriors)
    done = CliRunner().invoke(app, ["--seeds", "2", "--hidden", "2", "--plot", str(tmp_path / "cold.png")])
    assert done.exit_code == 0, done.output
    assert "paired differences to temperature 1" in done.output
    assert "published: temperature 1 is best" in done.output
    assert (tmp_path / "cold.png").exists()
