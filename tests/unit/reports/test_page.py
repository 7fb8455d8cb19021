"""The report: what it says, that it is self-contained, and that it escapes what it shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

import diagnostics
import inference
from diagnostics.reports.page import default_reference


def test_the_reference_is_exact_chains_unless_it_is_named(regression, tmp_path):
    posteriors, test = regression
    biased = replace(posteriors["nuts"], method=inference.SGLD(draws=100))
    assert default_reference({"sgld": biased, **posteriors}) == "nuts"
    assert default_reference({"sgld": biased}) == "sgld"
    assert default_reference({"map": posteriors["map"]}) is None
    for given in (posteriors, posteriors["nuts"]):
        with pytest.raises(ValueError, match=r"reference must be one of .*nuts, got 'hmc'"):
            diagnostics.report(given, test, path=tmp_path / "r.html", reference="hmc")


@pytest.mark.parametrize(("given", "message"), [(42, "got int"), ([1], "got list")])
def test_what_can_not_be_reported(given, message):
    with pytest.raises(TypeError, match=message):
        diagnostics.report(given)


def test_report_of_nothing():
    with pytest.raises(ValueError, match="at least one posterior"):
        diagnostics.report({})
