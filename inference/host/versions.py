"""The versions of packages, for pages and records."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["version_of"]


def version_of(package: str) -> str:
    """The version of a package that is installed; Touchstone itself may also be run from where its files are."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
