"""Shared by the tests of downloads and of the cache."""

from __future__ import annotations

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache directory of the test's own."""
    monkeypatch.setenv("TOUCHSTONE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"
