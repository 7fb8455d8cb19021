"""Laplace's approximation: the mode, the curvature there, and the evidence.

Built on `target` and `optimisation`; no other method imports it.
"""

__all__: list[str] = []
