"""Laplace's approximation: the mode, the curvature there, and the evidence.

This package is built on `target` and `optimisation`; no other family of methods imports it.
"""

__all__: list[str] = []
