"""Versions of packages, also where Touchstone is run without having been installed."""

from __future__ import annotations

import numpy as np

from inference.host.versions import version_of


def test_a_package_that_is_not_installed_has_no_version_and_is_no_error():
    assert version_of("numpy") == np.__version__
    assert version_of("touchstone-of-nobody") == "not installed"
