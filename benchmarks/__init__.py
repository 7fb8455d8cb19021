"""Benchmarks: one file per question; every timing is a ratio against a peer in the same run."""

__all__: list[str] = []
