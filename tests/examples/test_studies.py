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


@pytest.fixture
def command(monkeypatch):
    """A study as a command; the sweeps themselves are tested elsewhere, here a MAP point stands in for HMC."""
    real = inference.sweep

    def quick(model, *args, method, trajectory_length, chains, draws, **options):
        assert (method, trajectory_length) == ("hmc", "prior")  # as in the paper
        return real(model, *args, method="map", steps=3, tempering="likelihood", **options)

    monkeypatch.setattr(inference, "sweep", quick)

    def run(study, *options):
        app = typer.Typer()
        app.command()(study)
        done = CliRunner().invoke(app, ["--seeds", "2", "--hidden", "2", *options])
        assert done.exit_code == 0, done.output
        return done.output

    return run


def test_temperatures(command, tmp_path):
    output = command(cold_posteriors.cold_posteriors, "--plot", str(tmp_path / "cold.png"))
    assert "paired differences to temperature 1" in output
    assert "published: temperature 1 is best" in output
    assert (tmp_path / "cold.png").exists()


def test_priors(command, monkeypatch, tmp_path):
    monkeypatch.setattr(priors, "SCALES", (0.3, 10.0))
    output = command(priors.priors, "--plot", str(tmp_path / "priors.png"))
    assert "paired differences to prior_scale 10" in output
    assert "paired differences to prior normal" in output
    assert all(f"\n{family} " in output for family in priors.FAMILIES)
    assert "-0.311" in output  # as published
    assert (tmp_path / "priors.png").exists()
