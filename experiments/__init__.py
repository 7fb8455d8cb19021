"""Experiments: one file per study or published table."""

__all__: list[str] = []
