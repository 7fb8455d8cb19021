"""Posteriors side by side: scores with paired errors, distances to the reference beside its noise floor.

Built on `convergences`; figures and the report are built on it.
"""

__all__: list[str] = []
